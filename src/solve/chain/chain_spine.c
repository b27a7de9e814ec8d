// SPDX-License-Identifier: Apache-2.0
// Recognises the chain at the beginning of a graph and the operators that visit its states backwards.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/chain/chain.h"
#include "solve/core/structure.h"

// Whether v reads nothing that takes memory but what `before` puts out (-1: nothing at all), and puts out one tensor
// on storage of its own that no other tensor shares.
static bool continues(const ckm_dataflow *df, const bool *shared, int32_t v, int32_t before)
{
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t i = 0; i < op->n_inputs; i++) {
        const ckm_i_dataflow_tensor *x = &df->tensors[op->inputs[i]];
        if (!x->pinned && x->producer != before) {
            return false;
        }
    }
    if (op->n_outputs != 1) {
        return false;
    }
    const ckm_i_dataflow_tensor *y = &df->tensors[op->outputs[0]];
    return !y->pinned && !shared[y->storage];
}

// Whether v reads state `before`, without which the chain would begin anew.
static bool reads(const ckm_dataflow *df, int32_t v, int32_t before)
{
    for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
        if (df->tensors[df->ops[v].inputs[i]].producer == before) {
            return true;
        }
    }
    return false;
}

static int32_t measure(const ckm_dataflow *df, const bool *shared)
{
    int32_t n = 0;
    while (n < df->n_ops && continues(df, shared, n, n - 1) && (n == 0 || reads(df, n, n - 1))) {
        n++;
    }
    return n;
}

// The earliest state that v reads, or -1.
static int32_t earliest_state(const ckm_dataflow *df, int32_t n, int32_t v)
{
    int32_t earliest = -1;
    for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
        int32_t producer = df->tensors[df->ops[v].inputs[i]].producer;
        if (producer >= 0 && producer < n && (earliest < 0 || producer < earliest)) {
            earliest = producer;
        }
    }
    return earliest;
}

// Walks the operators behind the chain: each that goes further back than all before it visits a state, and of those
// with the same earliest state the one that touches the most.
static void find_visits(const ckm_dataflow *df, ckm_i_spine *s)
{
    int32_t low = s->n;
    for (int32_t v = s->n; v < df->n_ops; v++) {
        int32_t k = earliest_state(df, s->n, v);
        if (k < 0 || k > low) {
            continue;
        }
        int64_t touched = ckm_i_working_set(df, v) + df->resident_bytes;
        if (k < low) {
            s->n_visits++;
        }
        if (k < low || touched > s->touched[k]) {
            s->visit[k] = v;
            s->touched[k] = touched;
        }
        low = k;
    }
}

// Whether every visit depends on the one before it, through whatever operators.
static bool visits_are_forced(const ckm_dataflow *df, const ckm_i_spine *s, bool *reached)
{
    int32_t from = -1;
    for (int32_t k = s->n - 1; k >= 0; k--) {
        if (s->visit[k] < 0) {
            continue;
        }
        if (from >= 0) {
            reached[from] = true;
            for (int32_t v = from + 1; v <= s->visit[k]; v++) {
                reached[v] = false;
                for (int32_t i = 0; i < df->ops[v].n_inputs && !reached[v]; i++) {
                    int32_t producer = df->tensors[df->ops[v].inputs[i]].producer;
                    reached[v] = producer >= from && reached[producer];
                }
            }
            if (!reached[s->visit[k]]) {
                return false;
            }
        }
        from = s->visit[k];
    }
    return true;
}

ckm_status ckm_i_spine_find(const ckm_dataflow *df, ckm_i_spine *out, ckm_error *err)
{
    ckm_i_spine s = {0};
    ckm_status status = CKM_OK;
    bool *shared = ckm_i_calloc((size_t)df->n_tensors, sizeof *shared);
    bool *reached = ckm_i_calloc((size_t)df->n_ops, sizeof *reached);
    if (shared == NULL || reached == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t storage = df->tensors[x].storage;
        shared[storage] = shared[storage] || storage != x;
    }
    s.n = measure(df, shared);
    size_t n = (size_t)s.n;
    s.reach = ckm_i_calloc(n + 1, sizeof *s.reach);
    s.bytes = ckm_i_calloc(n, sizeof *s.bytes);
    s.touched = ckm_i_calloc(n, sizeof *s.touched);
    s.visit = ckm_i_malloc(n, sizeof *s.visit);
    if (s.reach == NULL || s.bytes == NULL || s.touched == NULL || s.visit == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t k = 0; k < s.n; k++) {
        s.reach[k + 1] = s.reach[k] + df->ops[k].cost;  // no overflow: the sum of all costs fits
        s.bytes[k] = df->tensors[df->ops[k].outputs[0]].bytes;
        s.visit[k] = -1;
    }
    find_visits(df, &s);
    s.order_is_free = visits_are_forced(df, &s, reached);
    *out = s;
    s = (ckm_i_spine){0};
cleanup:
    ckm_i_spine_dispose(&s);
    free(shared);
    free(reached);
    return status;
}

void ckm_i_spine_dispose(ckm_i_spine *s)
{
    free(s->reach);
    free(s->bytes);
    free(s->touched);
    free(s->visit);
    *s = (ckm_i_spine){0};
}
