// SPDX-License-Identifier: Apache-2.0
// From a training graph to the dataflow graph: bytes from the values, costs from a cost model.
#include <checkmate/cost.h>

#include <stdlib.h>

#include "base/align.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "cost/cost_models.h"

static ckm_op_kind kind_of(ckm_i_phase phase)
{
    static const ckm_op_kind kinds[] = {
        [CKM_I_FORWARD] = CKM_OP_FORWARD,
        [CKM_I_LOSS] = CKM_OP_LOSS,
        [CKM_I_BACKWARD] = CKM_OP_BACKWARD,
        [CKM_I_UPDATE] = CKM_OP_UPDATE,
    };
    return kinds[phase];
}

// Adding everything up here names the operator at which it stops fitting.
static ckm_status check_total(const ckm_training *training, const int64_t *costs, ckm_error *err)
{
    int64_t total = 0;
    for (int32_t i = 0; i < training->n_ops; i++) {
        if (!ckm_i_add(total, costs[i], &total)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW,
                               "operator \"%.200s\": the cost of all operators up to it does not fit 63 bits; use a "
                               "smaller batch",
                               training->ops[i].name);
        }
    }
    return CKM_OK;
}

// Buffers of the op level lie in one arena; what they take up there is what counts.
static ckm_status round_up(const ckm_training *training, const char *name, int64_t bytes, int64_t *out, ckm_error *err)
{
    return ckm_i_round_up(bytes, training->step != NULL ? CKM_I_ALIGNMENT : 1, out)
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_OVERFLOW, "\"%.200s\": its bytes do not fit 63 bits", name);
}

static ckm_status add_tensors(const ckm_training *training, ckm_dataflow *df, ckm_error *err)
{
    for (int32_t i = 0; i < training->n_values; i++) {
        const ckm_i_training_value *v = &training->values[i];
        ckm_dataflow_tensor tensor = {.name = v->name, .alias_of = v->alias_of, .is_view = v->alias_of >= 0};
        CKM_I_CHECK(round_up(training, v->name, v->bytes, &tensor.bytes, err));
        CKM_I_CHECK(ckm_dataflow_add_tensor(df, &tensor, NULL, err));
    }
    return CKM_OK;
}

static ckm_status add_ops(const ckm_training *training, const int64_t *costs, ckm_dataflow *df, ckm_error *err)
{
    for (int32_t i = 0; i < training->n_ops; i++) {
        const ckm_i_training_op *o = &training->ops[i];
        ckm_dataflow_op op = {.name = o->name,
                              .kind = kind_of(o->phase),
                              .cost = costs[i],
                              .run_once = o->once,
                              .n_inputs = o->n_inputs,
                              .n_outputs = o->n_outputs,
                              .n_inplace = o->n_inplace,
                              .inputs = o->inputs,
                              .outputs = o->outputs,
                              .inplace = (const int32_t(*)[2])o->inplace};
        CKM_I_CHECK(round_up(training, o->name, o->workspace_bytes, &op.workspace_bytes, err));
        CKM_I_CHECK(ckm_dataflow_add_op(df, &op, NULL, err));
    }
    return CKM_OK;
}

static ckm_status build(const ckm_training *training, ckm_cost_unit unit, const int64_t *costs,
                        const ckm_second_memory *second, ckm_dataflow **out, ckm_error *err)
{
    ckm_dataflow *df = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_dataflow_create(training->name, unit, training->fixed_bytes, &df, err));
    CKM_I_TRY(add_tensors(training, df, err));
    CKM_I_TRY(add_ops(training, costs, df, err));
    for (int32_t i = 0; i < training->n_results; i++) {
        CKM_I_TRY(ckm_dataflow_add_result(df, training->results[i], err));
    }
    CKM_I_TRY(second != NULL ? ckm_dataflow_set_second_memory(df, second, err) : CKM_OK);
    CKM_I_TRY(ckm_dataflow_finish(df, err));
    *out = df;
    df = NULL;
cleanup:
    ckm_dataflow_free(df);
    return status;
}

// Multiply-accumulates as if they were time.
static ckm_cost_unit pretend_times(const ckm_training *training, int64_t *costs)
{
    static const int64_t macs_per_ns = 10;
    for (int32_t i = 0; i < training->n_ops; i++) {
        costs[i] /= macs_per_ns;
    }
    return CKM_COST_NS;
}

ckm_status ckm_cost_apply(const ckm_training *training, const ckm_cost_model *model, ckm_dataflow **out, ckm_error *err)
{
    return ckm_i_cost_apply(training, model, NULL, out, err);
}

ckm_status ckm_i_cost_apply(const ckm_training *training, const ckm_cost_model *model, const ckm_second_memory *second,
                            ckm_dataflow **out, ckm_error *err)
{
    CKM_I_NEED(training, err);
    CKM_I_NEED(model, err);
    CKM_I_NEED(out, err);
    ckm_cost_model own = CKM_COST_MODEL_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_cost_model, &own, device, model, err));
    if (own.kind == CKM_COST_MODEL_PROFILE) {
        CKM_I_NEED_NAMED(own.profile_path, "model->profile_path", err);
    } else if (own.kind == CKM_COST_MODEL_DEVICE) {
        CKM_I_NEED_NAMED(own.device, "model->device", err);
    }
    ckm_status status;
    ckm_cost_unit unit = CKM_COST_FLOPS;
    int64_t *costs = ckm_i_calloc((size_t)training->n_ops, sizeof *costs);
    if (costs == NULL) {
        return ckm_i_error_memory(err);
    }
    switch (own.kind) {
    case CKM_COST_MODEL_FLOPS:
        CKM_I_TRY(ckm_i_cost_flops(training, costs, err));
        break;
    case CKM_COST_MODEL_PROFILE:
        unit = CKM_COST_NS;
        CKM_I_TRY(ckm_i_cost_profile(training, own.profile_path, costs, err));
        break;
    case CKM_COST_MODEL_DEVICE:
        unit = CKM_COST_NS;
        CKM_I_TRY(ckm_i_cost_device(training, own.device, costs, err));
        break;
    default:
        status = ckm_i_error(err, CKM_ERR_ARGUMENT, "cost model %d does not exist", (int)own.kind);
        goto cleanup;
    }
    CKM_I_TRY(check_total(training, costs, err));
    if (second != NULL && unit == CKM_COST_FLOPS) {
        unit = pretend_times(training, costs);
    }
    CKM_I_TRY(build(training, unit, costs, second, out, err));
cleanup:
    free(costs);
    return status;
}
