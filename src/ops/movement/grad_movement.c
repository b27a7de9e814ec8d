// SPDX-License-Identifier: Apache-2.0
// Gradients of what moves elements: they move the gradient back and read no activation.
#include <string.h>

#include "ops/gradients.h"

static ckm_shape input_shape(const ckm_i_grad *g, int32_t i)
{
    return ckm_i_step_shape(g->step, ckm_i_grad_in(g, i));
}

// Adds an operator of (dy, [second]) and gives its output to input i.
static ckm_status give_of(ckm_i_grad *g, int32_t i, const char *kind, const char *what, int32_t second,
                          const ckm_i_attrs *attrs, ckm_error *err)
{
    int32_t inputs[2] = {g->dy, second};
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, kind, what, inputs, second >= 0 ? 2 : 1, attrs, &out, err));
    return ckm_i_grad_give(g, i, what, out, err);
}

ckm_status ckm_i_grad_of_identity(ckm_i_grad *g, ckm_error *err)
{
    return ckm_i_grad_give(g, 0, "x", g->dy, err);
}

ckm_status ckm_i_grad_of_reshape(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape x = input_shape(g, 0);
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_reshape(g, "x", g->dy, &x, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

ckm_status ckm_i_grad_of_transpose(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape inverse = {.rank = input_shape(g, 0).rank};
    for (int32_t i = 0; i < inverse.rank; i++) {
        inverse.dims[ckm_i_op_attr_int(&g->forward, "perm", i, inverse.rank - 1 - i)] = i;
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_shape(&attrs, "perm", &inverse);
    return give_of(g, 0, "transpose", "x", -1, &attrs, err);
}

// The part of the gradient from `start` on along `axis` that has the operand's shape.
static ckm_status part(ckm_i_grad *g, int32_t i, int64_t axis, int64_t start, ckm_error *err)
{
    ckm_shape sizes = input_shape(g, i);
    ckm_shape starts = {.rank = sizes.rank};
    ckm_shape steps = {.rank = sizes.rank};
    for (int32_t k = 0; k < sizes.rank; k++) {
        starts.dims[k] = k == axis ? start : 0;
        steps.dims[k] = 1;
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_shape(&attrs, "starts", &starts);
    ckm_i_attrs_put_shape(&attrs, "steps", &steps);
    ckm_i_attrs_put_shape(&attrs, "sizes", &sizes);
    return give_of(g, i, "slice", "operand", -1, &attrs, err);
}

ckm_status ckm_i_grad_of_concat(ckm_i_grad *g, ckm_error *err)
{
    int64_t axis = ckm_i_op_attr_int(&g->forward, "axis", 0, 0);
    int64_t start = 0;
    if (g->forward.n_inputs == 1) {
        return ckm_i_grad_of_identity(g, err);
    }
    for (int32_t i = 0; i < g->forward.n_inputs; i++) {
        if (ckm_i_grad_wants(g, i)) {
            CKM_I_CHECK(part(g, i, axis, start, err));
        }
        start += input_shape(g, i).dims[axis];
    }
    return CKM_OK;
}

// `tensor` with zeros around it, so that it stands from `starts` on in a tensor of shape x.
static ckm_status surround(ckm_i_grad *g, int32_t tensor, const int64_t *starts, const ckm_shape *x, ckm_error *err)
{
    ckm_shape part_shape = ckm_i_step_shape(g->step, tensor);
    int64_t pads[2 * CKM_MAX_RANK];
    for (int32_t k = 0; k < x->rank; k++) {
        pads[k] = starts[k];
        pads[k + x->rank] = x->dims[k] - part_shape.dims[k] - starts[k];
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put(&attrs, ckm_i_attr_ints("pads", pads, 2 * x->rank));
    ckm_i_attrs_put(&attrs, ckm_i_attr_word("mode", "constant"));
    ckm_i_attrs_put(&attrs, ckm_i_attr_real("value", 0.0));
    int32_t out;
    CKM_I_CHECK(ckm_i_grad_emit(g, "pad", "x", &tensor, 1, &attrs, &out, err));
    return ckm_i_grad_give(g, 0, "x", out, err);
}

// All gradients side by side; when some are missing, each of the others with zeros around it.
ckm_status ckm_i_grad_of_split(ckm_i_grad *g, ckm_error *err)
{
    int32_t n = g->forward.n_outputs;
    int64_t axis = ckm_i_op_attr_int(&g->forward, "axis", 0, 0);
    ckm_shape x = input_shape(g, 0);
    int32_t missing = 0;
    for (int32_t i = 0; i < n; i++) {
        missing += g->outputs[i] < 0;
    }
    if (missing == 0) {
        ckm_i_attrs attrs = {0};
        ckm_i_attrs_put_int(&attrs, "axis", axis);
        int32_t out;
        CKM_I_CHECK(ckm_i_grad_emit(g, "concat", "x", g->outputs, n, &attrs, &out, err));
        return ckm_i_grad_give(g, 0, "x", out, err);
    }
    int64_t starts[CKM_MAX_RANK] = {0};
    for (int32_t i = 0; i < n; i++) {
        if (g->outputs[i] >= 0) {
            CKM_I_CHECK(surround(g, g->outputs[i], starts, &x, err));
        }
        starts[axis] += ckm_i_step_shape(g->step, g->forward.outputs[i]).dims[axis];
    }
    return CKM_OK;
}

// <kind>_backward with the input's shape as an attribute.
static ckm_status to_input(ckm_i_grad *g, const char *kind, int32_t second, ckm_error *err)
{
    ckm_shape x = input_shape(g, 0);
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    ckm_i_attrs_put_shape(&attrs, "input_shape", &x);
    return give_of(g, 0, kind, "x", second, &attrs, err);
}

ckm_status ckm_i_grad_of_slice(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape x = input_shape(g, 0);
    int64_t starts[CKM_MAX_RANK];
    bool dense = true;
    for (int32_t k = 0; k < x.rank; k++) {
        starts[k] = ckm_i_op_attr_int(&g->forward, "starts", k, 0);
        dense = dense && ckm_i_op_attr_int(&g->forward, "steps", k, 1) == 1;
    }
    return dense ? surround(g, g->dy, starts, &x, err) : to_input(g, "slice_backward", -1, err);
}

ckm_status ckm_i_grad_of_pad(ckm_i_grad *g, ckm_error *err)
{
    if (strcmp(ckm_i_op_attr_text(&g->forward, "mode", "constant"), "constant") != 0) {
        return to_input(g, "pad_backward", -1, err);
    }
    int32_t n = 2 * input_shape(g, 0).rank;
    int64_t pads[2 * CKM_MAX_RANK];
    for (int32_t k = 0; k < n; k++) {
        pads[k] = -ckm_i_op_attr_int(&g->forward, "pads", k, 0);
    }
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put(&attrs, ckm_i_attr_ints("pads", pads, n));
    ckm_i_attrs_put(&attrs, ckm_i_attr_word("mode", "constant"));
    ckm_i_attrs_put(&attrs, ckm_i_attr_real("value", 0.0));
    return give_of(g, 0, "pad", "x", -1, &attrs, err);
}

ckm_status ckm_i_grad_of_tile(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "tile_backward", -1, err);
}

ckm_status ckm_i_grad_of_gather(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "gather_backward", ckm_i_grad_in(g, 1), err);
}

ckm_status ckm_i_grad_of_gather_elements(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "gather_elements_backward", ckm_i_grad_in(g, 1), err);
}

ckm_status ckm_i_grad_of_gather_nd(ckm_i_grad *g, ckm_error *err)
{
    return to_input(g, "gather_nd_backward", ckm_i_grad_in(g, 1), err);
}

// The k largest are elements at the positions that the second output holds.
ckm_status ckm_i_grad_of_top_k(ckm_i_grad *g, ckm_error *err)
{
    ckm_shape x = input_shape(g, 0);
    ckm_i_attrs attrs = {0};
    ckm_i_attrs_put_int(&attrs, "axis", ckm_i_op_attr_int(&g->forward, "axis", 0, 0));
    ckm_i_attrs_put_shape(&attrs, "input_shape", &x);
    return give_of(g, 0, "gather_elements_backward", "x", g->forward.outputs[1], &attrs, err);
}

// data, positions, updates
static ckm_status scatter(ckm_i_grad *g, const char *backward, const char *updates, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    if (ckm_i_grad_wants(g, 2)) {
        CKM_I_CHECK(give_of(g, 2, updates, "updates", ckm_i_grad_in(g, 1), &attrs, err));
    }
    return ckm_i_grad_wants(g, 0) ? give_of(g, 0, backward, "data", ckm_i_grad_in(g, 1), &attrs, err) : CKM_OK;
}

ckm_status ckm_i_grad_of_scatter_nd(ckm_i_grad *g, ckm_error *err)
{
    return scatter(g, "scatter_nd_backward", "gather_nd", err);
}

ckm_status ckm_i_grad_of_scatter_elements(ckm_i_grad *g, ckm_error *err)
{
    return scatter(g, "scatter_elements_backward", "gather_elements", err);
}

ckm_status ckm_i_grad_of_depth_to_space(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    return give_of(g, 0, "space_to_depth", "x", -1, &attrs, err);
}

ckm_status ckm_i_grad_of_space_to_depth(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    return give_of(g, 0, "depth_to_space", "x", -1, &attrs, err);
}

// Element i went into the sums from i on: its gradient is the sum from the other end.
ckm_status ckm_i_grad_of_cumulative_sum(ckm_i_grad *g, ckm_error *err)
{
    ckm_i_attrs attrs = ckm_i_grad_attrs(g);
    ckm_i_attrs_put_int(&attrs, "reverse", !ckm_i_op_attr_int(&g->forward, "reverse", 0, 0));
    return give_of(g, 0, "cumulative_sum", "x", -1, &attrs, err);
}
