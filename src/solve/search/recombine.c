// SPDX-License-Identifier: Apache-2.0
// A shortest path over rows of S taken from several parents.
#include "solve/search/search_pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

// Stages between two looks at whether to stop.
enum { stop_period = 64 };

// A tensor that is held from a stage on, or not any more.
typedef struct toggle {
    int32_t stage, x;
} toggle;

// A parent while the stages are passed from the first to the last.
typedef struct lane {
    toggle *toggles;  // ascending
    int32_t n_toggles, next;
    uint64_t *row, *row_next;  // of the current stage and the one after it
    int32_t *on_storage;       // tensors held, per storage, in row_next
    int64_t bytes, bytes_next;
    // The least to get to the row, and to the next one.
    double excess, excess_next;
    int64_t cost, cost_next;
    bool reached, reached_next;
    int32_t same, same_next;  // the first lane with the same row
    uint64_t tried;           // steps from here to which next rows have been tried, a bit a lane
} lane;

typedef struct paths {
    const ckm_dataflow *df;
    int64_t budget_bytes;
    size_t words;
    int32_t n;
    lane *lanes;
    int8_t *from;  // per stage and lane: the lane before
    ckm_i_walk *walk;
    uint64_t *scratch;  // a row of S
    uint64_t *r;
    int64_t *op_stamp;  // per operator: the edge that has counted it
    int64_t stamp;
} paths;

static int compare_toggles(const void *a, const void *b)
{
    const toggle *x = a;
    const toggle *y = b;
    return x->stage != y->stage ? (x->stage > y->stage) - (x->stage < y->stage) : (x->x > y->x) - (x->x < y->x);
}

static ckm_status create_lane(const paths *p, const ckm_i_snapshot *parent, lane *l, ckm_error *err)
{
    int32_t n_spans = parent->first[parent->n_tensors];
    l->toggles = ckm_i_malloc((size_t)n_spans * 2, sizeof *l->toggles);
    l->row = ckm_i_calloc(p->words, sizeof *l->row);
    l->row_next = ckm_i_calloc(p->words, sizeof *l->row_next);
    l->on_storage = ckm_i_calloc((size_t)p->df->n_tensors, sizeof *l->on_storage);
    if (l->toggles == NULL || l->row == NULL || l->row_next == NULL || l->on_storage == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < parent->n_tensors; x++) {
        for (int32_t i = parent->first[x]; i < parent->first[x + 1]; i++) {
            l->toggles[l->n_toggles++] = (toggle){parent->spans[i].first, x};
            l->toggles[l->n_toggles++] = (toggle){parent->spans[i].last + 1, x};
        }
    }
    qsort(l->toggles, (size_t)l->n_toggles, sizeof *l->toggles, compare_toggles);
    return CKM_OK;
}

static void free_paths(paths *p)
{
    for (int32_t k = 0; k < p->n && p->lanes != NULL; k++) {
        free(p->lanes[k].toggles);
        free(p->lanes[k].row);
        free(p->lanes[k].row_next);
        free(p->lanes[k].on_storage);
    }
    free(p->lanes);
    free(p->from);
    free(p->scratch);
    free(p->r);
    free(p->op_stamp);
    ckm_i_walk_free(p->walk);
}

static ckm_status create_paths(paths *p, const ckm_i_snapshot *parents, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n_ops = (size_t)p->df->n_ops;
    p->lanes = ckm_i_calloc((size_t)p->n, sizeof *p->lanes);
    p->from = ckm_i_calloc((n_ops + 1) * (size_t)p->n, sizeof *p->from);
    p->scratch = ckm_i_calloc(p->words, sizeof *p->scratch);
    p->r = ckm_i_calloc(ckm_i_bits_words(p->df->n_ops), sizeof *p->r);
    p->op_stamp = ckm_i_calloc(n_ops, sizeof *p->op_stamp);
    if (p->lanes == NULL || p->from == NULL || p->scratch == NULL || p->r == NULL || p->op_stamp == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_walk_create(p->df, &p->walk, err));
    for (int32_t k = 0; k < p->n; k++) {
        CKM_I_TRY(create_lane(p, &parents[k], &p->lanes[k], err));
    }
cleanup:
    return status;
}

// Moves row_next of a lane on to stage t.
static void advance(const paths *p, lane *l, int32_t t)
{
    memcpy(l->row_next, l->row, p->words * sizeof *l->row);
    l->bytes_next = l->bytes;
    for (; l->next < l->n_toggles && l->toggles[l->next].stage <= t; l->next++) {
        int32_t x = l->toggles[l->next].x;
        int32_t storage = p->df->tensors[x].storage;
        int64_t bytes = p->df->tensors[storage].bytes;
        if (ckm_i_bits_get(l->row_next, x)) {
            ckm_i_bits_clear(l->row_next, x);
            l->bytes_next -= --l->on_storage[storage] == 0 ? bytes : 0;
        } else {
            ckm_i_bits_set(l->row_next, x);
            l->bytes_next += l->on_storage[storage]++ == 0 ? bytes : 0;
        }
    }
    l->reached_next = false;
    l->tried = 0;
}

// Lanes with the same row are one node, whose name is that of the first.
static void merge_next(paths *p)
{
    for (int32_t k = 0; k < p->n; k++) {
        p->lanes[k].same_next = k;
        for (int32_t i = 0; i < k; i++) {
            if (p->lanes[i].same_next == i &&
                memcmp(p->lanes[i].row_next, p->lanes[k].row_next, p->words * sizeof *p->scratch) == 0) {
                p->lanes[k].same_next = i;
                break;
            }
        }
    }
}

static bool less(double excess_a, int64_t cost_a, double excess_b, int64_t cost_b)
{
    return excess_a < excess_b || (excess_a == excess_b && cost_a < cost_b);
}

// Whether what stage t has to make for row `b` after row `a` alone shows that this is no better than what is known.
static bool hopeless(paths *p, int32_t t, const lane *a, const lane *b)
{
    const ckm_dataflow *df = p->df;
    if (!b->reached_next) {
        return false;
    }
    int64_t cost = a->cost;
    p->stamp++;
    p->op_stamp[t] = p->stamp;
    for (size_t w = 0; w < p->words && less(a->excess, cost, b->excess_next, b->cost_next); w++) {
        for (uint64_t bits = b->row_next[w] & ~a->row[w]; bits != 0; bits &= bits - 1) {
            int32_t v = df->tensors[(int32_t)(w * 64) + __builtin_ctzll(bits)].producer;
            if (p->op_stamp[v] != p->stamp) {
                p->op_stamp[v] = p->stamp;
                cost += df->ops[v].cost;
            }
        }
    }
    return !less(a->excess, cost, b->excess_next, b->cost_next);
}

// Stage t from the row of lane i to the next row of lane k.
static void try_edge(paths *p, int32_t t, int32_t i, int32_t k)
{
    lane *a = &p->lanes[i];
    lane *b = &p->lanes[k];
    bool known = (a->tried >> k & 1) != 0;
    a->tried |= UINT64_C(1) << k;
    if (known || hopeless(p, t, a, b)) {
        return;
    }
    size_t row_bytes = p->words * sizeof *p->scratch;
    memcpy(p->scratch, a->row, row_bytes);
    int64_t cost = ckm_i_walk_close(p->walk, t, p->scratch, b->row_next, p->r);
    // A row that grows would have to hold what can be made only once.
    if (memcmp(p->scratch, a->row, row_bytes) != 0 || cost > INT64_MAX - p->df->total_cost - a->cost) {
        return;
    }
    cost += a->cost - p->df->ops[t].cost;
    if (b->reached_next && !less(a->excess, cost, b->excess_next, b->cost_next)) {
        return;
    }
    int64_t peak = ckm_i_walk_peak(p->walk, t, a->bytes, a->row, b->row_next, p->r);
    double excess = a->excess + (peak > p->budget_bytes ? (double)(peak - p->budget_bytes) : 0.0);
    if (!b->reached_next || less(excess, cost, b->excess_next, b->cost_next)) {
        b->excess_next = excess;
        b->cost_next = cost;
        b->reached_next = true;
        p->from[(size_t)(t + 1) * (size_t)p->n + (size_t)k] = (int8_t)i;
    }
}

static void pass_stage(paths *p, int32_t t)
{
    for (int32_t k = 0; k < p->n; k++) {
        advance(p, &p->lanes[k], t + 1);
    }
    merge_next(p);
    // What the parents do comes first: it is cheap as a rule, and rules out most of the rest.
    for (int32_t k = 0; k < p->n; k++) {
        if (p->lanes[p->lanes[k].same].reached) {
            try_edge(p, t, p->lanes[k].same, p->lanes[k].same_next);
        }
    }
    for (int32_t i = 0; i < p->n; i++) {
        for (int32_t k = 0; k < p->n; k++) {
            if (p->lanes[i].same == i && p->lanes[i].reached && p->lanes[k].same_next == k) {
                try_edge(p, t, i, k);
            }
        }
    }
    for (int32_t k = 0; k < p->n; k++) {
        lane *l = &p->lanes[k];
        uint64_t *row = l->row;
        l->row = l->row_next;
        l->row_next = row;
        l->bytes = l->bytes_next;
        l->excess = l->excess_next;
        l->cost = l->cost_next;
        l->reached = l->reached_next;
        l->same = l->same_next;
    }
}

// Passes the stages again and collects what the path through `lane_at` holds.
static bool collect(paths *p, const int8_t *lane_at, int32_t *since, ckm_i_spans *spans)
{
    const ckm_dataflow *df = p->df;
    bool ok = true;
    memset(p->scratch, 0, p->words * sizeof *p->scratch);
    for (int32_t k = 0; k < p->n; k++) {
        memset(p->lanes[k].row, 0, p->words * sizeof *p->lanes[k].row);
        p->lanes[k].next = 0;
    }
    for (int32_t t = 0; t <= df->n_ops; t++) {
        for (int32_t k = 0; k < p->n; k++) {
            lane *l = &p->lanes[k];
            for (; l->next < l->n_toggles && l->toggles[l->next].stage <= t; l->next++) {
                int32_t x = l->toggles[l->next].x;
                l->row[x / 64] ^= UINT64_C(1) << (x % 64);
            }
        }
        const uint64_t *row = p->lanes[lane_at[t]].row;
        for (size_t w = 0; w < p->words; w++) {
            for (uint64_t bits = row[w] ^ p->scratch[w]; bits != 0; bits &= bits - 1) {
                int32_t x = (int32_t)(w * 64) + __builtin_ctzll(bits);
                if (ckm_i_bits_get(row, x)) {
                    since[x] = t;
                } else {
                    ok = ok && ckm_i_spans_append(&spans[x], since[x], t - 1);
                }
            }
            p->scratch[w] = row[w];
        }
    }
    for (int32_t i = 0; i < df->n_results; i++) {
        int32_t x = df->results[i];  // may be listed twice, or be an input
        if (ckm_i_bits_get(p->scratch, x)) {
            ckm_i_bits_clear(p->scratch, x);
            ok = ok && ckm_i_spans_append(&spans[x], since[x], df->n_ops);
        }
    }
    return ok;
}

// The path that ends in lane 0.
static ckm_status trace(paths *p, ckm_i_snapshot *out, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    ckm_status status = CKM_OK;
    const lane *end = &p->lanes[0];
    int64_t cost = df->total_cost + end->cost;
    double excess = end->excess;
    ckm_i_spans *spans = ckm_i_calloc((size_t)df->n_tensors, sizeof *spans);
    int32_t *since = ckm_i_malloc((size_t)df->n_tensors, sizeof *since);
    int8_t *lane_at = ckm_i_calloc((size_t)df->n_ops + 1, sizeof *lane_at);
    if (spans == NULL || since == NULL || lane_at == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t t = df->n_ops; t > 0; t--) {
        lane_at[t - 1] = p->from[(size_t)t * (size_t)p->n + (size_t)lane_at[t]];
    }
    if (!collect(p, lane_at, since, spans)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_snapshot_take(spans, df->n_tensors, cost, excess, out, err));
cleanup:
    for (int32_t x = 0; x < df->n_tensors && spans != NULL; x++) {
        free(spans[x].at);
    }
    free(spans);
    free(since);
    free(lane_at);
    return status;
}

ckm_status ckm_i_recombine(const ckm_dataflow *df, int64_t budget_bytes, const ckm_i_snapshot *parents, int32_t n,
                           bool (*stop)(void *user), void *user, ckm_i_snapshot *out, ckm_error *err)
{
    paths p = {.df = df, .budget_bytes = budget_bytes, .words = ckm_i_bits_words(df->n_tensors), .n = n};
    ckm_i_snapshot found = {0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(create_paths(&p, parents, err));
    for (int32_t k = 0; k < n; k++) {  // nothing is held into the first stage
        p.lanes[k].reached = k == 0;
    }
    for (int32_t t = 0; t < df->n_ops; t++) {
        if (t % stop_period == 0 && stop != NULL && stop(user)) {
            *out = found;  // nothing
            goto cleanup;
        }
        pass_stage(&p, t);
    }
    // All end with the same row, what is left.
    CKM_I_TRY(trace(&p, &found, err));
    *out = found;
cleanup:
    free_paths(&p);
    return status;
}
