// SPDX-License-Identifier: Apache-2.0
// Losses and what starts the backward pass. The gradient that a loss starts from is 1.
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

// logits, labels: int32, the shape of the logits without the axis of the classes.
static ckm_status check_labels(const ckm_i_op_view *v, ckm_error *err)
{
    const ckm_shape *logits = &v->in[0]->shape;
    int64_t axis;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "axis", 0, logits->rank - 1, logits->rank - 1, &axis, err));
    ckm_shape wanted = {.rank = logits->rank - 1};
    for (int32_t i = 0; i < wanted.rank; i++) {
        wanted.dims[i] = logits->dims[i < axis ? i : i + 1];
    }
    if (v->in[1]->dtype != CKM_I32) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "labels must be 32-bit integers");
    }
    return ckm_i_grad_check(v, 1, &wanted, err);
}

// -> loss, number of samples predicted right.
static ckm_status cross_entropy_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(check_labels(v, err));
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        shapes[i] = (ckm_shape){0};
        dtypes[i] = i == 0 ? CKM_F32 : CKM_I32;
    }
    return CKM_OK;
}

static ckm_status cross_entropy_backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes,
                                               ckm_error *err)
{
    CKM_I_CHECK(check_labels(v, err));
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

static ckm_status mse_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    shapes[0] = (ckm_shape){0};
    dtypes[0] = CKM_F32;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_loss[] = {
    {CKM_I_OP(softmax_cross_entropy, 2, 2, 2, cross_entropy_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, LAST_AXIS, ALLOWED), .init = {.weight = CKM_I_WEIGHT_NONE},
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(softmax_cross_entropy_backward, 2, 2, 1, cross_entropy_backward_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, FIRST), CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(mse, 2, 2, 1, mse_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(mse_backward, 2, 2, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, FIRST), CKM_I_OP_BEHIND_LOSS},
    {0},
};
