// SPDX-License-Identifier: Apache-2.0
// Gradients of pooling and resampling. None but those of the global maximum and of norms read an activation: the
// position of a maximum is kept in place of the data.
#include <stdio.h>

#include "ops/gradients.h"

// <kind>_backward(dy, [second]) with the input's shape as an attribute.
static ckm_status to_input(ckm_i_grad *g, const char *kind, int32_t second, ckm_error *err)
{
    ckm_shape x = ckm_i_step_shape(g->step, ckm_i_grad_in(g, 0));
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[2] = {g->dy, second};
    int32_t out;
    ckm_i_attrs_put_shape(&attrs, "input_shape", &x);
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, "x", inputs, second >= 0 ? 2 : 1, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_of_max_pool(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "max_pool_backward", g->forward.outputs[1], err);
}

ckm_status ckm_i_grad_of_average_pool(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "average_pool_backward", -1, err);
}

ckm_status ckm_i_grad_of_lp_pool(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    int32_t inputs[3] = {g->dy, ckm_i_grad_in(g, 0), g->forward.outputs[0]};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "lp_pool_backward", "x", inputs, 3, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_of_resize(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "resize_backward", -1, err);
}

// The spatial axes.
static int32_t spatial(const ckm_i_grad *g, int64_t axes[CKM_MAX_RANK])
{
    int32_t n = ckm_i_step_shape(g->step, ckm_i_grad_in(g, 0)).rank - 2;
    int32_t first = ckm_i_spatial_axis(g->step->graph);
    for (int32_t i = 0; i < n; i++) {
        axes[i] = first + i;
    }
    return n;
}

// Every position gets its share of the mean: scaled while it is small, then repeated.
ckm_status ckm_i_grad_of_global_average_pool(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape x = ckm_i_step_shape(g->step, ckm_i_grad_in(g, 0));
    ckm_shape kept = x;
    int64_t axes[CKM_MAX_RANK];
    int32_t n = spatial(g, axes);
    double count = 1.0;
    for (int32_t i = 0; i < n; i++) {
        count *= (double)x.dims[axes[i]];
        kept.dims[axes[i]] = 1;
    }
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_scale(g, "mean", g->dy, 1.0 / count, &out, err));
    CKM_I_CHECK(ckm_i_grad_reshape(g, "view", out, &kept, &out, err));
    CKM_I_CHECK(ckm_i_grad_expand(g, "x", out, &x, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_of_global_max_pool(ckm_i_grad *g, ckm_error *err)
{
    int64_t axes[CKM_MAX_RANK];
    int32_t n = spatial(g, axes);
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put(&attrs, ckm_i_attr_ints("axes", axes, n));
    ckm_i_attrs_put_int(&attrs, "keepdims", ckm_i_op_attr_int(&g->forward, "keepdims", 0, 0));
    int32_t inputs[3] = {g->dy, ckm_i_grad_in(g, 0), g->forward.outputs[0]};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "reduce_max_backward", "x", inputs, 3, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}
