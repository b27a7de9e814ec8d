// SPDX-License-Identifier: Apache-2.0
// Reductions of tensors alone. Every schedule stays what it is; only what it has to hold becomes less.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/presolve/presolve_graph.h"
#include "solve/core/structure.h"

// Whether `small` bytes more or less never decide what fits beside any operator's workspace, if all else comes in
// multiples of `unit`.
static bool cannot_bind(const ckm_i_lean *l, int64_t small, int64_t unit)
{
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        int64_t left = l->room - l->ops[v].workspace_bytes;
        if (left < 0 || left % unit < small) {
            return false;
        }
    }
    return l->room % unit >= small;
}

// A storage while anybody can have a use for it: from the first computation of a tensor on it to the last moment at
// which its producer may run again.
typedef struct span {
    int64_t bytes;
    int32_t begin, end;
} span;

static int by_bytes(const void *a, const void *b)
{
    const span *x = a;
    const span *y = b;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int32_t list_spans(const ckm_i_lean *l, const int32_t *last_need, span *spans, int32_t *span_of)
{
    int32_t n = 0;
    for (int32_t x = 0; x < l->df->n_tensors; x++) {
        if (l->tensors[x].n_members > 0) {
            span_of[x] = n;
            spans[n++] = (span){.bytes = l->tensors[x].bytes, .begin = l->df->n_ops, .end = -1};
        }
    }
    for (int32_t x = 0; x < l->df->n_tensors; x++) {
        if (!l->tensors[x].gone) {
            span *of = &spans[span_of[l->tensors[x].storage]];
            int32_t producer = l->df->tensors[x].producer;
            of->begin = producer < of->begin ? producer : of->begin;
            of->end = last_need[producer] > of->end ? last_need[producer] : of->end;
        }
    }
    qsort(spans, (size_t)n, sizeof *spans, by_bytes);
    return n;
}

// The most bytes that the first n storages have at any one time. `change` has room for n_ops + 2.
static int64_t most_at_once(const ckm_i_lean *l, const span *spans, int32_t n, int64_t *change)
{
    int64_t now = 0;
    int64_t most = 0;
    memset(change, 0, ((size_t)l->df->n_ops + 2) * sizeof *change);
    for (int32_t i = 0; i < n; i++) {
        change[spans[i].begin] += spans[i].bytes;
        change[spans[i].end + 1] -= spans[i].bytes;
    }
    for (int32_t t = 0; t <= l->df->n_ops; t++) {
        now += change[t];
        most = now > most ? now : most;
    }
    return most;
}

// The largest size that counts as small, or 0. unit[i]: room for the gcd of what is as large as spans[i] or larger.
static int64_t find_small(const ckm_i_lean *l, const span *spans, int64_t *unit, int64_t *change, int32_t n)
{
    int64_t gcd = 0;
    for (int32_t i = n - 1; i >= 0; i--) {
        gcd = ckm_i_gcd(spans[i].bytes, gcd);
        unit[i] = gcd;
    }
    for (int32_t i = n - 2; i >= 0; i--) {
        // Few sizes come before one from which on everything is a multiple of more than that.
        if (spans[i].bytes < unit[i + 1] && cannot_bind(l, most_at_once(l, spans, i + 1, change), unit[i + 1])) {
            return spans[i].bytes;
        }
    }
    return 0;
}

ckm_status ckm_i_lean_drop_small(ckm_i_lean *l, ckm_error *err)
{
    int32_t n_tensors = l->df->n_tensors;
    size_t n_ops = (size_t)l->df->n_ops;
    ckm_status status = CKM_OK;
    span *spans = ckm_i_malloc((size_t)n_tensors, sizeof *spans);
    int32_t *span_of = ckm_i_malloc((size_t)n_tensors, sizeof *span_of);
    int32_t *last_need = ckm_i_malloc(n_ops, sizeof *last_need);
    int64_t *unit = ckm_i_malloc((size_t)n_tensors, sizeof *unit);
    int64_t *change = ckm_i_malloc(n_ops + 2, sizeof *change);
    if (spans == NULL || span_of == NULL || last_need == NULL || unit == NULL || change == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    ckm_i_last_need(l->df, last_need);
    int32_t n = list_spans(l, last_need, spans, span_of);
    int64_t largest = find_small(l, spans, unit, change, n);
    for (int32_t x = 0; x < n_tensors; x++) {
        ckm_i_lean_tensor *tensor = &l->tensors[x];
        if (!tensor->gone && l->tensors[tensor->storage].bytes <= largest) {
            tensor->gone = true;
            l->to->n_small++;
        }
    }
    ckm_i_lean_sweep(l);
cleanup:
    free(spans);
    free(span_of);
    free(last_need);
    free(unit);
    free(change);
    return status;
}

// Whether the operator touches x's storage by another tensor as well.
static bool touches_beside(const ckm_i_lean *l, const ckm_i_lean_op *op, int32_t x)
{
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t y = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        if (y != x && l->tensors[y].storage == l->tensors[x].storage) {
            return true;
        }
    }
    return false;
}

static bool is_paired(const ckm_i_lean_op *op, int32_t x)
{
    for (int32_t k = 0; k < op->n_inplace; k++) {
        if (op->inplace[k][1] == x) {
            return true;
        }
    }
    return false;
}

// Whether output x can go: it is there only while its operator runs.
static bool is_dead(const ckm_i_lean *l, const ckm_i_lean_op *op, int32_t x, bool *beside)
{
    const ckm_i_lean_tensor *tensor = &l->tensors[x];
    if (tensor->n_users > 0 || tensor->is_result || is_paired(op, x)) {
        return false;
    }
    *beside = touches_beside(l, op, x);
    return *beside || l->tensors[tensor->storage].n_members == 1;
}

void ckm_i_lean_drop_dead(ckm_i_lean *l)
{
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        ckm_i_lean_op *op = &l->ops[v];
        for (int32_t i = op->n_outputs - 1; i >= 0; i--) {
            int32_t x = op->outputs[i];
            ckm_i_lean_tensor *storage = &l->tensors[l->tensors[x].storage];
            bool beside = false;
            if (!is_dead(l, op, x, &beside)) {
                continue;
            }
            // What the operator touches beside it keeps the storage in memory; else that is the operator's own need.
            op->workspace_bytes += beside ? 0 : storage->bytes;
            op->outputs[i] = op->outputs[--op->n_outputs];
            l->tensors[x].gone = true;
            storage->n_members--;
            l->to->n_dead++;
        }
    }
    ckm_i_lean_count(l);
}
