// SPDX-License-Identifier: Apache-2.0
// Activation functions: the shape stays, one multiply-accumulate per input element.
#include "graph/op_registry.h"
#include "graph/op_support.h"

static ckm_status softmax_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t wanted;
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "axis", -CKM_MAX_RANK, CKM_MAX_RANK, -1, &wanted, err));
    CKM_I_CHECK(ckm_i_op_axis(v, wanted, v->in[0]->shape.rank, &axis, err));
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

// The slope repeats over x, either as numpy aligns shapes or one element a channel.
static ckm_status prelu_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    const ckm_shape *x = &v->in[0]->shape;
    const ckm_shape *slope = &v->in[1]->shape;
    bool one_a_channel = slope->rank == 1 && slope->dims[0] == x->dims[ckm_i_channel_axis(v->graph, x->rank)];
    ckm_shape out = *x;
    if (!one_a_channel) {
        CKM_I_CHECK(ckm_i_op_broadcast(v, x, slope, &out, err));
    }
    if (!ckm_i_shapes_equal(&out, x)) {
        char have[256];
        char want[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "a slope of shape %s does not repeat over %s",
                              ckm_i_shape_text(slope, have, sizeof have), ckm_i_shape_text(x, want, sizeof want));
    }
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

// Limits that are operands are one number each, of x's type.
static ckm_status clip_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        int64_t elements;
        if (v->in[i] == NULL) {
            continue;
        }
        CKM_I_CHECK(ckm_i_op_elements(v, &v->in[i]->shape, &elements, err));
        if (elements != 1 || v->in[i]->dtype != v->in[0]->dtype) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "operand %d must be one number of the first one's type",
                                  (int)i);
        }
    }
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

// A kind without parameters whose attributes do not concern shapes.
#define UNARY(kind)                                                                                                \
    {                                                                                                              \
        CKM_I_OP(kind, 1, 1, 1, ckm_i_op_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST) \
    }

const ckm_i_op_class ckm_i_ops_activation[] = {
    UNARY(relu),
    UNARY(leaky_relu),
    UNARY(elu),
    UNARY(selu),
    UNARY(celu),
    UNARY(sigmoid),
    UNARY(hard_sigmoid),
    UNARY(tanh),
    UNARY(softplus),
    UNARY(softsign),
    UNARY(gelu),
    UNARY(swish),
    UNARY(hard_swish),
    UNARY(mish),
    UNARY(thresholded_relu),
    {CKM_I_OP(softmax, 1, 1, 1, softmax_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST)},
    {CKM_I_OP(log_softmax, 1, 1, 1, softmax_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST)},
    {CKM_I_OP(prelu, 2, 2, 1, prelu_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_TRAITS(ELEMENTS, FIRST, NOTHING, NONE, ALLOWED),
     .init = {CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_QUARTER}},
    {CKM_I_OP(clip, 1, 3, 1, clip_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST)},
    {0},
};
