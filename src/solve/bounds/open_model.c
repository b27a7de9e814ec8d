// SPDX-License-Identifier: Apache-2.0
// Builds the open relaxation. Every schedule satisfies, with D[k,v] = d[k,v] and D = 1 at the end,
//   d[k,v] <= d[k,p]                  p makes an operand of v
//   d[k,v] <= d[k+1,v]
//   s[k,x] <= d[k,p]                  p makes x
//   D[k+1,v] - d[k,v] <= e[k,v] <= D[k+1,v]
//   e[k,v] <= s[k,x] + e[k,p]         x an operand of v made by p: it was live at the cut or has been made since
//   s[k+1,x] <= s[k,x] + e[k,p],      and 1 for a result at the end
//   sum of m_x s[k,x] over storages that t does not touch, plus the working set of t, <= budget
// where cut k comes right after the first computation of t. Its cost is at least the sum of c_v d[0,v], each computed before
// the first cut, and of c_v e[k,v].
#include "solve/bounds/open_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/bounds/stage_model.h"
#include "solve/core/structure.h"

typedef struct builder {
    const ckm_dataflow *df;
    ckm_i_open_model *out;
    ckm_i_milp *m;
    int32_t *group_col;  // per storage: column of its presence at a cut, -1
    ckm_i_open_reach reach;
} builder;

void ckm_i_open_find_reach(const ckm_dataflow *df, int32_t from, ckm_i_open_reach *out)
{
    memset(out->before, 0, (size_t)df->n_ops * sizeof *out->before);
    memset(out->after, 0, (size_t)df->n_ops * sizeof *out->after);
    for (int32_t v = from; v >= 0; v--) {
        for (int32_t i = 0; (v == from || out->before[v]) && i < df->ops[v].n_inputs; i++) {
            int32_t p = df->tensors[df->ops[v].inputs[i]].producer;
            if (p >= 0) {
                out->before[p] = true;
            }
        }
    }
    for (int32_t v = from + 1; v < df->n_ops; v++) {
        for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
            int32_t p = df->tensors[df->ops[v].inputs[i]].producer;
            out->after[v] = out->after[v] || (p >= 0 && (p == from || out->after[p]));
        }
    }
}

// A term of a row; a column of d may be a constant instead.
static void put_done(ckm_i_milp *m, int32_t col, double factor)
{
    if (col >= 0) {
        ckm_i_milp_put(m, col, factor);
    } else if (col == CKM_I_OPEN_DONE && !m->failed) {
        m->row_lower[m->n_rows - 1] -= factor;
        m->row_upper[m->n_rows - 1] -= factor;
    }
}

static void put_if(ckm_i_milp *m, int32_t col, double factor)
{
    if (col >= 0) {
        ckm_i_milp_put(m, col, factor);
    }
}

// Row: what `then` stands for is done only when `first` is, where that says anything.
static void add_not_before(builder *b, int32_t first, int32_t then)
{
    if (first == CKM_I_OPEN_DONE || then == CKM_I_OPEN_NOT_DONE) {
        return;
    }
    ckm_i_milp_add_row(b->m, 0.0, INFINITY);
    put_done(b->m, first, 1.0);
    put_done(b->m, then, -1.0);
}

static void add_done_columns(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t cut = b->out->cuts[k];
    int32_t *d = b->out->d_col + (int64_t)k * df->n_ops;
    ckm_i_open_find_reach(df, cut, &b->reach);
    for (int32_t v = 0; v < df->n_ops; v++) {
        double cost = (double)df->ops[v].cost / b->out->cost_scale;
        if (v == cut || b->reach.before[v]) {
            d[v] = CKM_I_OPEN_DONE;
            b->out->cost_before += k == 0 ? cost : 0.0;
        } else if (b->reach.after[v]) {
            d[v] = CKM_I_OPEN_NOT_DONE;
        } else {
            d[v] = ckm_i_milp_add_col(b->m, k == 0 ? cost : 0.0, 0.0, 1.0, true);
        }
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
            int32_t p = df->tensors[df->ops[v].inputs[i]].producer;
            if (p >= 0) {
                add_not_before(b, d[p], d[v]);
            }
        }
        if (k > 0) {
            add_not_before(b, d[v], d[v - df->n_ops]);
        }
    }
}

static void add_live_columns(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    const int32_t *d = ckm_i_open_d(b->out, k);
    int32_t *s = b->out->s_col + (int64_t)k * df->n_tensors;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        bool followed = !tensor->pinned && tensor->producer >= 0 && (tensor->n_users > 0 || tensor->is_result);
        followed = followed && d[tensor->producer] != CKM_I_OPEN_NOT_DONE;
        s[x] = followed ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, true) : -1;
        if (followed && d[tensor->producer] >= 0) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            ckm_i_milp_put(b->m, d[tensor->producer], 1.0);
            ckm_i_milp_put(b->m, s[x], -1.0);
        }
    }
}

// Row: availability of x in window k (s + e) less `col` >= at_least; x is made by an operator.
static void add_available(builder *b, int32_t k, int32_t x, int32_t col, double at_least)
{
    int32_t s = ckm_i_open_s(b->out, k)[x];
    int32_t e = ckm_i_open_e(b->out, k)[b->df->tensors[x].producer];
    ckm_i_milp_add_row(b->m, at_least, INFINITY);
    put_if(b->m, s, 1.0);
    put_if(b->m, e, 1.0);
    put_if(b->m, col, -1.0);
}

// The same for what x is a view of in the end: where a view is, that has been. What is always live needs no row.
static void require_available(builder *b, int32_t k, int32_t x, int32_t col, double at_least)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    if (tensor->pinned || tensor->producer < 0) {
        return;
    }
    add_available(b, k, x, col, at_least);
    int32_t base = x;
    while (b->out->view_of[base] >= 0) {
        base = b->out->view_of[base];
    }
    if (base != x) {
        add_available(b, k, base, col, at_least);
    }
}

// How often an operator is computed in window k, with cuts k and perhaps k + 1 in place.
static void add_runs(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    bool last = k + 1 == b->out->n_cuts;
    const int32_t *d = ckm_i_open_d(b->out, k);
    int32_t *e = b->out->e_col + (int64_t)k * df->n_ops;
    for (int32_t v = 0; v < df->n_ops; v++) {
        int32_t end = last ? CKM_I_OPEN_DONE : ckm_i_open_d(b->out, k + 1)[v];
        bool never = end == CKM_I_OPEN_NOT_DONE || (!df->ops[v].recomputable && d[v] == CKM_I_OPEN_DONE);
        e[v] = never ? -1 : ckm_i_milp_add_col(b->m, (double)df->ops[v].cost / b->out->cost_scale, 0.0, 1.0, false);
        if (never) {
            continue;
        }
        if (df->ops[v].recomputable && d[v] == CKM_I_OPEN_NOT_DONE && end == CKM_I_OPEN_DONE) {
            if (!b->m->failed) {
                b->m->lower[e[v]] = 1.0;
            }
            continue;
        }
        if (!df->ops[v].recomputable || d[v] != CKM_I_OPEN_DONE) {
            ckm_i_milp_add_row(b->m, 0.0, df->ops[v].recomputable ? INFINITY : 0.0);
            ckm_i_milp_put(b->m, e[v], 1.0);
            put_done(b->m, end, -1.0);
            put_done(b->m, d[v], 1.0);
        }
        if (df->ops[v].recomputable && end >= 0) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            ckm_i_milp_put(b->m, end, 1.0);
            ckm_i_milp_put(b->m, e[v], -1.0);
        }
    }
}

static void add_window(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    bool last = k + 1 == b->out->n_cuts;
    add_runs(b, k);
    const int32_t *e = ckm_i_open_e(b->out, k);
    for (int32_t v = 0; v < df->n_ops; v++) {
        for (int32_t i = 0; e[v] >= 0 && i < df->ops[v].n_inputs; i++) {
            require_available(b, k, df->ops[v].inputs[i], e[v], 0.0);
        }
    }
    for (int32_t i = 0; last && i < df->n_results; i++) {
        require_available(b, k, df->results[i], -1, 1.0);
    }
    for (int32_t x = 0; !last && x < df->n_tensors; x++) {
        int32_t next = ckm_i_open_s(b->out, k + 1)[x];
        if (next >= 0) {
            require_available(b, k, x, next, 0.0);
        }
    }
}

static bool allocate(builder *b, const int32_t *cuts)
{
    ckm_i_open_model *out = b->out;
    size_t ops = (size_t)b->df->n_ops;
    size_t tensors = (size_t)b->df->n_tensors;
    size_t n = (size_t)out->n_cuts;
    out->cuts = ckm_i_memdup(cuts, n, sizeof *cuts);
    out->d_col = ckm_i_malloc(n * ops, sizeof *out->d_col);
    out->s_col = ckm_i_malloc(n * tensors, sizeof *out->s_col);
    out->e_col = ckm_i_malloc(n * ops, sizeof *out->e_col);
    out->view_of = ckm_i_malloc(tensors, sizeof *out->view_of);
    out->memory_row = ckm_i_malloc(n, sizeof *out->memory_row);
    b->group_col = ckm_i_malloc(tensors, sizeof *b->group_col);
    b->reach.before = ckm_i_malloc(ops, sizeof *b->reach.before);
    b->reach.after = ckm_i_malloc(ops, sizeof *b->reach.after);
    if (out->cuts == NULL || out->d_col == NULL || out->s_col == NULL || out->e_col == NULL || out->view_of == NULL ||
        out->memory_row == NULL || b->group_col == NULL || b->reach.before == NULL || b->reach.after == NULL) {
        return false;
    }
    ckm_i_find_views(b->df, out->view_of);
    return true;
}

ckm_status ckm_i_open_model_build(const ckm_dataflow *df, int64_t budget_bytes, const int32_t *cuts, int32_t n_cuts,
                                  ckm_i_open_model *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_open_model built = {.df = df, .n_cuts = n_cuts, .room_bytes = budget_bytes - df->resident_bytes};
    builder b = {.df = df, .out = &built, .m = &built.milp};
    ckm_i_milp_init(&built.milp);
    if (!allocate(&b, cuts)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    built.cost_scale = ckm_i_cost_scale(df, &built.cost_gcd);
    built.byte_scale = ckm_i_byte_scale(df);
    for (int32_t k = 0; k < n_cuts; k++) {
        add_done_columns(&b, k);
        add_live_columns(&b, k);
        built.memory_row[k] = ckm_i_add_cut_memory(b.m, df, cuts[k], ckm_i_open_s(&built, k), built.view_of,
                                                   built.room_bytes, built.byte_scale, b.group_col);
    }
    for (int32_t k = 0; k < n_cuts; k++) {
        add_window(&b, k);
    }
    CKM_I_TRY(ckm_i_milp_check(&built.milp, err));
    *out = built;
    built = (ckm_i_open_model){0};
cleanup:
    ckm_i_open_model_dispose(&built);
    free(b.group_col);
    free(b.reach.before);
    free(b.reach.after);
    return status;
}

void ckm_i_open_model_dispose(ckm_i_open_model *model)
{
    ckm_i_milp_dispose(&model->milp);
    free(model->cuts);
    free(model->d_col);
    free(model->s_col);
    free(model->e_col);
    free(model->view_of);
    free(model->memory_row);
    *model = (ckm_i_open_model){0};
}
