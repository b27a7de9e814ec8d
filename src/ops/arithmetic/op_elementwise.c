// SPDX-License-Identifier: Apache-2.0
// Element by element arithmetic beyond what layers need: operators of two operands with broadcasting,
// choice between two, change of element type, and what their gradients need. Functions of one operand are activations.
#include "autodiff/lower.h"
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status infer_broadcast(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    ckm_shape shape = v->in[0]->shape;
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        const ckm_i_graph_tensor *operand = ckm_i_op_view_input(v, i);
        if (operand == NULL) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "operand %d is missing", (int)i);
        }
        CKM_I_CHECK(ckm_i_op_broadcast(v, &shape, &operand->shape, &shape, err));
    }
    out_shapes[0] = shape;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status infer_comparison(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    CKM_I_CHECK(infer_broadcast(v, out_shapes, out_dtypes, err));
    out_dtypes[0] = CKM_BOOL;
    return CKM_OK;
}

// Inputs: condition, value where it holds, value where it does not.
static ckm_status infer_where(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    if (v->in[0]->dtype != CKM_BOOL) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the condition must be boolean");
    }
    CKM_I_CHECK(infer_broadcast(v, out_shapes, out_dtypes, err));
    out_dtypes[0] = v->in[1]->dtype;
    return CKM_OK;
}

static ckm_status infer_cast(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    int64_t dtype;
    CKM_I_CHECK(ckm_i_op_int(v, "dtype", CKM_F32, CKM_BOOL, (int64_t)v->in[0]->dtype, &dtype, err));
    out_shapes[0] = v->in[0]->shape;
    out_dtypes[0] = (ckm_dtype)dtype;
    return CKM_OK;
}

static ckm_status infer_truth(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    (void)err;
    out_shapes[0] = v->in[0]->shape;
    out_dtypes[0] = CKM_BOOL;
    return CKM_OK;
}

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

#define ARITHMETIC(kind, learning)                                                                               \
    {                                                                                                            \
        CKM_I_OP(kind, 2, 2, 1, infer_broadcast, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, EVERY), \
            learning                                                                                             \
    }
#define COMPARISON(kind)                                                                                         \
    {                                                                                                            \
        CKM_I_OP(kind, 2, 2, 1, infer_comparison, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, NONE), \
            CKM_I_OP_LEARNS_NOTHING                                                                              \
    }
#define BROADCAST(kind, inputs, shared)                                                  \
    {                                                                                    \
        CKM_I_OP(kind, inputs, inputs, 1, broadcast_infer, ckm_i_op_macs_one_per_input), \
            CKM_I_OP_PLAIN(ELEMENTS, shared), CKM_I_OP_BEHIND_LOSS                       \
    }

const ckm_i_op_class ckm_i_ops_elementwise[] = {
    ARITHMETIC(sub, CKM_I_OP_LEARNS(ckm_i_grad_of_sub)),
    {CKM_I_OP(mul, 2, 2, 1, infer_broadcast, ckm_i_op_macs_one_per_output),
     CKM_I_OP_TRAITS(ELEMENTS, EVERY, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .every = CKM_I_INIT_ONE}, CKM_I_OP_LEARNS(ckm_i_grad_of_mul)},
    {CKM_I_OP(div, 2, 2, 1, infer_broadcast, ckm_i_op_macs_one_per_output),
     CKM_I_OP_TRAITS(ELEMENTS, EVERY, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_ONE}, CKM_I_OP_LEARNS(ckm_i_grad_of_div)},
    ARITHMETIC(pow, CKM_I_OP_LEARNS(ckm_i_grad_of_pow)),
    ARITHMETIC(mod, CKM_I_OP_LEARNS(ckm_i_grad_of_mod)),
    {CKM_I_OP(minimum, 1, -1, 1, infer_broadcast, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, EVERY),
     .lower = ckm_i_lower_wide, CKM_I_OP_LEARNS(ckm_i_grad_of_minimum)},
    {CKM_I_OP(maximum, 1, -1, 1, infer_broadcast, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, EVERY),
     .lower = ckm_i_lower_wide, CKM_I_OP_LEARNS(ckm_i_grad_of_maximum)},
    {CKM_I_OP(sum, 1, -1, 1, infer_broadcast, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_sum, CKM_I_OP_REWRITTEN},
    {CKM_I_OP(mean, 1, -1, 1, infer_broadcast, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_mean, CKM_I_OP_REWRITTEN},
    COMPARISON(equal),
    COMPARISON(less),
    COMPARISON(less_or_equal),
    COMPARISON(greater),
    COMPARISON(greater_or_equal),
    COMPARISON(and),
    COMPARISON(or),
    COMPARISON(xor),
    {CKM_I_OP(not, 1, 1, 1, infer_truth, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS_NOTHING},
    {CKM_I_OP(is_nan, 1, 1, 1, infer_truth, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS_NOTHING},
    {CKM_I_OP(where, 3, 3, 1, infer_where, ckm_i_op_macs_one_per_output), CKM_I_OP_PLAIN(ELEMENTS, BRANCHES),
     CKM_I_OP_LEARNS(ckm_i_grad_of_where)},
    {CKM_I_OP(cast, 1, 1, 1, infer_cast, NULL), CKM_I_OP_TRAITS(ELEMENTS, NONE, ELEMENTS, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, .lower = ckm_i_lower_cast, CKM_I_OP_LEARNS(ckm_i_grad_of_cast)},
    // Gradients: (dy, y, b), (dy, a, b), (dy, a, y), (dy, condition)
    BROADCAST(div_backward_b, 3, BOTH),
    BROADCAST(pow_backward_a, 3, FIRST),
    BROADCAST(pow_backward_b, 3, FIRST),
    BROADCAST(select_backward, 2, FIRST),
    // (dy, operands of minimum or maximum)
    {CKM_I_OP(extreme_backward, 2, CKM_I_VIEW_INPUTS, 1, broadcast_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, FIRST), CKM_I_OP_BEHIND_LOSS},
    {0},
};
