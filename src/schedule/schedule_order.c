// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule_order.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dataflow/dataflow.h"

// One sweep backwards decides, for every operand of every computation, whether it is still needed afterwards.
static void mark_needed(const ckm_dataflow *df, const int32_t *order, int64_t n_computes, const int64_t *flag_at,
                        bool *needed, bool *keep)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        needed[x] = df->tensors[x].is_result || df->tensors[x].producer < 0;
    }
    for (int64_t at = n_computes - 1; at >= 0; at--) {
        const ckm_i_dataflow_op *op = &df->ops[order[at]];
        bool *flags = keep + flag_at[at];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            flags[i] = needed[op->inputs[i]];
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            flags[op->n_inputs + i] = needed[op->outputs[i]];
            needed[op->outputs[i]] = false;
        }
        for (int32_t i = 0; i < op->n_inputs; i++) {
            needed[op->inputs[i]] = true;
        }
    }
}

ckm_status ckm_i_schedule_from_order(const ckm_dataflow *df, const int32_t *order, int64_t n_computes,
                                     ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *schedule = NULL;
    int64_t *flag_at = ckm_i_malloc((size_t)n_computes + 1, sizeof *flag_at);
    bool *needed = ckm_i_malloc((size_t)df->n_tensors, sizeof *needed);
    bool *live = ckm_i_calloc((size_t)df->n_tensors, sizeof *live);
    bool *keep = NULL;
    if (flag_at == NULL || needed == NULL || live == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    flag_at[0] = 0;
    for (int64_t at = 0; at < n_computes; at++) {
        const ckm_i_dataflow_op *op = &df->ops[order[at]];
        flag_at[at + 1] = flag_at[at] + op->n_inputs + op->n_outputs;
    }
    keep = ckm_i_malloc((size_t)flag_at[n_computes], sizeof *keep);
    if (keep == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    mark_needed(df, order, n_computes, flag_at, needed, keep);
    CKM_I_TRY(ckm_schedule_create(&schedule, err));
    for (int64_t at = 0; at < n_computes; at++) {
        const ckm_i_dataflow_op *op = &df->ops[order[at]];
        ckm_step step = {.kind = CKM_STEP_COMPUTE, .index = order[at]};
        CKM_I_TRY(ckm_schedule_append(schedule, &step, err));
        for (int32_t i = 0; i < op->n_outputs; i++) {
            live[op->outputs[i]] = true;
        }
        for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
            int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
            if (live[x] && !keep[flag_at[at] + i]) {
                ckm_step drop = {.kind = CKM_STEP_FREE, .index = x};
                CKM_I_TRY(ckm_schedule_append(schedule, &drop, err));
                live[x] = false;
            }
        }
    }
    *out = schedule;
    schedule = NULL;
cleanup:
    free(flag_at);
    free(needed);
    free(live);
    free(keep);
    ckm_schedule_free(schedule);
    return status;
}
