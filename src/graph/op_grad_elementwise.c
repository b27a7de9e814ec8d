// SPDX-License-Identifier: Apache-2.0
// Gradients of what works element by element: activations, arithmetic, choices. One multiply-accumulate per
// element of the gradient.
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

enum { SOFTMAX_COST = 2 };  // a scalar product and a subtraction

// (dy, ...) -> dx as dy; further inputs are broadcast to it.
static ckm_status broadcast_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        ckm_shape all;
        if (v->in[i] != NULL) {
            CKM_I_CHECK(ckm_i_op_broadcast(v, &v->in[0]->shape, &v->in[i]->shape, &all, err));
            CKM_I_CHECK(ckm_i_grad_check(v, 0, &all, err));
        }
    }
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

static ckm_status softmax_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, SOFTMAX_COST, macs, err);
}

// (dy, x) -> the gradient of the slope, of attribute slope_shape.
static ckm_status slope_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    CKM_I_CHECK(ckm_i_grad_shape(v, "slope_shape", &shapes[0], err));
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// (dy, x, slope): the slope is one a channel or broadcast, as the forward operator has checked.
#define BACKWARD(kind)                                                                                              \
    {                                                                                                               \
        CKM_I_OP(kind, 2, 2, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, BOTH) \
    }
#define BROADCAST(kind, inputs, shared)                                                  \
    {                                                                                    \
        CKM_I_OP(kind, inputs, inputs, 1, broadcast_infer, ckm_i_op_macs_one_per_input), \
            CKM_I_OP_PLAIN(ELEMENTS, shared)                                             \
    }

const ckm_i_op_class ckm_i_ops_grad_elementwise[] = {
    {CKM_I_OP(scale, 1, 1, 1, ckm_i_op_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST)},
    // (dy, y), but for relu, leaky_relu, thresholded_relu, elu and selu with attributes that make y ambiguous: (dy, x).
    BACKWARD(relu_backward),
    BACKWARD(leaky_relu_backward),
    BACKWARD(thresholded_relu_backward),
    BACKWARD(elu_backward),
    BACKWARD(selu_backward),
    BACKWARD(celu_backward),
    BACKWARD(sigmoid_backward),
    BACKWARD(hard_sigmoid_backward),
    BACKWARD(tanh_backward),
    BACKWARD(softplus_backward),
    BACKWARD(softsign_backward),
    BACKWARD(sqrt_backward),
    BACKWARD(reciprocal_backward),
    BACKWARD(tan_backward),
    // (dy, x)
    BACKWARD(gelu_backward),
    BACKWARD(swish_backward),
    BACKWARD(hard_swish_backward),
    BACKWARD(mish_backward),
    BACKWARD(erf_backward),
    BACKWARD(abs_backward),
    BACKWARD(sin_backward),
    BACKWARD(cos_backward),
    BACKWARD(atan_backward),
    // (dy, y)
    {CKM_I_OP(softmax_backward, 2, 2, 1, ckm_i_grad_infer_same, softmax_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH)},
    {CKM_I_OP(log_softmax_backward, 2, 2, 1, ckm_i_grad_infer_same, softmax_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH)},
    // (dy, y, [min], [max])
    {CKM_I_OP(clip_backward, 2, 4, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, BOTH)},
    // (dy, x, slope)
    {CKM_I_OP(prelu_backward, 3, 3, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, BOTH)},
    {CKM_I_OP(prelu_backward_slope, 2, 2, 1, slope_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE)},
    // (dy, y, b), (dy, a, b), (dy, a, y), (dy, condition)
    BROADCAST(div_backward_b, 3, BOTH),
    BROADCAST(pow_backward_a, 3, FIRST),
    BROADCAST(pow_backward_b, 3, FIRST),
    BROADCAST(select_backward, 2, FIRST),
    // (dy, operands of minimum or maximum)
    {CKM_I_OP(extreme_backward, 2, CKM_I_VIEW_INPUTS, 1, broadcast_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, FIRST)},
    {0},
};
