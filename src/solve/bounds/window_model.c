// SPDX-License-Identifier: Apache-2.0
// Builds the relaxations of windows. Every schedule that keeps the order satisfies, for each window k,
//   r[k,v] <= s[k,x] + r[k,p]        x an operand of v made by p: it was live at the cut or has been made since
//   1 <= s[k,x] + r[k,p]             x an operand of a first computation of the window, made before it
//   s[k+1,x] <= s[k,x] + r[k,p]      x made before the window
//   sum of m_x s[k,x] over storages that t does not touch, plus the working set of t, <= budget
// where cut k comes right after the first computation of t: whatever lives on past t lives while it runs. Its cost is
// at least total + sum of c_v r[k,v]. Nothing else is assumed.
// Where the order is open, what has been computed by a cut is a variable too: with D[k,v] = d[k,v] and D = 1 at the end,
//   d[k,v] <= d[k,p]                  p makes an operand of v
//   d[k,v] <= d[k+1,v]
//   s[k,x] <= d[k,p]                  p makes x
//   D[k+1,v] - d[k,v] <= r[k,v] <= D[k+1,v]
// hold as well, r counts first computations, the second row is an instance of the first, and 1 <= s + r of results at the end. The cost is
// at least the sum of c_v d[0,v], each computed before the first cut, and of c_v r[k,v].
#include "solve/bounds/window_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/core/structure.h"

typedef struct builder {
    const ckm_dataflow *df;
    ckm_i_window_model *out;
    ckm_i_milp *m;
    int32_t *group_col;  // per storage: column of its presence at a cut, -1
    int32_t *needed;     // per tensor: the last window that needs it
    int64_t cap_needs;
    int32_t n_needs;
    int32_t *last_need;      // where the order is kept, per operator: the last operator that can be reached from it
    ckm_i_open_reach reach;  // where it is open
} builder;

// Presence of every storage at a cut, into `group_col`: the column of its only tensor that is no view of another, or a maximum.
static void add_groups(ckm_i_milp *m, const ckm_dataflow *df, const int32_t *live, const int32_t *view_of,
                       int32_t *group_col)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        group_col[x] = -1;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t storage = df->tensors[x].storage;
        if (live[x] < 0 || df->tensors[storage].bytes == 0) {
            continue;
        }
        if (view_of[x] >= 0) {
            ckm_i_milp_add_row(m, 0.0, INFINITY);
            ckm_i_milp_put(m, live[view_of[x]], 1.0);
            ckm_i_milp_put(m, live[x], -1.0);
            continue;
        }
        if (group_col[storage] < 0) {
            group_col[storage] = live[x];
            continue;
        }
        // A second tensor: one more column, at least as large as both.
        int32_t both = ckm_i_milp_add_col(m, 0.0, 0.0, 1.0, false);
        int32_t parts[2] = {group_col[storage], live[x]};
        for (int i = 0; i < 2; i++) {
            ckm_i_milp_add_row(m, 0.0, INFINITY);
            ckm_i_milp_put(m, both, 1.0);
            ckm_i_milp_put(m, parts[i], -1.0);
        }
        group_col[storage] = both;
    }
}

int32_t ckm_i_add_cut_memory(ckm_i_milp *m, const ckm_dataflow *df, int32_t cut, const int32_t *live,
                             const int32_t *view_of, int64_t room_bytes, double byte_scale, int32_t *group_col)
{
    const ckm_i_dataflow_op *op = &df->ops[cut];
    add_groups(m, df, live, view_of, group_col);
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        group_col[df->tensors[x].storage] = -1;
    }
    int64_t room = room_bytes - ckm_i_working_set(df, cut);
    int32_t row = ckm_i_milp_add_row(m, -INFINITY, (double)room / byte_scale);
    ckm_i_milp_set_slope(m, row, 1.0 / byte_scale);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (group_col[x] >= 0) {
            ckm_i_milp_put(m, group_col[x], (double)df->tensors[x].bytes / byte_scale);
        }
    }
    return row;
}

static void add_memory(builder *b, int32_t k)
{
    ckm_i_window_model *out = b->out;
    out->memory_row[k] = ckm_i_add_cut_memory(b->m, b->df, out->cuts[k], ckm_i_window_s(out, k), out->view_of,
                                              out->room_bytes, out->byte_scale, b->group_col);
}

static void put_if(ckm_i_milp *m, int32_t col, double factor)
{
    if (col >= 0) {
        ckm_i_milp_put(m, col, factor);
    }
}

// Row: availability of x in window k (s + r) minus `col` >= at_least; x is made by an operator.
static void add_available(builder *b, int32_t k, int32_t x, int32_t col, double at_least)
{
    int32_t s = ckm_i_window_s(b->out, k)[x];
    int32_t r = ckm_i_window_r(b->out, k)[b->df->tensors[x].producer];
    if (s >= 0 && r < 0 && col < 0 && at_least == 1.0 && !b->m->failed) {
        b->m->lower[s] = 1.0;  // nothing else makes it
        return;
    }
    ckm_i_milp_add_row(b->m, at_least, INFINITY);
    put_if(b->m, s, 1.0);
    put_if(b->m, r, 1.0);
    put_if(b->m, col, -1.0);
}

// The same for what x is a view of in the end: where a view is, that has been. A tensor that is always live needs none.
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

// Operators up to `to` that run again in window k find their operands.
static void require_operands(builder *b, int32_t k, int32_t to)
{
    const int32_t *r = ckm_i_window_r(b->out, k);
    for (int32_t v = 0; v <= to; v++) {
        for (int32_t i = 0; r[v] >= 0 && i < b->df->ops[v].n_inputs; i++) {
            require_available(b, k, b->df->ops[v].inputs[i], r[v], 0.0);
        }
    }
}

// Notes that window k needs x, once. False when memory runs out.
static bool note_need(builder *b, int32_t k, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &b->df->tensors[x];
    if (tensor->pinned || tensor->producer < 0 || b->needed[x] == k) {
        return true;
    }
    b->needed[x] = k;
    int64_t cap = b->cap_needs;
    if (!CKM_I_GROW(b->out->needs, b->n_needs, cap)) {
        return false;
    }
    b->cap_needs = cap;
    b->out->needs[b->n_needs++] = x;
    return true;
}

// What the first computations of window k read where the order is kept, and for the last window the results. Whether a tensor is made
// before the window or in it is for the reader of the list to tell.
static bool list_needs(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    bool last = k + 1 == b->out->n_cuts;
    int32_t to = b->out->is_open ? -1 : last ? df->n_ops - 1 : b->out->cuts[k + 1];
    b->out->need_start[k] = b->n_needs;
    for (int32_t u = b->out->cuts[k] + 1; u <= to; u++) {
        for (int32_t i = 0; i < df->ops[u].n_inputs; i++) {
            if (!note_need(b, k, df->ops[u].inputs[i])) {
                return false;
            }
        }
    }
    for (int32_t i = 0; last && i < df->n_results; i++) {
        if (!note_need(b, k, df->results[i])) {
            return false;
        }
    }
    b->out->need_start[k + 1] = b->n_needs;
    return true;
}

static bool is_followed(const ckm_i_dataflow_tensor *tensor)
{
    return !tensor->pinned && tensor->producer >= 0 && (tensor->n_users > 0 || tensor->is_result);
}

// Columns of s for cut k of a model that keeps the order.
static void add_cut_columns(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t *cols = b->out->s_col + (int64_t)k * df->n_tensors;
    int32_t cut = b->out->cuts[k];
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t p = df->tensors[x].producer;
        bool followed = is_followed(&df->tensors[x]) && p <= cut && b->last_need[p] > cut;
        cols[x] = followed ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, true) : -1;
    }
}

// Columns of r for window k. An operator that first runs in the window may run there again: that costs once more, and
// only peak cuts ask for it.
static void add_again_columns(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t cut = k >= 0 ? b->out->cuts[k] : -1;
    int32_t end = k + 1 < b->out->n_cuts ? b->out->cuts[k + 1] : df->n_ops - 1;
    int32_t *r = b->out->r_col + ((int64_t)k + 1) * df->n_ops;
    for (int32_t v = 0; v < df->n_ops; v++) {
        bool possible = v <= end && df->ops[v].recomputable && b->last_need[v] > (v > cut ? v : cut);
        r[v] = possible ? ckm_i_milp_add_col(b->m, (double)df->ops[v].cost / b->out->cost_scale, 0.0, 1.0, false) : -1;
    }
}

static bool add_ordered_window(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    int32_t cut = b->out->cuts[k];
    add_again_columns(b, k);
    require_operands(b, k, cut);
    if (!list_needs(b, k)) {
        return false;
    }
    for (int32_t i = b->out->need_start[k]; i < b->out->need_start[k + 1]; i++) {
        if (df->tensors[b->out->needs[i]].producer <= cut) {
            require_available(b, k, b->out->needs[i], -1, 1.0);
        }
    }
    if (k + 1 == b->out->n_cuts) {
        return true;
    }
    add_cut_columns(b, k + 1);
    const int32_t *next = ckm_i_window_s(b->out, k + 1);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (next[x] >= 0 && df->tensors[x].producer <= cut && b->needed[x] != k) {
            require_available(b, k, x, next[x], 0.0);
        }
    }
    return true;
}

static bool build_ordered(builder *b)
{
    ckm_i_last_need(b->df, b->last_need);
    b->out->constant = (double)b->df->total_cost;
    add_again_columns(b, -1);
    add_cut_columns(b, 0);
    for (int32_t k = 0; k < b->out->n_cuts; k++) {
        add_memory(b, k);
        if (!add_ordered_window(b, k)) {
            return false;
        }
    }
    return true;
}

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
    put_if(m, col, factor);
    if (col == CKM_I_DONE && !m->failed) {
        m->row_lower[m->n_rows - 1] -= factor;
        m->row_upper[m->n_rows - 1] -= factor;
    }
}

// Row: what `then` stands for is done only when `first` is, where that says anything.
static void add_not_before(builder *b, int32_t first, int32_t then)
{
    if (first == CKM_I_DONE || then == CKM_I_NOT_DONE) {
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
        double cost = k == 0 ? (double)df->ops[v].cost : 0.0;
        if (v == cut || b->reach.before[v]) {
            d[v] = CKM_I_DONE;
            b->out->constant += cost;
        } else {
            d[v] = b->reach.after[v] ? CKM_I_NOT_DONE
                                     : ckm_i_milp_add_col(b->m, cost / b->out->cost_scale, 0.0, 1.0, true);
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
    const int32_t *d = ckm_i_window_d(b->out, k);
    int32_t *s = b->out->s_col + (int64_t)k * df->n_tensors;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t p = df->tensors[x].producer;
        bool followed = is_followed(&df->tensors[x]) && d[p] != CKM_I_NOT_DONE;
        s[x] = followed ? ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, true) : -1;
        if (followed && d[p] >= 0) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            ckm_i_milp_put(b->m, d[p], 1.0);
            ckm_i_milp_put(b->m, s[x], -1.0);
        }
    }
}

// How often an operator is computed in window k, with cuts k and perhaps k + 1 in place.
static void add_runs(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    bool last = k + 1 == b->out->n_cuts;
    const int32_t *d = ckm_i_window_d(b->out, k);
    int32_t *r = b->out->r_col + ((int64_t)k + 1) * df->n_ops;
    for (int32_t v = 0; v < df->n_ops; v++) {
        bool again = df->ops[v].recomputable;
        int32_t end = last ? CKM_I_DONE : ckm_i_window_d(b->out, k + 1)[v];
        bool never = end == CKM_I_NOT_DONE || (!again && d[v] == CKM_I_DONE);
        r[v] = never ? -1 : ckm_i_milp_add_col(b->m, (double)df->ops[v].cost / b->out->cost_scale, 0.0, 1.0, false);
        if (never) {
            continue;
        }
        if (again && d[v] == CKM_I_NOT_DONE && end == CKM_I_DONE) {
            if (!b->m->failed) {
                b->m->lower[r[v]] = 1.0;
            }
            continue;
        }
        if (!again || d[v] != CKM_I_DONE) {
            ckm_i_milp_add_row(b->m, 0.0, again ? INFINITY : 0.0);
            ckm_i_milp_put(b->m, r[v], 1.0);
            put_done(b->m, end, -1.0);
            put_done(b->m, d[v], 1.0);
        }
        if (again && end >= 0) {
            ckm_i_milp_add_row(b->m, 0.0, INFINITY);
            ckm_i_milp_put(b->m, end, 1.0);
            ckm_i_milp_put(b->m, r[v], -1.0);
        }
    }
}

static bool add_open_window(builder *b, int32_t k)
{
    const ckm_dataflow *df = b->df;
    bool last = k + 1 == b->out->n_cuts;
    add_runs(b, k);
    require_operands(b, k, df->n_ops - 1);
    if (!list_needs(b, k)) {
        return false;
    }
    for (int32_t i = b->out->need_start[k]; i < b->out->need_start[k + 1]; i++) {
        require_available(b, k, b->out->needs[i], -1, 1.0);
    }
    for (int32_t x = 0; !last && x < df->n_tensors; x++) {
        int32_t next = ckm_i_window_s(b->out, k + 1)[x];
        if (next >= 0) {
            require_available(b, k, x, next, 0.0);
        }
    }
    return true;
}

static bool build_open(builder *b)
{
    memset(b->out->r_col, -1, (size_t)b->df->n_ops * sizeof *b->out->r_col);
    for (int32_t k = 0; k < b->out->n_cuts; k++) {
        add_done_columns(b, k);
        add_live_columns(b, k);
        add_memory(b, k);
    }
    bool ok = true;
    for (int32_t k = 0; k < b->out->n_cuts && ok; k++) {
        ok = add_open_window(b, k);
    }
    return ok;
}

static bool allocate(builder *b, const int32_t *cuts)
{
    ckm_i_window_model *out = b->out;
    size_t ops = (size_t)b->df->n_ops;
    size_t tensors = (size_t)b->df->n_tensors;
    size_t n = (size_t)out->n_cuts;
    out->cuts = ckm_i_memdup(cuts, n, sizeof *cuts);
    out->s_col = ckm_i_malloc(n * tensors, sizeof *out->s_col);
    out->r_col = ckm_i_malloc((n + 1) * ops, sizeof *out->r_col);
    out->view_of = ckm_i_malloc(tensors, sizeof *out->view_of);
    out->memory_row = ckm_i_malloc(n, sizeof *out->memory_row);
    b->group_col = ckm_i_malloc(tensors, sizeof *b->group_col);
    out->need_start = ckm_i_malloc(n + 1, sizeof *out->need_start);
    out->d_col = out->is_open ? ckm_i_malloc(n * ops, sizeof *out->d_col) : NULL;
    b->needed = ckm_i_malloc(tensors, sizeof *b->needed);
    b->last_need = ckm_i_malloc(ops, sizeof *b->last_need);
    b->reach.before = ckm_i_malloc(ops, sizeof *b->reach.before);
    b->reach.after = ckm_i_malloc(ops, sizeof *b->reach.after);
    if (out->cuts == NULL || out->s_col == NULL || out->r_col == NULL || out->view_of == NULL ||
        out->memory_row == NULL || b->group_col == NULL || out->need_start == NULL ||
        (out->is_open && out->d_col == NULL) || b->needed == NULL || b->last_need == NULL || b->reach.before == NULL ||
        b->reach.after == NULL) {
        return false;
    }
    for (size_t x = 0; x < tensors; x++) {
        b->needed[x] = -1;
    }
    ckm_i_find_views(b->df, out->view_of);
    return true;
}

ckm_status ckm_i_window_model_build(const ckm_dataflow *df, int64_t budget_bytes, bool is_open, const int32_t *cuts,
                                    int32_t n_cuts, ckm_i_window_model *out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_window_model built = {
        .df = df, .is_open = is_open, .n_cuts = n_cuts, .room_bytes = budget_bytes - df->resident_bytes};
    builder b = {.df = df, .out = &built, .m = &built.milp};
    ckm_i_milp_init(&built.milp);
    built.cost_scale = ckm_i_cost_scale(df, &built.cost_gcd);
    built.byte_scale = ckm_i_byte_scale(df);
    if (!allocate(&b, cuts) || !(built.d_col != NULL ? build_open : build_ordered)(&b)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_milp_check(&built.milp, err));
    *out = built;
    built = (ckm_i_window_model){0};
cleanup:
    ckm_i_window_model_dispose(&built);
    free(b.group_col);
    free(b.needed);
    free(b.last_need);
    free(b.reach.before);
    free(b.reach.after);
    return status;
}

void ckm_i_window_model_dispose(ckm_i_window_model *model)
{
    ckm_i_milp_dispose(&model->milp);
    free(model->cuts);
    free(model->s_col);
    free(model->r_col);
    free(model->d_col);
    free(model->need_start);
    free(model->needs);
    free(model->view_of);
    free(model->memory_row);
    *model = (ckm_i_window_model){0};
}
