// SPDX-License-Identifier: Apache-2.0
#include "solve/presolve/presolve_graph.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/core/structure.h"

bool ckm_i_lean_contains(const int32_t *items, int32_t n, int32_t wanted)
{
    for (int32_t i = 0; i < n; i++) {
        if (items[i] == wanted) {
            return true;
        }
    }
    return false;
}

void ckm_i_lean_count(ckm_i_lean *l)
{
    int32_t n = l->df->n_tensors;
    for (int32_t x = 0; x < n; x++) {
        l->tensors[x].n_users = 0;
        l->tensors[x].n_members = 0;
    }
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        for (int32_t i = 0; !l->ops[v].gone && i < l->ops[v].n_inputs; i++) {
            l->tensors[l->ops[v].inputs[i]].n_users++;
        }
    }
    for (int32_t x = 0; x < n; x++) {
        ckm_i_lean_tensor *storage = &l->tensors[l->tensors[x].storage];
        if (!l->tensors[x].gone) {
            bool orphaned = storage->n_members++ == 0 && l->tensors[storage->owner].gone;
            storage->owner = orphaned ? x : storage->owner;
        }
    }
}

static int32_t sweep_list(const ckm_i_lean *l, int32_t *list, int32_t n)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) {
        if (!l->tensors[list[i]].gone) {
            list[kept++] = list[i];
        }
    }
    return kept;
}

void ckm_i_lean_sweep(ckm_i_lean *l)
{
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        ckm_i_lean_op *op = &l->ops[v];
        int32_t kept = 0;
        op->n_inputs = sweep_list(l, op->inputs, op->n_inputs);
        op->n_outputs = sweep_list(l, op->outputs, op->n_outputs);
        for (int32_t k = 0; k < op->n_inplace; k++) {
            if (!l->tensors[op->inplace[k][0]].gone && !l->tensors[op->inplace[k][1]].gone) {
                op->inplace[kept][0] = op->inplace[k][0];
                op->inplace[kept++][1] = op->inplace[k][1];
            }
        }
        op->n_inplace = kept;
    }
    ckm_i_lean_count(l);
}

int64_t ckm_i_lean_unit(const ckm_i_lean *l)
{
    int64_t unit = 0;
    for (int32_t x = 0; x < l->df->n_tensors; x++) {
        unit = l->tensors[x].n_members > 0 ? ckm_i_gcd(l->tensors[x].bytes, unit) : unit;
    }
    return unit > 0 ? unit : 1;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

// `index` becomes the tensor's number in the reduced graph.
static ckm_status add_tensors(ckm_i_lean *l, int64_t unit_bytes, int32_t *index, ckm_error *err)
{
    int32_t n = 0;
    for (int32_t x = 0; x < l->df->n_tensors; x++) {
        l->to->tensor[n] = x;
        index[x] = l->tensors[x].gone ? -1 : n++;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t x = l->to->tensor[i];
        const ckm_i_lean_tensor *storage = &l->tensors[l->tensors[x].storage];
        bool owns = storage->owner == x;
        ckm_dataflow_tensor tensor = {
            .name = l->df->tensors[x].name,
            .bytes = owns ? storage->bytes / unit_bytes : 0,
            .alias_of = owns ? -1 : index[storage->owner],
            .is_view = !owns,
        };
        CKM_I_CHECK(ckm_dataflow_add_tensor(l->to->reduced, &tensor, NULL, err));
    }
    return CKM_OK;
}

static void renumber(int32_t *items, int32_t n, const int32_t *index)
{
    for (int32_t i = 0; i < n; i++) {
        items[i] = index[items[i]];
    }
}

static ckm_status add_ops(ckm_i_lean *l, int64_t unit_bytes, const int32_t *index, ckm_error *err)
{
    int64_t units = floor_div(l->room, unit_bytes);
    for (int32_t v = 0; v < l->df->n_ops; v++) {
        ckm_i_lean_op *op = &l->ops[v];
        if (op->gone) {
            continue;
        }
        renumber(op->inputs, op->n_inputs, index);
        renumber(op->outputs, op->n_outputs, index);
        for (int32_t k = 0; k < op->n_inplace; k++) {
            renumber(op->inplace[k], 2, index);
        }
        ckm_dataflow_op reduced = {
            .name = l->df->ops[v].name,
            .kind = l->df->ops[v].kind,
            .cost = op->cost,
            // What this leaves of the budget is what fits with the workspace, in whole units.
            .workspace_bytes = units - floor_div(l->room - op->workspace_bytes, unit_bytes),
            .run_once = !op->recomputable,
            .n_inputs = op->n_inputs,
            .n_outputs = op->n_outputs,
            .n_inplace = op->n_inplace,
            .inputs = op->inputs,
            .outputs = op->outputs,
            .inplace = (const int32_t(*)[2])op->inplace,
        };
        int32_t added = 0;
        CKM_I_CHECK(ckm_dataflow_add_op(l->to->reduced, &reduced, &added, err));
        l->to->head[added] = v;
        l->to->tail[added] = v;
        for (int32_t part = v; part >= 0; part = l->to->next[part]) {
            l->to->part_of[part] = added;
            l->to->tail[added] = part == v || l->to->feeds[part] >= 0 ? part : l->to->tail[added];
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_lean_build(ckm_i_lean *l, int64_t unit_bytes, ckm_error *err)
{
    const ckm_dataflow *df = l->df;
    ckm_status status = CKM_OK;
    int32_t *index = ckm_i_malloc((size_t)df->n_tensors, sizeof *index);
    if (index == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_dataflow_create(df->name, df->cost_unit, 0, &l->to->reduced, err));
    CKM_I_TRY(add_tensors(l, unit_bytes, index, err));
    CKM_I_TRY(add_ops(l, unit_bytes, index, err));
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (!l->tensors[x].gone && l->tensors[x].is_result) {
            CKM_I_TRY(ckm_dataflow_add_result(l->to->reduced, index[x], err));
        }
    }
    CKM_I_TRY(ckm_dataflow_finish(l->to->reduced, err));
    l->to->unit_bytes = unit_bytes;
    l->to->budget_bytes = floor_div(l->room, unit_bytes);
cleanup:
    free(index);
    return status;
}
