// SPDX-License-Identifier: Apache-2.0
// Between a graph and the same graph in another order.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
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
