// SPDX-License-Identifier: Apache-2.0
// Transposed convolution: the backward map of the convolution that slides over y and has a window for every
// position of x. Its own backward maps are therefore that convolution's forward map and weight gradient.
#include "run/cpu/ref_conv_core.h"
#include "run/cpu/ref_registry.h"

// The convolution from `large` (this operator's y) to `small` (its x).
static ckm_i_ref_conv read_conv(const ckm_graph *graph, const ckm_i_graph_op *op, int32_t large, int32_t small,
                                int32_t weight)
{
    return ckm_i_ref_conv_read(graph, op, &graph->tensors[large].shape, &graph->tensors[small].shape,
                               &graph->tensors[weight].shape);
}

static ckm_i_ref_conv forward_of(const ckm_graph *graph, const ckm_i_graph_op *op)
{
    return read_conv(graph, op, op->outputs[0], op->inputs[0], op->inputs[1]);
}

static ckm_i_ref_conv data_of(const ckm_graph *graph, const ckm_i_graph_op *op)
{
    return read_conv(graph, op, op->inputs[0], op->outputs[0], op->inputs[1]);
}

static ckm_i_ref_conv weights_of(const ckm_graph *graph, const ckm_i_graph_op *op)
{
    return read_conv(graph, op, op->inputs[0], op->inputs[1], op->outputs[0]);
}

static int64_t forward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_conv c = forward_of(step, v->op);
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
static ckm_status conv_transpose(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_conv c = forward_of(step, r.op);
    float *y = ckm_i_ref_output(&r, 0);
    ckm_i_ref_conv_data(&c, ckm_i_ref_input(&r, 0), ckm_i_ref_input(&r, 1), y, call->workspace);
    if (ckm_i_ref_input(&r, 2) != NULL) {
        const ckm_shape *shape = &ckm_i_ref_out(&r, 0)->shape;
        ckm_i_ref_add_bias(shape, ckm_i_ref_channel_axis(step, shape->rank), ckm_i_ref_input(&r, 2), y);
    }
    return CKM_OK;
}

// inputs dy, weight
static ckm_status conv_transpose_backward_data(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                               ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_conv c = data_of(step, r.op);
    ckm_i_ref_conv_forward(&c, ckm_i_ref_input(&r, 0), ckm_i_ref_input(&r, 1), ckm_i_ref_output(&r, 0),
                           call->workspace);
    return CKM_OK;
}

// inputs dy, x
static ckm_status conv_transpose_backward_weights(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                                  ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_REF_TRY(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_conv c = weights_of(step, r.op);
    ckm_i_ref_conv_weights(&c, ckm_i_ref_input(&r, 0), ckm_i_ref_input(&r, 1), ckm_i_ref_output(&r, 0),
                           call->workspace);
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_conv_transpose[] = {
    {"conv_transpose", forward_workspace, conv_transpose},
    {"conv_transpose_backward_data", data_workspace, conv_transpose_backward_data},
    {"conv_transpose_backward_weights", weights_workspace, conv_transpose_backward_weights},
    {NULL, NULL, NULL},
};
