// SPDX-License-Identifier: Apache-2.0
// Gradients of what moves elements, and of reductions: dx has the shape of the forward operator's input, and dy
// that of its output.
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

// dy, x, [y] -> dx. `axes` and `keepdims` as forward.
static ckm_status reduce_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_grad_check_forward(v, &v->in[1]->shape, NULL, err));
    if (v->op->n_inputs > 2) {
        CKM_I_CHECK(ckm_i_grad_check(v, 2, &v->in[0]->shape, err));
    }
    shapes[0] = v->in[1]->shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

#define REDUCTION(kind, inputs)                                                        \
    {                                                                                  \
        CKM_I_OP(kind, inputs, inputs, 1, reduce_infer, ckm_i_op_macs_one_per_output), \
            CKM_I_OP_PLAIN(ELEMENTS, SECOND), CKM_I_OP_BEHIND_LOSS                     \
    }

const ckm_i_op_class ckm_i_ops_grad_movement[] = {
    REDUCTION(reduce_max_backward, 3),
    REDUCTION(reduce_min_backward, 3),
    REDUCTION(reduce_prod_backward, 3),
    REDUCTION(reduce_l2_backward, 3),
    REDUCTION(reduce_log_sum_exp_backward, 3),
    REDUCTION(reduce_l1_backward, 2),
    REDUCTION(reduce_sum_square_backward, 2),
    REDUCTION(reduce_log_sum_backward, 2),
    {CKM_I_OP(pad_backward, 1, 1, 1, ckm_i_grad_infer_input, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(slice_backward, 1, 1, 1, ckm_i_grad_infer_input, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(tile_backward, 1, 1, 1, ckm_i_grad_infer_input, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    // dy, positions
    {CKM_I_OP(gather_backward, 2, 2, 1, ckm_i_grad_infer_input_with, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(gather_elements_backward, 2, 2, 1, ckm_i_grad_infer_input_with, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(gather_nd_backward, 2, 2, 1, ckm_i_grad_infer_input_with, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    // dy, positions: what the updates replaced has no gradient.
    {CKM_I_OP(scatter_nd_backward, 2, 2, 1, ckm_i_op_infer_same, NULL), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(scatter_elements_backward, 2, 2, 1, ckm_i_op_infer_same, NULL), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
