// SPDX-License-Identifier: Apache-2.0
// Gradients of attention, and of what it is made of besides products: masked softmax, positions, windows.
#include "ops/gradients.h"
#include "graph/op_attention.h"

static ckm_status give(ckm_i_grad *g, const char *kind, const int32_t *inputs, int32_t n_inputs,
                       const ckm_i_attrs *attrs, ckm_error *err)
{
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, n_inputs, attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

// As softmax: what the mask hides has y = 0.
ckm_status ckm_i_grad_of_masked_softmax(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = {0};
    int32_t inputs[2] = {g->dy, g->forward.outputs[0]};
    ckm_i_attrs_put_int(&attrs, "axis", ckm_i_step_shape(g->step, g->dy).rank - 1);
    return give(g, "softmax_backward", inputs, 2, &attrs, err);
}

// Rotations are orthogonal: the gradient is turned back.
ckm_status ckm_i_grad_of_rotary(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    ckm_i_attrs_put_int(&attrs, "inverse", 1 - ckm_i_op_attr_int(&g->forward, "inverse", 0, 0));
    return give(g, "rotary", &g->dy, 1, &attrs, err);
}

ckm_status ckm_i_grad_of_roll(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape back = {.rank = ckm_i_step_shape(g->step, g->dy).rank};
    ckm_i_attrs attrs = {0};
    for (int32_t i = 0; i < back.rank; i++) {
        back.dims[i] = -ckm_i_op_attr_int(&g->forward, "shifts", i, 0);
    }
    ckm_i_attrs_put_shape(&attrs, "shifts", &back);
    return give(g, "roll", &g->dy, 1, &attrs, err);
}

ckm_status ckm_i_grad_of_window_bias(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    return give(g, "window_bias_backward", &g->dy, 1, &attrs, err);
}

// One operator gives all gradients: each would need the probabilities again.
ckm_status ckm_i_grad_of_attention(ckm_i_grad *g, ckm_error *err)
{
    static const char *const names[] = {"q", "k", "v", "bias"};
    int32_t inputs[CKM_I_ATTENTION_GRADIENTS + CKM_I_ATTENTION_OPERANDS] = {g->dy, g->forward.outputs[0],
                                                                            g->forward.outputs[1]};
    int32_t outputs[CKM_I_ATTENTION_BIAS + 1];
    int32_t n_outputs = ckm_i_grad_wants(g, CKM_I_ATTENTION_BIAS) ? CKM_I_ATTENTION_BIAS + 1 : CKM_I_ATTENTION_BIAS;
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    for (int32_t i = 0; i < CKM_I_ATTENTION_OPERANDS; i++) {
        inputs[CKM_I_ATTENTION_GRADIENTS + i] = ckm_i_grad_in(g, i);
    }
    CKM_I_CHECK(ckm_i_step_add(g->step,
                               &(ckm_i_step_op){.kind = "attention_backward",
                                                .name = g->forward.name,
                                                .suffix = ":grad",
                                                .inputs = {inputs, CKM_I_ATTENTION_GRADIENTS + g->forward.n_inputs},
                                                .attrs = &attrs,
                                                .n_outputs = n_outputs},
                               outputs, err));
    for (int32_t i = 0; i < n_outputs; i++) {
        if (ckm_i_grad_wants(g, i)) {
            CKM_I_CHECK(ckm_i_grad_give(g, i, names[i], outputs[i], err));
        }
    }
    return CKM_OK;
}
