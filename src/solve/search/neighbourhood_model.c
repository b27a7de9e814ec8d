// SPDX-License-Identifier: Apache-2.0
// Events of a tensor are the stages that may read or make it: first computations and pairs of the set. Between two of
// them it is held throughout or not at all, so one column stands for a whole gap. Where the first computation of a user
// reads it and it may not be made again, there is nothing to decide.
#include "solve/search/neighbourhood.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/error.h"
#include "solve/ilp/ilp_builder.h"

ckm_status ckm_i_neighbourhood_set_create(int32_t n_ops, ckm_i_neighbourhood_set *out, ckm_error *err)
{
    ckm_i_neighbourhood_set set = {.n_ops = n_ops};
    set.ops = ckm_i_calloc((size_t)n_ops, sizeof *set.ops);
    set.stages = ckm_i_calloc((size_t)n_ops, sizeof *set.stages);
    if (set.ops == NULL || set.stages == NULL) {
        ckm_i_neighbourhood_set_dispose(&set);
        return ckm_i_error_memory(err);
    }
    *out = set;
    return CKM_OK;
}

void ckm_i_neighbourhood_set_dispose(ckm_i_neighbourhood_set *set)
{
    for (int32_t t = 0; t < set->n_ops; t++) {
        free(set->ops != NULL ? set->ops[t].at : NULL);
        free(set->stages != NULL ? set->stages[t].at : NULL);
    }
    free(set->ops);
    free(set->stages);
    *set = (ckm_i_neighbourhood_set){0};
}

static bool contains(const ckm_i_ints *list, int32_t value)
{
    for (int32_t i = 0; i < list->n; i++) {
        if (list->at[i] == value) {
            return true;
        }
    }
    return false;
}

ckm_status ckm_i_neighbourhood_set_add(ckm_i_neighbourhood_set *set, const ckm_i_search *s, ckm_error *err)
{
    for (int32_t t = 0; t < set->n_ops; t++) {
        for (int32_t i = 0; i < s->extra[t].n; i++) {
            int32_t v = s->extra[t].at[i];
            if (contains(&set->ops[t], v)) {
                continue;
            }
            if (!ckm_i_ints_push(&set->ops[t], v) || !ckm_i_ints_push(&set->stages[v], t)) {
                return ckm_i_error_memory(err);
            }
            set->n++;
        }
    }
    return CKM_OK;
}

// What happens to a tensor in a stage, in the low bits of an event.
enum { event_makes = 1, event_reads = 2, event_bits = 4 };

typedef struct builder {
    const ckm_i_search *s;
    const ckm_i_neighbourhood_set *set;
    ckm_i_ilp_builder b;
    ckm_i_ints events;  // stage * event_bits + kind
    // Rows of stages that only pass tensors on.
    int32_t *storages;  // with a tensor that need not be held
    int32_t n_storages;
    int32_t *at_hand;             // per storage: the last stage whose own operator touches it; -1
    int32_t *most_col, *most_of;  // per storage: the column for its presence, and a hash of its members' columns
    int32_t *now, *before;        // columns of the row at hand, and of the one before
    int32_t n_now, n_before, before_row;
} builder;

static void add_r_columns(builder *m)
{
    const ckm_dataflow *df = m->b.df;
    ckm_i_ilp *ilp = m->b.ilp;
    int64_t n = df->n_ops;
    for (int64_t i = 0; i < n * n; i++) {
        ilp->r_col[i] = CKM_I_ILP_ZERO;
    }
    for (int32_t t = 0; t < n; t++) {
        ilp->r_col[t * n + t] = CKM_I_ILP_ONE;
        for (int32_t i = 0; i < m->set->ops[t].n; i++) {
            int32_t v = m->set->ops[t].at[i];
            ilp->r_col[t * n + v] = ckm_i_milp_add_col(m->b.m, (double)df->ops[v].cost / ilp->cost_scale, 0.0, 1.0,
                                                       true);
        }
    }
}

static bool find_events(builder *m, int32_t x)
{
    const ckm_dataflow *df = m->b.df;
    const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
    const ckm_i_ints *made = &m->set->stages[tensor->producer];
    bool ok = true;
    m->events.n = 0;
    for (int32_t i = 0; i < made->n && ok; i++) {
        ok = ckm_i_ints_push(&m->events, made->at[i] * event_bits + event_makes);
    }
    for (int32_t u = 0; u < tensor->n_users && ok; u++) {
        const ckm_i_ints *read = &m->set->stages[tensor->users[u]];
        ok = ckm_i_ints_push(&m->events, tensor->users[u] * event_bits + event_reads);
        for (int32_t i = 0; i < read->n && ok; i++) {
            ok = ckm_i_ints_push(&m->events, read->at[i] * event_bits);
        }
    }
    if (ok && tensor->is_result) {
        ok = ckm_i_ints_push(&m->events, df->n_ops * event_bits + event_reads);
    }
    if (ok && m->events.n > 0) {
        qsort(m->events.at, (size_t)m->events.n, sizeof *m->events.at, ckm_i_compare_int32);
    }
    return ok;
}

static bool add_s_columns(builder *m)
{
    const ckm_dataflow *df = m->b.df;
    ckm_i_ilp *ilp = m->b.ilp;
    int64_t n_tensors = df->n_tensors;
    for (int64_t i = 0; i < (df->n_ops + 1) * n_tensors; i++) {
        ilp->s_col[i] = CKM_I_ILP_ZERO;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (tensor->pinned || tensor->producer < 0) {
            continue;
        }
        if (!find_events(m, x)) {
            return false;
        }
        int32_t last = tensor->producer;
        for (int32_t i = 0; i < m->events.n;) {
            int32_t t = m->events.at[i] / event_bits;
            int32_t kinds = 0;
            for (; i < m->events.n && m->events.at[i] / event_bits == t; i++) {
                kinds |= m->events.at[i] % event_bits;
            }
            if (t <= last) {
                continue;
            }
            int32_t col = kinds == event_reads ? CKM_I_ILP_ONE : ckm_i_milp_add_col(m->b.m, 0.0, 0.0, 1.0, true);
            for (int64_t k = last + 1; k <= t; k++) {
                ilp->s_col[k * n_tensors + x] = col;
            }
            last = t;
        }
    }
    return true;
}

static int32_t s_col(const builder *m, int64_t t, int32_t x)
{
    return m->b.ilp->s_col[t * m->b.df->n_tensors + x];
}

// Whether stage t computes its own operator only, and no choice decides whether that works in place. Its operands and
// outputs are then there whatever is chosen, and the rest passes through.
static bool only_passes_on(const builder *m, int32_t t)
{
    const ckm_i_dataflow_op *op = &m->b.df->ops[t];
    bool passes = m->set->ops[t].n == 0;
    for (int32_t i = 0; i < 2 * op->n_inplace && passes; i++) {
        int32_t x = op->inplace[i / 2][i % 2];
        int32_t y = x;
        do {
            passes = passes && s_col(m, t, y) < 0 && s_col(m, t + 1, y) < 0;
            y = m->s->sibling[y];
        } while (y != x);
    }
    return passes;
}

// The column that says whether storage g is in memory while stage t passes it on: that of its only tensor with a
// choice, or one above those of several. CKM_I_ILP_ZERO when there is none, or when it is there for certain; *held tells
// whether the state holds it.
static int32_t passing_col(builder *m, int32_t t, int32_t g, bool *held)
{
    const ckm_i_search *s = m->s;
    int32_t n = 0;
    int32_t only = CKM_I_ILP_ZERO;
    int32_t all = 0;
    int32_t x = g;
    *held = false;
    do {
        int32_t col = s_col(m, t, x);
        if (col == CKM_I_ILP_ONE) {
            return CKM_I_ILP_ZERO;
        }
        if (col >= 0) {
            n++;
            only = col;
            all = (int32_t)((uint32_t)all * 31U + (uint32_t)col);
            *held = *held || ckm_i_search_holds(s, x, t);
        }
        x = s->sibling[x];
    } while (x != g);
    if (n < 2) {
        return only;
    }
    if (m->most_col[g] >= 0 && m->most_of[g] == all) {
        return m->most_col[g];
    }
    m->most_of[g] = all;
    m->most_col[g] = ckm_i_milp_add_col(m->b.m, 0.0, 0.0, 1.0, false);
    do {
        int32_t col = s_col(m, t, x);
        if (col >= 0) {
            ckm_i_milp_add_row(m->b.m, 0.0, INFINITY);
            ckm_i_milp_put(m->b.m, m->most_col[g], 1.0);
            ckm_i_milp_put(m->b.m, col, -1.0);
        }
        x = s->sibling[x];
    } while (x != g);
    return m->most_col[g];
}

// Memory in a stage that only passes on: one row, and none when it would repeat the last one with a wider limit.
static void add_passing_row(builder *m, int32_t t)
{
    const ckm_dataflow *df = m->b.df;
    const ckm_i_dataflow_op *op = &df->ops[t];
    double unit = (double)m->b.unit_bytes * m->b.row_scale;
    int64_t room = m->s->peaks.budget_bytes - ckm_i_profile_peak(&m->s->peaks, t);
    double most = 0.0;
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        m->at_hand[df->tensors[x].storage] = t;
    }
    m->n_now = 0;
    for (int32_t i = 0; i < m->n_storages; i++) {
        int32_t g = m->storages[i];
        bool held = false;
        int32_t col = m->at_hand[g] == t ? CKM_I_ILP_ZERO : passing_col(m, t, g, &held);
        if (col >= 0) {
            m->now[2 * m->n_now] = col;
            m->now[2 * m->n_now++ + 1] = g;
            room += held ? df->tensors[g].bytes : 0;
            most += (double)df->tensors[g].bytes;
        }
    }
    if (most <= (double)room || m->b.m->failed) {
        return;
    }
    double upper = (double)room / unit;
    size_t row_bytes = (size_t)m->n_now * 2 * sizeof *m->now;
    if (m->n_now == m->n_before && memcmp(m->now, m->before, row_bytes) == 0) {
        m->b.m->row_upper[m->before_row] = fmin(m->b.m->row_upper[m->before_row], upper);
        return;
    }
    m->before_row = ckm_i_milp_add_row(m->b.m, -INFINITY, upper);
    m->n_before = m->n_now;
    memcpy(m->before, m->now, row_bytes);
    for (int32_t i = 0; i < m->n_now; i++) {
        ckm_i_milp_put(m->b.m, m->now[2 * i], (double)df->tensors[m->now[2 * i + 1]].bytes / unit);
    }
}

static bool list_storages(builder *m)
{
    const ckm_dataflow *df = m->b.df;
    size_t n = (size_t)df->n_tensors;
    m->storages = ckm_i_malloc(n, sizeof *m->storages);
    m->at_hand = ckm_i_malloc(n, sizeof *m->at_hand);
    m->most_col = ckm_i_malloc(n, sizeof *m->most_col);
    m->most_of = ckm_i_malloc(n, sizeof *m->most_of);
    m->now = ckm_i_malloc(2 * n, sizeof *m->now);
    m->before = ckm_i_malloc(2 * n, sizeof *m->before);
    if (m->storages == NULL || m->at_hand == NULL || m->most_col == NULL || m->most_of == NULL || m->now == NULL ||
        m->before == NULL) {
        return false;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        m->at_hand[x] = m->most_col[x] = -1;
        m->most_of[x] = 0;
        if (tensor->alias_of < 0 && !tensor->pinned && tensor->bytes > 0) {
            m->storages[m->n_storages++] = x;
        }
    }
    return true;
}

ckm_status ckm_i_neighbourhood_build(const ckm_i_search *s, const ckm_i_neighbourhood_set *set, ckm_i_ilp **out,
                                     ckm_error *err)
{
    builder m = {.s = s, .set = set, .n_before = -1};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_ilp_open(s->df, s->peaks.budget_bytes, CKM_FORMULATION_FRONTIER, &m.b, err));
    add_r_columns(&m);
    if (!list_storages(&m) || !add_s_columns(&m)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t t = 0; t < s->df->n_ops; t++) {
        if (only_passes_on(&m, t)) {
            add_passing_row(&m, t);
        } else {
            ckm_i_ilp_add_stage(&m.b, t);
        }
    }
    CKM_I_TRY(ckm_i_milp_check(m.b.m, err));
    *out = m.b.ilp;
    m.b.ilp = NULL;
cleanup:
    free(m.events.at);
    free(m.storages);
    free(m.at_hand);
    free(m.most_col);
    free(m.most_of);
    free(m.now);
    free(m.before);
    ckm_i_ilp_close(&m.b);
    ckm_i_ilp_free(m.b.ilp);
    return status;
}

static bool wanted(const ckm_i_ilp *ilp, const double *x, int64_t t, int32_t tensor)
{
    int32_t col = ilp->s_col[t * ilp->df->n_tensors + tensor];
    return col == CKM_I_ILP_ONE || (col >= 0 && x[col] >= 0.5);
}

// Where a solution holds tensors; false when memory ran out.
static bool read_spans(const ckm_i_ilp *ilp, const double *x, ckm_i_spans *spans)
{
    const ckm_dataflow *df = ilp->df;
    for (int32_t i = 0; i < df->n_tensors; i++) {
        for (int32_t t = df->tensors[i].producer + 1; t <= df->n_ops && df->tensors[i].producer >= 0; t++) {
            if (!wanted(ilp, x, t, i)) {
                continue;
            }
            ckm_i_spans *list = &spans[i];
            if (list->n > 0 && list->at[list->n - 1].last == t - 1) {
                list->at[list->n - 1].last = t;
                continue;
            }
            if (list->n == list->cap && !CKM_I_GROW(list->at, list->n, list->cap)) {
                return false;
            }
            list->at[list->n++] = (ckm_i_span){t, t};
        }
    }
    return true;
}

ckm_status ckm_i_neighbourhood_take(const ckm_i_ilp *ilp, const double *x, ckm_i_search *s, ckm_error *err)
{
    size_t n = (size_t)ilp->df->n_tensors;
    ckm_i_snapshot snapshot = {0};
    ckm_status status = CKM_OK;
    ckm_i_spans *spans = ckm_i_calloc(n, sizeof *spans);
    if (spans == NULL || !read_spans(ilp, x, spans)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_snapshot_take(spans, ilp->df->n_tensors, 0, 0.0, &snapshot, err));
    CKM_I_TRY(ckm_i_snapshot_load(&snapshot, s, err));
cleanup:
    for (size_t i = 0; i < n && spans != NULL; i++) {
        free(spans[i].at);
    }
    free(spans);
    ckm_i_snapshot_dispose(&snapshot);
    return status;
}
