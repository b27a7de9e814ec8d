// SPDX-License-Identifier: Apache-2.0
// Activations and other functions of one operand: the shape stays, one multiply-accumulate per input element. Where the
// output determines the slope, the gradient reads the output: the input need not be kept.
#include "autodiff/grad_rules.h"
#include "autodiff/lower.h"
#include "graph/op_grad_support.h"
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

// ---- gradients

enum { SOFTMAX_COST = 2 };  // a scalar product and a subtraction

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

// As kernels read them: in single precision.
static float real(const ckm_i_grad *g, const char *key, double fallback)
{
    return (float)ckm_i_op_attr_double(&g->forward, key, fallback);
}

// The output determines the branch that was taken unless the lower branch can be positive, reaches the limit or starts above
// zero.
static ckm_status grad_relu(ckm_i_grad *g, ckm_error *err)
{
    bool clear = real(g, "threshold", 0.0) == 0.0F && real(g, "negative_slope", 0.0) >= 0.0F &&
                 real(g, "max_value", 1.0) >= 0.0F;
    return clear ? ckm_i_grad_reads_output(g, err) : ckm_i_grad_reads_input(g, err);
}

// The same for kinds whose attribute alpha decides, or alpha and gamma. Kernels decide alike.
static ckm_status grad_by_alpha(ckm_i_grad *g, ckm_error *err)
{
    bool clear = real(g, "alpha", 1.0) >= 0.0F && real(g, "gamma", 1.0) >= 0.0F;
    return clear ? ckm_i_grad_reads_output(g, err) : ckm_i_grad_reads_input(g, err);
}

// min(0, alpha (exp(x / alpha) - 1)) is never positive, but there is none for 0.
static ckm_status grad_celu(ckm_i_grad *g, ckm_error *err)
{
    if (real(g, "alpha", 1.0) == 0.0F) {
        return ckm_i_grad_unsupported(g, "input, because its alpha is 0", err);
    }
    return ckm_i_grad_reads_output(g, err);
}

static ckm_status grad_clip(ckm_i_grad *g, ckm_error *err)
{
    if (ckm_i_grad_wants(g, 1) || ckm_i_grad_wants(g, 2)) {
        return ckm_i_grad_unsupported(g, "limits", err);
    }
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[4] = {g->dy, g->forward.outputs[0], ckm_i_grad_in(g, 1), ckm_i_grad_in(g, 2)};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "clip_backward", "x", inputs, 4, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

static ckm_status grad_prelu(ckm_i_grad *g, ckm_error *err)
{
    int32_t inputs[3] = {g->dy, ckm_i_grad_in(g, 0), ckm_i_grad_in(g, 1)};
    int32_t out;
    if (ckm_i_grad_wants(g, 1)) {
        ckm_shape slope = ckm_i_step_shape(g->step, inputs[2]);
        ckm_i_attrs attrs = {0};
        ckm_i_attrs_put_shape(&attrs, "slope_shape", &slope);
        CKM_I_CHECK(ckm_i_grad_emit(g, "prelu_backward_slope", "slope", inputs, 2, &attrs, &out, err));
        CKM_I_CHECK(ckm_i_grad_give(g, 1, "slope", out, err));
    }
    if (ckm_i_grad_wants(g, 0)) {
        CKM_I_CHECK(ckm_i_grad_emit(g, "prelu_backward", "x", inputs, 3, NULL, &out, err));
        CKM_I_CHECK(ckm_i_grad_give(g, 0, "x", out, err));
    }
    return CKM_OK;
}

// eˣ: dy·y. ln x: dy / x.
static ckm_status grad_exp(ckm_i_grad *g, ckm_error *err)
{
    int32_t inputs[2] = {g->dy, g->forward.outputs[0]};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "mul", "x", inputs, 2, NULL, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

static ckm_status grad_log(ckm_i_grad *g, ckm_error *err)
{
    int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, 0)};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "div", "x", inputs, 2, NULL, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

// ---- records

// A kind without parameters whose attributes do not concern shapes.
#define UNARY(kind, ...)                                                                                            \
    {                                                                                                               \
        CKM_I_OP(kind, 1, 1, 1, ckm_i_op_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST), \
            __VA_ARGS__                                                                                             \
    }
#define BACKWARD(kind)                                                                                               \
    {                                                                                                                \
        CKM_I_OP(kind, 2, 2, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, BOTH), \
            CKM_I_OP_BEHIND_LOSS                                                                                     \
    }

const ckm_i_op_class ckm_i_ops_activation[] = {
    UNARY(relu, CKM_I_OP_LEARNS(grad_relu), .onnx = {.op_type = "Relu", .since = 6}),
    UNARY(leaky_relu, CKM_I_OP_LEARNS(grad_by_alpha), .onnx = {.op_type = "LeakyRelu", .since = 6, .reals = {"alpha"}}),
    UNARY(elu, CKM_I_OP_LEARNS(grad_by_alpha), .onnx = {.op_type = "Elu", .since = 6, .reals = {"alpha"}}),
    UNARY(selu, CKM_I_OP_LEARNS(grad_by_alpha), .onnx = {.op_type = "Selu", .since = 6, .reals = {"alpha", "gamma"}}),
    UNARY(celu, CKM_I_OP_LEARNS(grad_celu), .onnx = {.op_type = "Celu", .since = 12, .reals = {"alpha"}}),
    UNARY(sigmoid, CKM_I_OP_LEARNS(ckm_i_grad_reads_output), .onnx = {.op_type = "Sigmoid", .since = 6}),
    UNARY(hard_sigmoid, CKM_I_OP_LEARNS(ckm_i_grad_reads_output),
          .onnx = {.op_type = "HardSigmoid", .since = 6, .reals = {"alpha", "beta"}}),
    UNARY(tanh, CKM_I_OP_LEARNS(ckm_i_grad_reads_output), .onnx = {.op_type = "Tanh", .since = 6}),
    UNARY(softplus, CKM_I_OP_LEARNS(ckm_i_grad_reads_output), .onnx = {.op_type = "Softplus", .since = 1}),
    UNARY(softsign, CKM_I_OP_LEARNS(ckm_i_grad_reads_output), .onnx = {.op_type = "Softsign", .since = 1}),
    UNARY(gelu, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    UNARY(swish, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    UNARY(hard_swish, CKM_I_OP_LEARNS(ckm_i_grad_reads_input), .onnx = {.op_type = "HardSwish", .since = 14}),
    UNARY(mish, CKM_I_OP_LEARNS(ckm_i_grad_reads_input), .onnx = {.op_type = "Mish", .since = 18}),
    UNARY(thresholded_relu, CKM_I_OP_LEARNS(grad_by_alpha),
          .onnx = {.op_type = "ThresholdedRelu", .since = 10, .reals = {"alpha"}}),
    {CKM_I_OP(softmax, 1, 1, 1, softmax_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     .lower = ckm_i_lower_last_axis, CKM_I_OP_LEARNS(ckm_i_grad_reads_output)},
    {CKM_I_OP(log_softmax, 1, 1, 1, softmax_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     .lower = ckm_i_lower_last_axis, CKM_I_OP_LEARNS(ckm_i_grad_reads_output)},
    {CKM_I_OP(prelu, 2, 2, 1, prelu_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_TRAITS(ELEMENTS, FIRST, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_QUARTER}, CKM_I_OP_LEARNS(grad_prelu)},
    {CKM_I_OP(clip, 1, 3, 1, clip_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     .lower = ckm_i_lower_clip, CKM_I_OP_LEARNS(grad_clip)},
    UNARY(sqrt, CKM_I_OP_LEARNS(ckm_i_grad_reads_output)),
    UNARY(erf, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    UNARY(neg, CKM_I_OP_LEARNS(ckm_i_grad_applies_again)),
    UNARY(exp, CKM_I_OP_LEARNS(grad_exp)),
    UNARY(log, CKM_I_OP_LEARNS(grad_log)),
    UNARY(abs, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    UNARY(reciprocal, CKM_I_OP_LEARNS(ckm_i_grad_reads_output)),
    UNARY(floor, CKM_I_OP_LEARNS_NOTHING),
    UNARY(ceil, CKM_I_OP_LEARNS_NOTHING),
    UNARY(round, CKM_I_OP_LEARNS_NOTHING),
    UNARY(sign, CKM_I_OP_LEARNS_NOTHING),
    UNARY(sin, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    UNARY(cos, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    UNARY(tan, CKM_I_OP_LEARNS(ckm_i_grad_reads_output)),
    UNARY(atan, CKM_I_OP_LEARNS(ckm_i_grad_reads_input)),
    {CKM_I_OP(scale, 1, 1, 1, ckm_i_op_infer_same, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     CKM_I_OP_LEARNS(ckm_i_grad_applies_again)},
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
    {CKM_I_OP(softmax_backward, 2, 2, 1, ckm_i_grad_infer_same, softmax_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(log_softmax_backward, 2, 2, 1, ckm_i_grad_infer_same, softmax_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    // (dy, y, [min], [max])
    {CKM_I_OP(clip_backward, 2, 4, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, BOTH), CKM_I_OP_BEHIND_LOSS},
    // (dy, x, slope)
    {CKM_I_OP(prelu_backward, 3, 3, 1, ckm_i_grad_infer_same, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, BOTH), CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(prelu_backward_slope, 2, 2, 1, slope_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
