// SPDX-License-Identifier: Apache-2.0
// What stands between a parameter's gradient and its update where a step has several batches: they are added up in this
// process, or sent to the others and received back as their mean.
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

// gradient, sum: of one shape, and so is the result.
static ckm_status exchange_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    if (v->op->n_inputs > 1) {
        CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    }
    shapes[0] = v->in[0]->shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status exchange_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, 1, macs, err);
}

// What is sent cannot be sent again, and what is added up must not be added twice.
const ckm_i_op_class ckm_i_ops_exchange[] = {
    {CKM_I_OP(gradient_sum, 2, 2, 1, exchange_infer, exchange_macs),
     CKM_I_OP_TRAITS(ELEMENTS, FIRST, NOTHING, NONE, ONCE), .init = {.weight = CKM_I_WEIGHT_NONE},
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(gradient_send, 1, 1, 1, exchange_infer, exchange_macs),
     CKM_I_OP_TRAITS(ELEMENTS, FIRST, NOTHING, NONE, ONCE), .init = {.weight = CKM_I_WEIGHT_NONE},
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(gradient_receive, 1, 1, 1, exchange_infer, exchange_macs),
     CKM_I_OP_TRAITS(ELEMENTS, FIRST, NOTHING, NONE, ONCE), .init = {.weight = CKM_I_WEIGHT_NONE},
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
