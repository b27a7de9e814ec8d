// SPDX-License-Identifier: Apache-2.0
// Multiply-accumulates. Layer level: what an operator class counts for its forward run, twice that for its backward
// run (the gradients of its inputs and of its weights), nothing for the loss. Op level: what each operator's class
// counts, backward operators and updates included.
#include "base/checked.h"
#include "base/error.h"
#include "cost/cost_models.h"

static ckm_status class_macs(const ckm_graph *graph, int32_t op, int64_t *macs, ckm_error *err)
{
    ckm_i_op_view view;
    *macs = 0;
    CKM_I_CHECK(ckm_i_op_view_init(graph, op, &view, err));
    return view.op->op_class->macs != NULL ? view.op->op_class->macs(&view, macs, err) : CKM_OK;
}

static ckm_status step_costs(const ckm_training *training, int64_t *costs, ckm_error *err)
{
    for (int32_t i = 0; i < training->n_ops; i++) {
        CKM_I_CHECK(class_macs(training->step, i, &costs[i], err));
    }
    return CKM_OK;
}

ckm_status ckm_i_cost_flops(const ckm_training *training, int64_t *costs, ckm_error *err)
{
    if (training->step != NULL) {
        return step_costs(training, costs, err);
    }
    for (int32_t i = 0; i < training->n_ops; i++) {
        const ckm_i_training_op *op = &training->ops[i];
        costs[i] = 0;
        if (op->source < 0 || (op->phase != CKM_I_FORWARD && op->phase != CKM_I_BACKWARD)) {
            continue;
        }
        CKM_I_CHECK(class_macs(training->graph, op->source, &costs[i], err));
        if (op->phase == CKM_I_BACKWARD && !ckm_i_mul(costs[i], 2, &costs[i])) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "operator \"%.200s\": its cost does not fit 63 bits", op->name);
        }
    }
    return CKM_OK;
}
