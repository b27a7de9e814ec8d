// SPDX-License-Identifier: Apache-2.0
// Reductions that take operators away. They change what a stage is, so that they keep optima for the classes "any" and
// "order" only.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/presolve/presolve_graph.h"

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
    // Those that nobody reads, and that have gone, included.
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

// Whether v may as well run at once whenever u has, its output standing for u's (docs/PRESOLVE.md). *workspace_bytes is
// then what both need beside operands and that output.
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
