// SPDX-License-Identifier: Apache-2.0
// Convolution: forward, backward to data and weights, and the gradient of any bias.
#include "run/cpu/ref_conv_core.h"
#include "run/cpu/ref_registry.h"

// The convolution whose x, y and weight are the given tensors of the operator.
static ckm_i_ref_conv read_conv(const ckm_graph *graph, const ckm_i_graph_op *op, int32_t x, int32_t y, int32_t weight)
{
    return ckm_i_ref_conv_read(graph, op, &graph->tensors[x].shape, &graph->tensors[y].shape,
                               &graph->tensors[weight].shape);
}

static ckm_i_ref_conv conv_of(const ckm_graph *graph, const ckm_i_graph_op *op)
{
    return read_conv(graph, op, op->inputs[0], op->outputs[0], op->inputs[1]);
}

static ckm_i_ref_conv data_of(const ckm_graph *graph, const ckm_i_graph_op *op)
{
    return read_conv(graph, op, op->outputs[0], op->inputs[0], op->inputs[1]);
}

static ckm_i_ref_conv weights_of(const ckm_graph *graph, const ckm_i_graph_op *op)
{
    return read_conv(graph, op, op->inputs[1], op->inputs[0], op->outputs[0]);
}

static int64_t conv_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_conv c = conv_of(step, v->op);
    return ckm_i_ref_conv_workspace(&c);
}

static int64_t data_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_conv c = data_of(step, v->op);
    return ckm_i_ref_conv_workspace(&c);
}

static int64_t weights_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_conv c = weights_of(step, v->op);
    return ckm_i_ref_conv_workspace(&c);
}

// inputs x, weight, [bias]
static ckm_status conv(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_conv c = conv_of(step, r.op);
    float *y = ckm_i_ref_output(&r, 0);
    ckm_i_ref_conv_forward(&c, ckm_i_ref_input(&r, 0), ckm_i_ref_input(&r, 1), y, call->workspace);
    if (ckm_i_ref_input(&r, 2) != NULL) {
        const ckm_shape *shape = &ckm_i_ref_out(&r, 0)->shape;
        ckm_i_ref_add_bias(shape, ckm_i_ref_channel_axis(step, shape->rank), ckm_i_ref_input(&r, 2), y);
    }
    return CKM_OK;
}

// inputs dy, weight
static ckm_status conv_backward_data(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_conv c = data_of(step, r.op);
    ckm_i_ref_conv_data(&c, ckm_i_ref_input(&r, 0), ckm_i_ref_input(&r, 1), ckm_i_ref_output(&r, 0), call->workspace);
    return CKM_OK;
}

// inputs dy, x
static ckm_status conv_backward_weights(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                        ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_conv c = weights_of(step, r.op);
    ckm_i_ref_conv_weights(&c, ckm_i_ref_input(&r, 1), ckm_i_ref_input(&r, 0), ckm_i_ref_output(&r, 0),
                           call->workspace);
    return CKM_OK;
}

// input dy; attribute axis
static ckm_status bias_grad(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    int32_t axis = ckm_i_ref_axis(&r, "axis", ckm_i_ref_channel_axis(step, shape->rank), shape->rank);
    ckm_i_ref_sum_bias(shape, axis, ckm_i_ref_input(&r, 0), ckm_i_ref_output(&r, 0));
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_conv[] = {
    {"conv", conv_workspace, conv},
    {"conv_backward_data", data_workspace, conv_backward_data},
    {"conv_backward_weights", weights_workspace, conv_backward_weights},
    {"bias_grad", NULL, bias_grad},
    {NULL, NULL, NULL},
};
