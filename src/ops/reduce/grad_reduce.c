// SPDX-License-Identifier: Apache-2.0
// Gradients of reductions.
#include <stdio.h>

#include "ops/gradients.h"

// Sums and means: the gradient at its kept axes, repeated.
static ckm_status linear(ckm_i_grad *g, bool mean, ckm_error *err)
{
    ckm_shape x = ckm_i_step_shape(g->step, ckm_i_grad_in(g, 0));
    ckm_shape kept = x;
    const ckm_i_attr *axes = ckm_i_op_attr(&g->forward, "axes");
    double count = 1.0;
    for (int32_t i = 0; axes != NULL && i < axes->n; i++) {
        count *= (double)x.dims[axes->ints[i]];
        kept.dims[axes->ints[i]] = 1;
    }
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_scale(g, "mean", g->dy, mean ? 1.0 / count : 1.0, &out, err));
    CKM_I_CHECK(ckm_i_grad_reshape(g, "view", out, &kept, &out, err));
    CKM_I_CHECK(ckm_i_grad_expand(g, "x", out, &x, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_of_reduce_sum(ckm_i_grad *g, ckm_error *err)
{
    return linear(g, false, err);
}

ckm_status ckm_i_grad_of_reduce_mean(ckm_i_grad *g, ckm_error *err)
{
    return linear(g, true, err);
}

static ckm_status backward(ckm_i_grad *g, bool reads_output, ckm_error *err)
{
    char kind[64];
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[3] = {g->dy, ckm_i_grad_in(g, 0), g->forward.outputs[0]};
    int32_t out;
    snprintf(kind, sizeof kind, "%s_backward", g->forward.op_class->kind);
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, reads_output ? 3 : 2, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_of_reduce_with_output(ckm_i_grad *g, ckm_error *err)
{
    return backward(g, true, err);
}

ckm_status ckm_i_grad_of_reduce_without_output(ckm_i_grad *g, ckm_error *err)
{
    return backward(g, false, err);
}
