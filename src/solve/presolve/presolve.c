// SPDX-License-Identifier: Apache-2.0
// The reductions in their order. docs/THEORY.md has the argument for each.
#include "solve/presolve/presolve.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/presolve/presolve_graph.h"

static bool allocate(ckm_i_lean *l)
{
    const ckm_dataflow *df = l->df;
    size_t n_ops = (size_t)df->n_ops;
    size_t n_tensors = (size_t)df->n_tensors;
    size_t room = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        room += (size_t)op->n_inputs + (size_t)op->n_outputs + 2 * (size_t)op->n_inplace;
    }
    ckm_i_presolve *p = l->to;
    l->tensors = ckm_i_calloc(n_tensors, sizeof *l->tensors);
    l->ops = ckm_i_calloc(n_ops, sizeof *l->ops);
    l->pool = ckm_i_malloc(room, sizeof *l->pool);
    l->listed = ckm_i_calloc(n_tensors, sizeof *l->listed);
    p->head = ckm_i_malloc(n_ops, sizeof *p->head);
    p->tail = ckm_i_malloc(n_ops, sizeof *p->tail);
    p->part_of = ckm_i_malloc(n_ops, sizeof *p->part_of);
    p->next = ckm_i_malloc(n_ops, sizeof *p->next);
    p->feeds = ckm_i_malloc(n_ops, sizeof *p->feeds);
    p->tensor = ckm_i_malloc(n_tensors + 1, sizeof *p->tensor);
    p->root = ckm_i_malloc(n_tensors, sizeof *p->root);
    return l->tensors != NULL && l->ops != NULL && l->pool != NULL && l->listed != NULL && p->head != NULL &&
           p->tail != NULL && p->part_of != NULL && p->next != NULL && p->feeds != NULL && p->tensor != NULL &&
           p->root != NULL;
}

// Whether operator v can ever use this pair, whatever else is live.
static bool is_usable(const ckm_dataflow *df, const ckm_i_dataflow_op *op, const int32_t pair[2])
{
    int32_t from = df->tensors[pair[0]].storage;
    const ckm_i_dataflow_tensor *out = &df->tensors[pair[1]];
    if (df->tensors[from].pinned || out->alias_of >= 0 || out->pinned || out->bytes > df->tensors[from].bytes) {
        return false;
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t storage = df->tensors[op->inputs[i]].storage;
        if (op->inputs[i] != pair[0] && (storage == from || storage == out->storage)) {
            return false;
        }
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (df->tensors[op->outputs[i]].storage == from) {
            return false;
        }
    }
    return true;
}

// The list `number`, each tensor once.
static int32_t *copy_list(const ckm_i_lean *l, int32_t number, int32_t *to, const int32_t *items, int32_t n,
                          int32_t *n_copied)
{
    for (int32_t i = 0; i < n; i++) {
        if (l->listed[items[i]] != number) {
            l->listed[items[i]] = number;
            to[(*n_copied)++] = items[i];
        }
    }
    return to + *n_copied;
}

// The graph as it is, without what is always in memory.
static void copy_graph(ckm_i_lean *l)
{
    const ckm_dataflow *df = l->df;
    int32_t *at = l->pool;
    int32_t n_lists = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        l->tensors[x] = (ckm_i_lean_tensor){
            .storage = tensor->storage,
            .gone = tensor->pinned,
            .is_result = tensor->is_result,
            .bytes = tensor->alias_of < 0 ? tensor->bytes : 0,
            .owner = x,
        };
        l->to->root[x] = -1;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *from = &df->ops[v];
        ckm_i_lean_op *op = &l->ops[v];
        op->cost = from->cost;
        op->workspace_bytes = from->workspace_bytes;
        op->recomputable = from->recomputable;
        op->inputs = at;
        at = copy_list(l, ++n_lists, at, from->inputs, from->n_inputs, &op->n_inputs);
        op->outputs = at;
        at = copy_list(l, ++n_lists, at, from->outputs, from->n_outputs, &op->n_outputs);
        op->inplace = (int32_t(*)[2])at;
        for (int32_t k = 0; k < from->n_inplace; k++) {
            if (is_usable(df, from, from->inplace[k])) {
                op->inplace[op->n_inplace][0] = from->inplace[k][0];
                op->inplace[op->n_inplace++][1] = from->inplace[k][1];
            }
        }
        at += 2 * (ptrdiff_t)op->n_inplace;
        l->to->part_of[v] = v;
        l->to->next[v] = -1;
        l->to->feeds[v] = -1;
    }
    ckm_i_lean_sweep(l);
}

static bool changes(const ckm_i_lean *l, int64_t unit_bytes)
{
    const ckm_i_presolve *p = l->to;
    return p->n_small > 0 || p->n_views > 0 || p->n_merged > 0 || p->n_dead > 0 || l->room % unit_bytes != 0;
}

ckm_status ckm_i_presolve_create(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_presolve_level level,
                                 ckm_i_presolve **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_presolve *p = NULL;
    ckm_i_lean l = {.df = df, .room = budget_bytes - df->resident_bytes};
    *out = NULL;
    if (level == CKM_I_PRESOLVE_NONE || l.room < 0) {
        return CKM_OK;
    }
    p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    p->original = df;
    l.to = p;
    if (!allocate(&l)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    copy_graph(&l);
    CKM_I_TRY(ckm_i_lean_drop_small(&l, err));
    ckm_i_lean_drop_dead(&l);
    if (level == CKM_I_PRESOLVE_OPERATORS) {
        CKM_I_TRY(ckm_i_lean_drop_views(&l, err));
        ckm_i_lean_merge(&l);
    }
    int64_t unit_bytes = ckm_i_lean_unit(&l);
    if (changes(&l, unit_bytes)) {
        CKM_I_TRY(ckm_i_lean_build(&l, unit_bytes, err));
        *out = p;
        p = NULL;
    }
cleanup:
    ckm_i_presolve_free(p);
    free(l.tensors);
    free(l.ops);
    free(l.pool);
    free(l.listed);
    return status;
}

void ckm_i_presolve_free(ckm_i_presolve *p)
{
    if (p != NULL) {
        ckm_dataflow_free(p->reduced);
        free(p->head);
        free(p->tail);
        free(p->part_of);
        free(p->next);
        free(p->feeds);
        free(p->tensor);
        free(p->root);
        free(p);
    }
}
