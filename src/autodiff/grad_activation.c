// SPDX-License-Identifier: Apache-2.0
// Gradients of activations and of other functions of one operand. Where the output determines the slope, the
// gradient reads the output: the input need not be kept.
#include <stdio.h>
#include <string.h>

#include "autodiff/grad_rules.h"

// Adds <kind>_backward(dy, v).
static ckm_status backward(ckm_i_grad *g, int32_t v, ckm_error *err)
{
    char kind[64];
    int32_t inputs[2] = {g->dy, v};
    int32_t out;
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    snprintf(kind, sizeof kind, "%s_backward", g->forward.op_class->kind);
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, 2, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

static ckm_status from_output(ckm_i_grad *g, ckm_error *err)
{
    return backward(g, g->forward.outputs[0], err);
}

static ckm_status from_input(ckm_i_grad *g, ckm_error *err)
{
    return backward(g, ckm_i_grad_in(g, 0), err);
}

// As kernels read them: in single precision.
static float real(const ckm_i_grad *g, const char *key, double fallback)
{
    return (float)ckm_i_op_attr_double(&g->forward, key, fallback);
}

// The output tells the branch that was taken unless the lower branch can be positive, reaches the limit or starts above
// zero.
static ckm_status relu(ckm_i_grad *g, ckm_error *err)
{
    bool clear = real(g, "threshold", 0.0) == 0.0F && real(g, "negative_slope", 0.0) >= 0.0F &&
                 real(g, "max_value", 1.0) >= 0.0F;
    return clear ? from_output(g, err) : from_input(g, err);
}

// The same for kinds whose attribute alpha decides, or alpha and gamma. Kernels decide alike.
static ckm_status by_alpha(ckm_i_grad *g, ckm_error *err)
{
    bool clear = real(g, "alpha", 1.0) >= 0.0F && real(g, "gamma", 1.0) >= 0.0F;
    return clear ? from_output(g, err) : from_input(g, err);
}

// min(0, alpha (exp(x / alpha) - 1)) is never positive, but there is none for 0.
static ckm_status celu(ckm_i_grad *g, ckm_error *err)
{
    if (real(g, "alpha", 1.0) == 0.0F) {
        return ckm_i_grad_unsupported(g, "input, because its alpha is 0", err);
    }
    return from_output(g, err);
}

static ckm_status clip(ckm_i_grad *g, ckm_error *err)
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

static ckm_status prelu(ckm_i_grad *g, ckm_error *err)
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
static ckm_status exponential(ckm_i_grad *g, ckm_error *err)
{
    int32_t inputs[2] = {g->dy, g->forward.outputs[0]};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "mul", "x", inputs, 2, NULL, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

static ckm_status logarithm(ckm_i_grad *g, ckm_error *err)
{
    int32_t inputs[2] = {g->dy, ckm_i_grad_in(g, 0)};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "div", "x", inputs, 2, NULL, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

// The same operator on the gradient, attributes and all: neg, scale, dropout (the mask is drawn from `key`),
// triangle.
static ckm_status itself(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, g->forward.op_class->kind, "x", &g->dy, 1, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

const ckm_i_grad_rule ckm_i_grads_activation[] = {
    {"relu", relu, false},
    {"leaky_relu", by_alpha, false},
    {"thresholded_relu", by_alpha, false},
    {"elu", by_alpha, false},
    {"selu", by_alpha, false},
    {"celu", celu, false},
    {"sigmoid", from_output, false},
    {"hard_sigmoid", from_output, false},
    {"tanh", from_output, false},
    {"softplus", from_output, false},
    {"softsign", from_output, false},
    {"softmax", from_output, false},
    {"log_softmax", from_output, false},
    {"sqrt", from_output, false},
    {"reciprocal", from_output, false},
    {"tan", from_output, false},
    {"gelu", from_input, false},
    {"swish", from_input, false},
    {"hard_swish", from_input, false},
    {"mish", from_input, false},
    {"erf", from_input, false},
    {"abs", from_input, false},
    {"sin", from_input, false},
    {"cos", from_input, false},
    {"atan", from_input, false},
    {"clip", clip, false},
    {"prelu", prelu, false},
    {"exp", exponential, false},
    {"log", logarithm, false},
    {"neg", itself, false},
    {"scale", itself, false},
    {"dropout", itself, false},
    {"triangle", itself, false},
    // Constant almost everywhere.
    {"floor", NULL, false},
    {"ceil", NULL, false},
    {"round", NULL, false},
    {"sign", NULL, false},
    {NULL, NULL, false},
};
