// SPDX-License-Identifier: Apache-2.0
// The integer program as a whole: columns, scales, stages, and the way from and to matrices.
#include "solve/ilp/ilp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/ilp/ilp_builder.h"
#include "solve/core/solver.h"
#include "solve/core/structure.h"

// Columns for R and S. An operator is useful in stage t only if something at or after t still needs it:
// `last_need` is the largest operator (or n for results) reachable from it.
static void add_columns(ckm_i_ilp_builder *b, const int32_t *last_need)
{
    const ckm_dataflow *df = b->df;
    ckm_i_ilp *ilp = b->ilp;
    int32_t n = df->n_ops;
    bool frontier = ilp->formulation != CKM_FORMULATION_UNPARTITIONED;
    for (int32_t t = 0; t < n; t++) {
        for (int32_t v = 0; v < n; v++) {
            int32_t *col = &ilp->r_col[(int64_t)t * n + v];
            *col = CKM_I_ILP_ZERO;
            if (frontier && v == t) {
                *col = CKM_I_ILP_ONE;
            } else if (frontier ? (v < t && df->ops[v].recomputable && last_need[v] >= t) : true) {
                *col = ckm_i_milp_add_col(b->m, (double)df->ops[v].cost / ilp->cost_scale, 0.0, 1.0, true);
            }
        }
    }
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t x = 0; x < df->n_tensors; x++) {
            const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
            int32_t *col = &ilp->s_col[(int64_t)t * df->n_tensors + x];
            *col = CKM_I_ILP_ZERO;
            if (tensor->pinned || tensor->producer < 0 || t == 0) {
                continue;
            }
            if (t == n) {
                *col = tensor->is_result ? CKM_I_ILP_ONE : CKM_I_ILP_ZERO;
            } else if ((!frontier || tensor->producer < t) && (tensor->n_users > 0 || tensor->is_result) &&
                       last_need[tensor->producer] >= t) {
                *col = ckm_i_milp_add_col(b->m, 0.0, 0.0, 1.0, true);
            }
        }
    }
}

// The unpartitioned form (paper, appendix A) lets any operator run in any stage; each at least once, and a
// non-recomputable one exactly once.
static void add_completeness(ckm_i_ilp_builder *b)
{
    const ckm_dataflow *df = b->df;
    for (int32_t v = 0; v < df->n_ops; v++) {
        ckm_i_milp_add_row(b->m, 1.0, df->ops[v].recomputable ? INFINITY : 1.0);
        for (int32_t t = 0; t < df->n_ops; t++) {
            ckm_i_milp_put(b->m, ckm_i_ilp_r_at(b, t, v), 1.0);
        }
    }
}

// A view of a graph's input is always in memory but exists only once its producer has run. Where first
// computations follow the order that goes without saying; in the unpartitioned form it is a row.
static void add_pinned_dependencies(ckm_i_ilp_builder *b)
{
    const ckm_dataflow *df = b->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        for (int32_t i = 0; tensor->pinned && tensor->producer >= 0 && i < tensor->n_users; i++) {
            for (int32_t t = 0; t < df->n_ops; t++) {
                ckm_i_milp_add_row(b->m, 0.0, INFINITY);
                for (int32_t earlier = 0; earlier <= t; earlier++) {
                    ckm_i_milp_put(b->m, ckm_i_ilp_r_at(b, earlier, tensor->producer), 1.0);
                }
                ckm_i_milp_put(b->m, ckm_i_ilp_r_at(b, t, tensor->users[i]), -1.0);
            }
        }
    }
}

static void set_scales(ckm_i_ilp_builder *b, int64_t budget_bytes)
{
    const ckm_dataflow *df = b->df;
    int64_t bytes_gcd = 0;
    int64_t largest = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        bytes_gcd = ckm_i_gcd(df->ops[v].workspace_bytes, bytes_gcd);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].alias_of < 0 && !df->tensors[x].pinned) {
            bytes_gcd = ckm_i_gcd(df->tensors[x].bytes, bytes_gcd);
            largest = df->tensors[x].bytes > largest ? df->tensors[x].bytes : largest;
        }
    }
    b->ilp->cost_scale = ckm_i_cost_scale(df, &b->ilp->cost_gcd);
    b->unit_bytes = bytes_gcd > 0 ? bytes_gcd : 1;
    b->row_scale = ckm_i_row_scale(largest / b->unit_bytes);
    int64_t room = (budget_bytes - df->resident_bytes) / b->unit_bytes;
    b->budget = (double)room / b->row_scale;
}

static bool index_groups(ckm_i_ilp_builder *b)
{
    const ckm_dataflow *df = b->df;
    size_t n = (size_t)df->n_tensors;
    b->group_head = ckm_i_malloc(n, sizeof *b->group_head);
    b->group_next = ckm_i_malloc(n, sizeof *b->group_next);
    b->group_term = ckm_i_malloc(n, sizeof *b->group_term);
    b->group_key = ckm_i_malloc(n, sizeof *b->group_key);
    b->group_at = ckm_i_malloc(n, sizeof *b->group_at);
    b->cursor = ckm_i_calloc(n, sizeof *b->cursor);
    b->presence = ckm_i_malloc(n, sizeof *b->presence);
    size_t terms = 0;
    for (size_t x = 0; x < n; x++) {
        terms += (size_t)df->tensors[x].n_users + 3;
    }
    b->pool = ckm_i_malloc(terms, sizeof *b->pool);
    size_t max_pairs = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        max_pairs = (size_t)df->ops[v].n_inplace > max_pairs ? (size_t)df->ops[v].n_inplace : max_pairs;
    }
    b->inplace_cols = ckm_i_malloc(max_pairs, sizeof *b->inplace_cols);
    if (b->group_head == NULL || b->group_next == NULL || b->group_term == NULL || b->group_key == NULL ||
        b->group_at == NULL || b->cursor == NULL || b->presence == NULL || b->pool == NULL || b->inplace_cols == NULL) {
        return false;
    }
    ckm_i_ilp_term *at = b->pool;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b->group_head[x] = df->tensors[x].alias_of < 0 ? x : -1;
        b->group_next[x] = -1;
        b->group_term[x] = b->group_key[x] = ckm_i_ilp_constant(0.0);
        b->presence[x] = at;
        at += df->tensors[x].n_users + 3;
    }
    for (int32_t x = df->n_tensors - 1; x >= 0; x--) {
        int32_t owner = df->tensors[x].alias_of;
        if (owner >= 0) {
            b->group_next[x] = b->group_next[owner];
            b->group_next[owner] = x;
        }
    }
    int64_t keys = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b->group_at[x] = keys;
        for (int32_t y = b->group_head[x]; y >= 0; y = b->group_next[y]) {
            keys++;
        }
    }
    return true;
}

void ckm_i_ilp_close(ckm_i_ilp_builder *b)
{
    free(b->group_head);
    free(b->group_next);
    free(b->group_term);
    free(b->group_key);
    free(b->group_at);
    free(b->cursor);
    free(b->presence);
    free(b->pool);
    free(b->inplace_cols);
}

ckm_status ckm_i_ilp_open(const ckm_dataflow *df, int64_t budget_bytes, ckm_formulation formulation,
                          ckm_i_ilp_builder *b, ckm_error *err)
{
    size_t n = (size_t)df->n_ops;
    ckm_i_ilp_builder opened = {.df = df};
    ckm_i_ilp *ilp = ckm_i_calloc(1, sizeof *ilp);
    if (ilp == NULL) {
        return ckm_i_error_memory(err);
    }
    ilp->df = df;
    ilp->formulation = formulation;
    ckm_i_milp_init(&ilp->milp);
    ilp->r_col = ckm_i_malloc(n * n, sizeof *ilp->r_col);
    ilp->s_col = ckm_i_malloc((n + 1) * (size_t)df->n_tensors, sizeof *ilp->s_col);
    opened.ilp = ilp;
    opened.m = &ilp->milp;
    if (ilp->r_col == NULL || ilp->s_col == NULL || !index_groups(&opened)) {
        ckm_i_ilp_close(&opened);
        ckm_i_ilp_free(ilp);
        return ckm_i_error_memory(err);
    }
    set_scales(&opened, budget_bytes);
    *b = opened;
    return CKM_OK;
}

bool ckm_i_ilp_is_too_large(const ckm_dataflow *df, int64_t max_entries)
{
    return ((int64_t)df->n_ops + 1) * ((int64_t)df->n_ops + df->n_tensors) > 2 * max_entries;
}

ckm_status ckm_i_ilp_build(const ckm_dataflow *df, int64_t budget_bytes, ckm_formulation formulation,
                           int64_t max_entries, ckm_stop_fn stop, void *user, ckm_i_ilp **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_ilp_builder b = {.df = df};
    int32_t *last_need = ckm_i_malloc((size_t)df->n_ops, sizeof *last_need);
    if (last_need == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_i_ilp_open(df, budget_bytes, formulation, &b, err));
    ckm_i_last_need(df, last_need);
    add_columns(&b, last_need);
    for (int32_t t = 0; t < df->n_ops; t++) {
        if (stop != NULL && stop(user)) {
            *out = NULL;
            goto cleanup;
        }
        ckm_i_ilp_add_stage(&b, t);
        if (b.m->n_entries > max_entries) {
            status = ckm_i_error(err, CKM_ERR_UNSUPPORTED, "the integer program has more than %lld entries",
                                 (long long)max_entries);
            goto cleanup;
        }
    }
    if (formulation == CKM_FORMULATION_UNPARTITIONED) {
        add_completeness(&b);
        add_pinned_dependencies(&b);
    }
    CKM_I_TRY(ckm_i_milp_check(b.m, err));
    // The frontier's own computations are constants: they are part of the cost, not of the objective.
    *out = b.ilp;
    b.ilp = NULL;
cleanup:
    free(last_need);
    ckm_i_ilp_close(&b);
    ckm_i_ilp_free(b.ilp);
    return status;
}

void ckm_i_ilp_free(ckm_i_ilp *ilp)
{
    if (ilp != NULL) {
        ckm_i_milp_dispose(&ilp->milp);
        free(ilp->r_col);
        free(ilp->s_col);
        free(ilp);
    }
}

void ckm_i_ilp_start(const ckm_i_ilp *ilp, const ckm_i_stages *stages, double *x)
{
    memset(x, 0, (size_t)ilp->milp.n_cols * sizeof *x);
    int32_t n = stages->n_ops;
    for (int32_t t = 0; t < n; t++) {
        for (int32_t v = 0; v < n; v++) {
            int32_t col = ilp->r_col[(int64_t)t * n + v];
            if (col >= 0) {
                x[col] = ckm_i_bits_get(ckm_i_stages_r(stages, t), v) ? 1.0 : 0.0;
            }
        }
    }
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t i = 0; i < stages->n_tensors; i++) {
            int32_t col = ilp->s_col[(int64_t)t * stages->n_tensors + i];
            if (col >= 0) {
                x[col] = ckm_i_bits_get(ckm_i_stages_s(stages, t), i) ? 1.0 : 0.0;
            }
        }
    }
}

void ckm_i_ilp_take(const ckm_i_ilp *ilp, const double *x, double threshold, ckm_i_stages *stages)
{
    int32_t n = stages->n_ops;
    memset(stages->s, 0, ((size_t)n + 1) * stages->s_words * sizeof *stages->s);
    for (int32_t t = 0; t <= n; t++) {
        for (int32_t i = 0; i < stages->n_tensors; i++) {
            int32_t col = ilp->s_col[(int64_t)t * stages->n_tensors + i];
            if (col >= 0 && x[col] > threshold) {
                ckm_i_bits_set(ckm_i_stages_s(stages, t), i);
            }
        }
    }
}

double ckm_i_ilp_cost_bound(const ckm_i_ilp *ilp, double objective_bound)
{
    double constant = ilp->formulation != CKM_FORMULATION_UNPARTITIONED ? (double)ilp->df->total_cost : 0.0;
    return ckm_i_cost_round_up(constant + objective_bound * ilp->cost_scale, ilp->cost_gcd);
}
