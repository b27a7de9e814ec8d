// SPDX-License-Identifier: Apache-2.0
// What an operator asks of a device. Arithmetic is counted as the operator classes do, but for transposed convolutions,
// whose kernel the paper's count leaves out. Traffic is every operand once and every result once; operators that
// need two passes over an operand, or only a part of it, say so in their records (graph/op_class.h). A backward operator of the layer level
// stands for two kernels, each like the forward one.
#include "cost/device_work.h"

#include <string.h>

#include "graph/op_support.h"

// Bytes of a tensor; shapes have been checked to fit 63 bits.
static double bytes_of(const ckm_i_graph_tensor *tensor)
{
    double bytes = (double)ckm_i_dtype_bytes(tensor->dtype);
    for (int32_t i = 0; i < tensor->shape.rank; i++) {
        bytes *= (double)tensor->shape.dims[i];
    }
    return bytes;
}

static double bytes_read(const ckm_i_op_view *v)
{
    double bytes = 0;
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        int32_t tensor = v->op->inputs[i];
        bytes += tensor >= 0 ? bytes_of(&v->graph->tensors[tensor]) : 0;
    }
    return bytes;
}

static double bytes_written(const ckm_i_op_view *v)
{
    double bytes = 0;
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        bytes += bytes_of(&v->graph->tensors[v->op->outputs[i]]);
    }
    return bytes;
}

// Sizes of the kernel: the attribute of the op level, the weight's shape at the layer level.
static int64_t kernel_of(const ckm_i_op_view *v, int32_t axis)
{
    if (ckm_i_op_attr(v->op, "kernel") != NULL) {
        return ckm_i_op_attr_int(v->op, "kernel", axis, 1);
    }
    return v->in[1]->shape.dims[v->graph->layout == CKM_CHANNELS_LAST ? axis : axis + 2];
}

static int32_t spatial_axes(const ckm_i_op_view *v)
{
    return v->in[0]->shape.rank - 2;
}

static ckm_device_class class_of_convolution(const ckm_i_op_view *v)
{
    enum { FEW = 16 };  // with fewer channels a filter there is little to multiply matrices with
    const ckm_shape *x = &v->in[0]->shape;
    int64_t groups = ckm_i_op_attr_int(v->op, "groups", 0, 1);
    int64_t channels = x->dims[ckm_i_channel_axis(v->graph, x->rank)];
    if (groups > 1 && channels / groups < FEW) {
        return CKM_DEVICE_GROUPED;
    }
    bool small = spatial_axes(v) == 2 && groups == 1 && channels >= FEW;
    for (int32_t i = 0; i < spatial_axes(v); i++) {
        small = small && kernel_of(v, i) == 3 && ckm_i_op_attr_int(v->op, "strides", i, 1) == 1 &&
                ckm_i_op_attr_int(v->op, "dilation", i, 1) == 1;
    }
    return small ? CKM_DEVICE_CONV3 : CKM_DEVICE_MATRIX;
}

// The kernel's elements, of which every stride-th meets an element of the input.
static double transposed_factor(const ckm_i_op_view *v)
{
    double factor = 1;
    for (int32_t i = 0; i < spatial_axes(v); i++) {
        factor *= (double)kernel_of(v, i) / (double)ckm_i_op_attr_int(v->op, "strides", i, 1);
    }
    return factor;
}

// An activation or a bias built into a layer runs over the output once more.
static void add_tail(const ckm_i_op_view *v, ckm_i_device_work *work)
{
    if (strcmp(ckm_i_op_attr_text(v->op, "activation", "linear"), "linear") != 0) {
        work->tail_bytes += 2 * bytes_written(v);
        work->launches += 1;
    }
}

static ckm_status work_of(const ckm_graph *graph, int32_t op, ckm_i_device_work *work, ckm_error *err)
{
    ckm_i_op_view v;
    int64_t macs = 0;
    CKM_I_CHECK(ckm_i_op_view_init(graph, op, &v, err));
    if (v.op->op_class->macs != NULL) {
        CKM_I_CHECK(v.op->op_class->macs(&v, &macs, err));
    }
    ckm_i_device_work w = {CKM_DEVICE_STREAM, (double)macs, bytes_read(&v) + bytes_written(&v), 0, 1};
    switch (v.op->op_class->work) {
    case CKM_I_WORK_CONVOLUTION:
        w.arithmetic = class_of_convolution(&v);
        add_tail(&v, &w);
        break;
    case CKM_I_WORK_TRANSPOSED:
        w.arithmetic = CKM_DEVICE_MATRIX;
        w.macs *= transposed_factor(&v);
        add_tail(&v, &w);
        break;
    case CKM_I_WORK_PRODUCT:
        w.arithmetic = CKM_DEVICE_MATRIX;
        add_tail(&v, &w);
        break;
    case CKM_I_WORK_TWO_PASSES:
        w.bytes += bytes_read(&v);
        break;
    case CKM_I_WORK_PARTIAL:
        w.bytes = 2 * bytes_written(&v);
        break;
    case CKM_I_WORK_VIEW:
        w = (ckm_i_device_work){CKM_DEVICE_STREAM, 0, 0, 0, 0};
        break;
    case CKM_I_WORK_ELEMENTS:
    case CKM_I_WORK_UNSAID:
        break;
    }
    *work = w;
    return CKM_OK;
}

// All outputs are views of something else.
static bool is_view(const ckm_training *training, const ckm_i_training_op *op)
{
    bool view = op->n_outputs > 0;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        view = view && training->values[op->outputs[i]].alias_of >= 0;
    }
    return view;
}

ckm_status ckm_i_device_work_of(const ckm_training *training, int32_t op, ckm_i_device_work *work, ckm_error *err)
{
    const ckm_i_training_op *o = &training->ops[op];
    if (training->step != NULL) {
        CKM_I_CHECK(work_of(training->step, op, work, err));
        if (is_view(training, o)) {
            *work = (ckm_i_device_work){CKM_DEVICE_STREAM, 0, 0, 0, 0};
        }
        return CKM_OK;
    }
    if (o->source < 0) {  // the loss of the layer level, which has no operands worth counting
        *work = (ckm_i_device_work){CKM_DEVICE_STREAM, 0, 0, 0, 1};
        return CKM_OK;
    }
    CKM_I_CHECK(work_of(training->graph, o->source, work, err));
    if (o->phase == CKM_I_BACKWARD) {
        work->macs *= 2;
        work->bytes *= 2;
        work->tail_bytes *= 2;
        work->launches *= 2;
    }
    return CKM_OK;
}

double ckm_i_device_time(const ckm_device *device, const ckm_i_device_work *work)
{
    double memory = device->bytes_per_s * device->efficiency[CKM_DEVICE_STREAM];
    double traffic = work->bytes / memory;
    double arithmetic = 0;
    if (work->arithmetic != CKM_DEVICE_STREAM) {
        double peak = work->arithmetic == CKM_DEVICE_GROUPED ? device->macs_per_s : device->matrix_macs_per_s;
        arithmetic = work->macs / (peak * device->efficiency[work->arithmetic]);
    }
    double seconds = (arithmetic > traffic ? arithmetic : traffic) + work->tail_bytes / memory;
    return 1e9 * seconds + device->launch_ns * work->launches;
}
