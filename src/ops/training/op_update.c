// SPDX-License-Identifier: Apache-2.0
// Updates of parameters by an optimizer. They have no outputs: parameter and state are changed in place.
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

enum { ADAM_COST = 4 };  // per element: two moments, a quotient, a step

// parameter, gradient, state: all of one shape.
static ckm_status update_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    (void)shapes;
    (void)dtypes;
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        if (v->in[i] != NULL) {
            CKM_I_CHECK(ckm_i_grad_check(v, i, &v->in[0]->shape, err));
        }
    }
    if (v->in[0]->role != CKM_ROLE_PARAMETER) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input 0 is not a parameter");
    }
    return CKM_OK;
}

static ckm_status sgd_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, v->op->n_inputs > 2 ? 2 : 1, macs, err);
}

static ckm_status adam_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, ADAM_COST, macs, err);
}

const ckm_i_op_class ckm_i_ops_update[] = {
    {CKM_I_OP(update_sgd, 2, 3, 0, update_infer, sgd_macs), CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ONCE),
     .init = {.weight = CKM_I_WEIGHT_NONE}, CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(update_adam, 4, 4, 0, update_infer, adam_macs), CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ONCE),
     .init = {.weight = CKM_I_WEIGHT_NONE}, CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(update_adamw, 4, 4, 0, update_infer, adam_macs), CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ONCE),
     .init = {.weight = CKM_I_WEIGHT_NONE}, CKM_I_OP_BEHIND_LOSS},
    {0},
};
