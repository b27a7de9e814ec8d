// SPDX-License-Identifier: Apache-2.0
// Convolution and transposed convolution, each forward and backward to data and weights, and the gradient of any bias.
// All six are one of three maps of a convolution that slides over `large` and has a window for every position of
// `small`: what differs is which tensors of the operator these are.
#include "ops/conv/ref_conv_core.h"
#include "run/cpu/ref_registry.h"

// Inputs: conv and conv_transpose x, weight, [bias]; to data dy, weight; to weights dy, x.
static const ckm_i_conv_role roles[] = {
    {CKM_I_OP_conv, CKM_I_CONV_FORWARD, .large = {false, 0}, .small = {true, 0}, .weight = {false, 1}},
    {CKM_I_OP_conv_backward_data, CKM_I_CONV_TO_DATA, .large = {true, 0}, .small = {false, 0}, .weight = {false, 1}},
    {CKM_I_OP_conv_backward_weights, CKM_I_CONV_TO_WEIGHTS, .large = {false, 1}, .small = {false, 0},
     .weight = {true, 0}},
    {CKM_I_OP_conv_transpose, CKM_I_CONV_TO_DATA, .large = {true, 0}, .small = {false, 0}, .weight = {false, 1}},
    {CKM_I_OP_conv_transpose_backward_data, CKM_I_CONV_FORWARD, .large = {false, 0}, .small = {true, 0},
     .weight = {false, 1}},
    {CKM_I_OP_conv_transpose_backward_weights, CKM_I_CONV_TO_WEIGHTS, .large = {false, 0}, .small = {false, 1},
     .weight = {true, 0}},
};

const ckm_i_conv_role *ckm_i_conv_role_of(const ckm_i_graph_op *op)
{
    const ckm_i_conv_role *found = roles;
    while (found->kind != op->op_class->id) {
        found++;
    }
    return found;
}

static const ckm_shape *shape_at(const ckm_graph *graph, const ckm_i_graph_op *op, ckm_i_conv_port at)
{
    return &graph->tensors[at.is_output ? op->outputs[at.index] : op->inputs[at.index]].shape;
}

ckm_i_ref_conv ckm_i_conv_read_as(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_i_conv_role *as)
{
    return ckm_i_ref_conv_read(graph, op, shape_at(graph, op, as->large), shape_at(graph, op, as->small),
                               shape_at(graph, op, as->weight));
}

static int64_t conv_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_conv c = ckm_i_conv_read_as(step, v->op, ckm_i_conv_role_of(v->op));
    return ckm_i_ref_conv_workspace(&c);
}

static const float *source(const ckm_i_ref_op *r, ckm_i_conv_port at)
{
    return ckm_i_ref_input(r, at.index);
}

static ckm_status conv(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_i_conv_role *as = ckm_i_conv_role_of(r.op);
    ckm_i_ref_conv c = ckm_i_conv_read_as(step, r.op, as);
    float *out = ckm_i_ref_output(&r, 0);
    switch (as->map) {
    case CKM_I_CONV_FORWARD:
        ckm_i_ref_conv_forward(&c, source(&r, as->large), source(&r, as->weight), out, call->workspace);
        break;
    case CKM_I_CONV_TO_DATA:
        ckm_i_ref_conv_data(&c, source(&r, as->small), source(&r, as->weight), out, call->workspace);
        break;
    case CKM_I_CONV_TO_WEIGHTS:
        ckm_i_ref_conv_weights(&c, source(&r, as->large), source(&r, as->small), out, call->workspace);
        break;
    }
    return CKM_OK;
}

static ckm_status biased_conv(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    CKM_I_CHECK(conv(step, op, call, err));
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    if (ckm_i_ref_input(&r, 2) != NULL) {
        const ckm_shape *shape = &ckm_i_ref_out(&r, 0)->shape;
        ckm_i_ref_add_bias(shape, ckm_i_channel_axis(step, shape->rank), ckm_i_ref_input(&r, 2),
                           ckm_i_ref_output(&r, 0));
    }
    return CKM_OK;
}

// input dy; attribute axis
static ckm_status bias_grad(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    int32_t axis = ckm_i_ref_axis(&r, "axis", ckm_i_channel_axis(step, shape->rank), shape->rank);
    ckm_i_ref_sum_bias(shape, axis, ckm_i_ref_input(&r, 0), ckm_i_ref_output(&r, 0));
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_conv[] = {
    {CKM_I_OP_conv, conv_workspace, biased_conv},
    {CKM_I_OP_conv_backward_data, conv_workspace, conv},
    {CKM_I_OP_conv_backward_weights, conv_workspace, conv},
    {CKM_I_OP_conv_transpose, conv_workspace, biased_conv},
    {CKM_I_OP_conv_transpose_backward_data, conv_workspace, conv},
    {CKM_I_OP_conv_transpose_backward_weights, conv_workspace, conv},
    {CKM_I_OP_bias_grad, NULL, bias_grad},
    {0},
};
