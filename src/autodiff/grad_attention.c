// SPDX-License-Identifier: Apache-2.0
// Gradients of what attention is made of besides products: masked softmax, positions, windows.
#include "autodiff/grad_rules.h"

static ckm_status give(ckm_i_grad *g, const char *kind, const int32_t *inputs, int32_t n_inputs,
                       const ckm_i_attrs *attrs, ckm_error *err)
{
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, n_inputs, attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

// As softmax: what the mask hides has y = 0.
static ckm_status masked_softmax(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = {0};
    int32_t inputs[2] = {g->dy, g->forward.outputs[0]};
    ckm_i_attrs_put_int(&attrs, "axis", ckm_i_step_shape(g->step, g->dy).rank - 1);
    return give(g, "softmax_backward", inputs, 2, &attrs, err);
}

// Rotations are orthogonal: the gradient is turned back.
static ckm_status rotary(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    ckm_i_attrs_put_int(&attrs, "inverse", 1 - ckm_i_op_attr_int(&g->forward, "inverse", 0, 0));
    return give(g, "rotary", &g->dy, 1, &attrs, err);
}

static ckm_status roll(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape back = {.rank = ckm_i_step_shape(g->step, g->dy).rank};
    ckm_i_attrs attrs = {0};
    for (int32_t i = 0; i < back.rank; i++) {
        back.dims[i] = -ckm_i_op_attr_int(&g->forward, "shifts", i, 0);
    }
    ckm_i_attrs_put_shape(&attrs, "shifts", &back);
    return give(g, "roll", &g->dy, 1, &attrs, err);
}

static ckm_status window_bias(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    return give(g, "window_bias_backward", &g->dy, 1, &attrs, err);
}

const ckm_i_grad_rule ckm_i_grads_attention[] = {
    {"masked_softmax", masked_softmax, false},
    {"rotary", rotary, false},
    {"roll", roll, false},
    {"window_bias", window_bias, false},
    {"time_embedding", NULL, false},  // of data
    {NULL, NULL, false},
};
