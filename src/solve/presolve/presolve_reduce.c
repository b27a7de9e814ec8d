// SPDX-License-Identifier: Apache-2.0
// Reductions of tensors alone. Every schedule stays what it is; only what it has to hold becomes less.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/core/structure.h"
#include "solve/presolve/presolve_graph.h"

// Whether `small` bytes more or less never decide what fits with any operator's workspace, if all else comes in
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
static bool touches_more_than(const ckm_i_lean *l, const ckm_i_lean_op *op, int32_t x)
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
static bool is_dead(const ckm_i_lean *l, const ckm_i_lean_op *op, int32_t x, bool *touches_more)
{
    const ckm_i_lean_tensor *tensor = &l->tensors[x];
    if (tensor->n_users > 0 || tensor->is_result || is_paired(op, x)) {
        return false;
    }
    *touches_more = touches_more_than(l, op, x);
    return *touches_more || l->tensors[tensor->storage].n_members == 1;
}

void ckm_i_lean_drop_dead(ckm_i_lean *l)
{
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        ckm_i_lean_op *op = &l->ops[v];
        for (int32_t i = op->n_outputs - 1; i >= 0; i--) {
            int32_t x = op->outputs[i];
            ckm_i_lean_tensor *storage = &l->tensors[l->tensors[x].storage];
            bool touches_more = false;
            if (!is_dead(l, op, x, &touches_more)) {
                continue;
            }
            // What the operator touches in addition keeps the storage in memory; else that is the operator's own need.
            op->workspace_bytes += touches_more ? 0 : storage->bytes;
            op->outputs[i] = op->outputs[--op->n_outputs];
            l->tensors[x].gone = true;
            storage->n_members--;
            l->to->n_dead++;
        }
    }
    ckm_i_lean_count(l);
}

// Reductions that take operators away. They change what a stage is, so that they keep optima for the classes "any" and
// "order" only.

// Whether operator v can run as soon as its operand x, made by `producer`, is there: all else that it read was made
// before, and is never missed.
static bool needs_only(const ckm_i_lean *l, int32_t v, int32_t x, const int32_t *shown_by)
{
    const ckm_i_dataflow_op *op = &l->df->ops[v];
    int32_t producer = l->df->tensors[x].producer;
    int32_t of_x = -1;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t y = op->inputs[i];
        if (shown_by[y] == x) {
            // Two views of x might be made at different times.
            if (of_x >= 0 && of_x != y) {
                return false;
            }
            of_x = y;
        } else if (l->df->tensors[y].producer > producer) {
            return false;
        }
    }
    return true;
}

static bool is_free_view(const ckm_i_lean *l, int32_t v, const int32_t *shown_by)
{
    const ckm_i_lean_op *op = &l->ops[v];
    if (op->cost != 0 || op->workspace_bytes != 0 || !op->recomputable || op->n_inplace > 0 || op->n_inputs != 1 ||
        op->n_outputs == 0) {
        return false;
    }
    // Those that are never read, and that have gone, included.
    for (int32_t i = 0; i < l->df->ops[v].n_outputs; i++) {
        if (l->tensors[l->df->ops[v].outputs[i]].storage != l->tensors[op->inputs[0]].storage) {
            return false;
        }
    }
    return needs_only(l, v, op->inputs[0], shown_by);
}

// Reads x's stand-in wherever the operator reads x.
static void read_stand_ins(ckm_i_lean_op *op, const int32_t *shown_by)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t x = shown_by[op->inputs[i]];
        if (!ckm_i_lean_contains(op->inputs, kept, x)) {
            op->inputs[kept++] = x;
        }
    }
    op->n_inputs = kept;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        op->inplace[k][0] = shown_by[op->inplace[k][0]];
    }
}

ckm_status ckm_i_lean_drop_views(ckm_i_lean *l, ckm_error *err)
{
    int32_t *shown_by = ckm_i_malloc((size_t)l->df->n_tensors, sizeof *shown_by);
    if (shown_by == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < l->df->n_tensors; x++) {
        shown_by[x] = x;
    }
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        ckm_i_lean_op *op = &l->ops[v];
        read_stand_ins(op, shown_by);
        if (!is_free_view(l, v, shown_by)) {
            continue;
        }
        int32_t x = op->inputs[0];
        for (int32_t i = 0; i < l->df->ops[v].n_outputs; i++) {
            int32_t y = l->df->ops[v].outputs[i];
            shown_by[y] = x;
            l->to->root[y] = x;
            l->tensors[x].is_result = l->tensors[x].is_result || l->tensors[y].is_result;
            l->tensors[y].gone = true;
        }
        op->gone = true;
        l->to->part_of[v] = -1;
        l->to->n_views++;
    }
    free(shown_by);
    ckm_i_lean_count(l);
    return CKM_OK;
}

// v only has to run at some time, once: right after u, that takes no more memory. Its cost must not be counted whenever u
// runs.
static bool is_idle_after(const ckm_i_lean_op *u, const ckm_i_lean_op *v)
{
    return v->n_inputs == 0 && v->n_outputs == 0 && v->workspace_bytes <= u->workspace_bytes &&
           (!u->recomputable || v->cost == 0);
}

// Whether v reads x, else only what u reads as well and does not give away.
static bool reads_along(const ckm_i_lean_op *u, const ckm_i_lean_op *v, int32_t x)
{
    for (int32_t i = 0; i < v->n_inputs; i++) {
        if (v->inputs[i] != x && !ckm_i_lean_contains(u->inputs, u->n_inputs, v->inputs[i])) {
            return false;
        }
        for (int32_t k = 0; k < u->n_inplace; k++) {
            if (u->inplace[k][0] == v->inputs[i]) {
                return false;
            }
        }
    }
    return ckm_i_lean_contains(v->inputs, v->n_inputs, x);
}

// Whether v may as well run at once whenever u has, its output standing for u's (docs/THEORY.md). *workspace_bytes is
// then what both need in addition to operands and that output.
static bool follows(const ckm_i_lean *l, const ckm_i_lean_op *u, const ckm_i_lean_op *v, int64_t *workspace_bytes)
{
    if (u->n_outputs != 1 || v->n_outputs > 1) {
        return false;
    }
    int32_t x = u->outputs[0];
    int32_t z = v->n_outputs == 1 ? v->outputs[0] : -1;
    if (l->tensors[x].is_result || l->tensors[x].n_users != 1 || !reads_along(u, v, x)) {
        return false;
    }
    bool inplace = false;
    for (int32_t k = 0; k < v->n_inplace; k++) {
        if (v->inplace[k][0] != x) {
            return false;
        }
        inplace = true;
    }
    const ckm_i_lean_tensor *storage = &l->tensors[l->tensors[x].storage];
    if (z >= 0 && l->tensors[z].storage == l->tensors[x].storage) {
        *workspace_bytes = u->workspace_bytes;
        return v->workspace_bytes <= u->workspace_bytes;
    }
    int64_t bytes = z >= 0 ? l->tensors[l->tensors[z].storage].bytes : 0;
    bool alone = storage->n_members == 1 && (z < 0 || l->tensors[l->tensors[z].storage].n_members == 1);
    if (!alone || bytes > storage->bytes || (u->n_inplace > 0 && bytes != storage->bytes)) {
        return false;
    }
    *workspace_bytes = u->workspace_bytes + (storage->bytes - bytes);
    return v->workspace_bytes + (inplace ? 0 : bytes) <= u->workspace_bytes;
}

static void merge(ckm_i_lean *l, int32_t u_index, int32_t v_index, int32_t *last, int32_t *tail,
                  int64_t workspace_bytes)
{
    ckm_i_lean_op *u = &l->ops[u_index];
    ckm_i_lean_op *v = &l->ops[v_index];
    bool idle = v->n_inputs == 0;  // what follows reads an output
    u->cost += v->cost;
    u->recomputable = u->recomputable && (idle || v->recomputable);
    v->gone = true;
    l->to->next[*last] = v_index;
    l->to->feeds[v_index] = idle ? -1 : *tail;
    *last = v_index;
    *tail = idle ? *tail : v_index;
    l->to->n_merged++;
    if (idle) {
        return;
    }
    int32_t x = u->outputs[0];
    int32_t z = v->n_outputs == 1 ? v->outputs[0] : -1;
    u->workspace_bytes = workspace_bytes;
    l->tensors[x].gone = true;
    l->tensors[l->tensors[x].storage].n_members--;
    for (int32_t i = 0; i < v->n_inputs; i++) {
        l->tensors[v->inputs[i]].n_users--;
    }
    u->n_outputs = v->n_outputs;
    if (z >= 0) {
        ckm_i_lean_tensor *storage = &l->tensors[l->tensors[z].storage];
        storage->owner = storage->owner == x ? z : storage->owner;
        u->outputs[0] = z;
    }
    int32_t kept = 0;
    for (int32_t k = 0; k < u->n_inplace && z >= 0; k++) {
        u->inplace[kept][0] = u->inplace[k][0];
        u->inplace[kept++][1] = z;
    }
    u->n_inplace = kept;
}

void ckm_i_lean_merge(ckm_i_lean *l)
{
    int32_t u = -1;
    int32_t last = -1;  // of what has become part of u
    int32_t tail = -1;  // of those, the one that made its output
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        int64_t workspace_bytes = 0;
        if (l->ops[v].gone) {
            continue;
        }
        if (u >= 0 && (is_idle_after(&l->ops[u], &l->ops[v]) || follows(l, &l->ops[u], &l->ops[v], &workspace_bytes))) {
            merge(l, u, v, &last, &tail, workspace_bytes);
        } else {
            u = last = tail = v;
        }
    }
    ckm_i_lean_count(l);
}
