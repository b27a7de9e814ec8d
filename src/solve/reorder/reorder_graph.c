// SPDX-License-Identifier: Apache-2.0
// Between a graph and the same graph in another order.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/reorder/reorder.h"

ckm_status ckm_i_reorder_permute(const ckm_dataflow *df, const int32_t *order, ckm_dataflow **out, ckm_error *err)
{
    ckm_dataflow *permuted = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_dataflow_create(df->name, df->cost_unit, df->fixed_bytes, &permuted, err));
    for (int32_t x = 0; x < df->n_tensors; x++) {
        ckm_dataflow_tensor tensor = ckm_dataflow_get_tensor(df, x);
        CKM_I_TRY(ckm_dataflow_add_tensor(permuted, &tensor, NULL, err));
    }
    for (int32_t p = 0; p < df->n_ops; p++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(df, order[p]);
        CKM_I_TRY(ckm_dataflow_add_op(permuted, &op, NULL, err));
    }
    for (int32_t i = 0; i < df->n_results; i++) {
        CKM_I_TRY(ckm_dataflow_add_result(permuted, df->results[i], err));
    }
    CKM_I_TRY(ckm_dataflow_finish(permuted, err));
    *out = permuted;
    permuted = NULL;
cleanup:
    ckm_dataflow_free(permuted);
    return status;
}

ckm_status ckm_i_reorder_map_back(const ckm_schedule *permuted, const int32_t *order, ckm_schedule **out,
                                  ckm_error *err)
{
    ckm_schedule *mapped = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_create(&mapped, err));
    for (int64_t i = 0; i < ckm_schedule_step_count(permuted); i++) {
        ckm_step step = ckm_schedule_get_step(permuted, i);
        if (step.kind == CKM_STEP_COMPUTE) {
            step.index = order[step.index];
        }
        CKM_I_TRY(ckm_schedule_append(mapped, &step, err));
    }
    *out = mapped;
    mapped = NULL;
cleanup:
    ckm_schedule_free(mapped);
    return status;
}

ckm_status ckm_i_reorder_first_order(const ckm_schedule *schedule, int32_t n_ops, int32_t *order, ckm_error *err)
{
    int32_t n = 0;
    bool *seen = ckm_i_calloc((size_t)n_ops, sizeof *seen);
    if (seen == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < ckm_schedule_step_count(schedule); i++) {
        ckm_step step = ckm_schedule_get_step(schedule, i);
        if (step.kind == CKM_STEP_COMPUTE && !seen[step.index]) {
            seen[step.index] = true;
            order[n++] = step.index;
        }
    }
    free(seen);
    return CKM_OK;
}

// Another order for a schedule that recomputes: every computation becomes an operator of its own, reading what the
// latest computation before it made. That graph recomputes nothing, so the search over orders applies to it.

typedef struct unrolling {
    const ckm_dataflow *df;
    ckm_dataflow *out;
    int32_t *latest;  // per tensor: its last instance, or -1
    int32_t *op_of;   // per instance of an operator
    int32_t n_instances;
    int32_t *inputs, *outputs;  // of the operator being added
    int32_t (*pairs)[2];
} unrolling;

static ckm_status add_tensor(unrolling *u, int32_t x, ckm_error *err)
{
    const ckm_i_dataflow_tensor *tensor = &u->df->tensors[x];
    // A view whose owner has not been made yet stands alone: sizes matter here, not who owns what.
    int32_t owner = tensor->alias_of >= 0 ? u->latest[tensor->alias_of] : -1;
    ckm_dataflow_tensor instance = {.bytes = tensor->bytes, .alias_of = owner, .is_view = owner >= 0};
    return ckm_dataflow_add_tensor(u->out, &instance, &u->latest[x], err);
}

static ckm_status add_instance(unrolling *u, int32_t v, ckm_error *err)
{
    const ckm_i_dataflow_op *op = &u->df->ops[v];
    ckm_status status = CKM_OK;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        u->inputs[i] = u->latest[op->inputs[i]];
    }
    for (int32_t k = 0; k < op->n_inplace; k++) {
        u->pairs[k][0] = u->latest[op->inplace[k][0]];
    }
    for (int views = 0; views < 2; views++) {  // owners first
        for (int32_t i = 0; i < op->n_outputs; i++) {
            if ((u->df->tensors[op->outputs[i]].alias_of >= 0) == (views == 1)) {
                CKM_I_TRY(add_tensor(u, op->outputs[i], err));
            }
            u->outputs[i] = u->latest[op->outputs[i]];
        }
    }
    for (int32_t k = 0; k < op->n_inplace; k++) {
        u->pairs[k][1] = u->latest[op->inplace[k][1]];
    }
    ckm_dataflow_op instance = {
        .cost = op->cost,
        .workspace_bytes = op->workspace_bytes,
        .n_inputs = op->n_inputs,
        .n_outputs = op->n_outputs,
        .n_inplace = op->n_inplace,
        .inputs = u->inputs,
        .outputs = u->outputs,
        .inplace = (const int32_t(*)[2])u->pairs,
    };
    u->op_of[u->n_instances++] = v;
    status = ckm_dataflow_add_op(u->out, &instance, NULL, err);
cleanup:
    return status;
}

static ckm_status unroll(unrolling *u, const ckm_schedule *schedule, ckm_error *err)
{
    const ckm_dataflow *df = u->df;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_dataflow_create(df->name, df->cost_unit, df->fixed_bytes, &u->out, err));
    for (int32_t x = 0; x < df->n_tensors; x++) {
        u->latest[x] = -1;
    }
    for (int views = 0; views < 2; views++) {
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (df->tensors[x].producer < 0 && (df->tensors[x].alias_of >= 0) == (views == 1)) {
                CKM_I_TRY(add_tensor(u, x, err));
            }
        }
    }
    for (int64_t i = 0; i < ckm_schedule_step_count(schedule); i++) {
        ckm_step step = ckm_schedule_get_step(schedule, i);
        if (step.kind == CKM_STEP_COMPUTE) {
            CKM_I_TRY(add_instance(u, step.index, err));
        }
    }
    for (int32_t i = 0; i < df->n_results; i++) {
        CKM_I_TRY(ckm_dataflow_add_result(u->out, u->latest[df->results[i]], err));
    }
    CKM_I_TRY(ckm_dataflow_finish(u->out, err));
cleanup:
    return status;
}

static ckm_status allocate(unrolling *u, const ckm_schedule *schedule, ckm_error *err)
{
    size_t width = 1;
    for (int32_t v = 0; v < u->df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &u->df->ops[v];
        int32_t widest = op->n_inputs > op->n_outputs ? op->n_inputs : op->n_outputs;
        widest = op->n_inplace > widest ? op->n_inplace : widest;
        width = (size_t)widest > width ? (size_t)widest : width;
    }
    u->latest = ckm_i_malloc((size_t)u->df->n_tensors, sizeof *u->latest);
    u->op_of = ckm_i_malloc((size_t)ckm_schedule_step_count(schedule), sizeof *u->op_of);
    u->inputs = ckm_i_malloc(width, sizeof *u->inputs);
    u->outputs = ckm_i_malloc(width, sizeof *u->outputs);
    u->pairs = ckm_i_malloc(width, sizeof *u->pairs);
    if (u->latest == NULL || u->op_of == NULL || u->inputs == NULL || u->outputs == NULL || u->pairs == NULL) {
        return ckm_i_error_memory(err);
    }
    return CKM_OK;
}

ckm_status ckm_i_reorder_schedule(const ckm_dataflow *df, const ckm_schedule *schedule,
                                  const ckm_i_order_options *options, ckm_schedule **out, ckm_error *err)
{
    unrolling u = {.df = df};
    ckm_status status = CKM_OK;
    int64_t peak = 0;
    int32_t *order = NULL;
    CKM_I_TRY(allocate(&u, schedule, err));
    CKM_I_TRY(unroll(&u, schedule, err));
    order = ckm_i_malloc((size_t)u.n_instances, sizeof *order);
    if (order == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < u.n_instances; i++) {
        order[i] = i;
    }
    CKM_I_TRY(ckm_i_order_anneal(u.out, options, order, &peak, err));
    for (int32_t i = 0; i < u.n_instances; i++) {
        order[i] = u.op_of[order[i]];
    }
    CKM_I_TRY(ckm_i_schedule_from_order(df, order, u.n_instances, out, err));
cleanup:
    ckm_dataflow_free(u.out);
    free(u.latest);
    free(u.op_of);
    free(u.inputs);
    free(u.outputs);
    free(u.pairs);
    free(order);
    return status;
}

static void clear(uint64_t *bits, int32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

ckm_status ckm_i_reorder_stages(const ckm_dataflow *permuted, const int32_t *order, const ckm_schedule *schedule,
                                ckm_i_stages **out, ckm_error *err)
{
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    int32_t t = 0;
    bool begins = false;  // stage t has not computed anything yet
    int32_t *at = ckm_i_malloc((size_t)permuted->n_ops, sizeof *at);
    uint64_t *live = ckm_i_calloc(ckm_i_bits_words(permuted->n_tensors), sizeof *live);
    if (at == NULL || live == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t p = 0; p < permuted->n_ops; p++) {
        at[order[p]] = p;
    }
    CKM_I_TRY(ckm_i_stages_create(permuted, &stages, err));
    for (int64_t i = 0; i < ckm_schedule_step_count(schedule); i++) {
        ckm_step step = ckm_schedule_get_step(schedule, i);
        if (step.kind == CKM_STEP_FREE) {
            clear(live, step.index);
        } else {
            const ckm_i_dataflow_op *op = &permuted->ops[at[step.index]];
            begins = at[step.index] == t;
            t += begins;
            for (int32_t k = 0; k < step.n_inplace; k++) {
                clear(live, step.inplace[k][0]);
            }
            for (int32_t k = 0; k < op->n_outputs; k++) {
                if (!permuted->tensors[op->outputs[k]].pinned) {
                    ckm_i_bits_set(live, op->outputs[k]);
                }
            }
        }
        if (begins) {
            memcpy(ckm_i_stages_s(stages, t), live, stages->s_words * sizeof *live);
        }
    }
    CKM_I_TRY(ckm_i_stages_complete(stages, err));
    *out = stages;
    stages = NULL;
cleanup:
    ckm_i_stages_free(stages);
    free(at);
    free(live);
    return status;
}
