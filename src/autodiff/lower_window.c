// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling in normal form: kernel, strides, dilation and padding as lists of integers.
#include <string.h>

#include "autodiff/lower.h"
#include "graph/op_window.h"

// Padding along one axis, `total` elements split as the network says: the odd one at the end, or at the beginning.
static void split_padding(const ckm_i_lower *l, const ckm_i_window *w, int32_t i, int64_t total, bool odd_first,
                          int64_t *pads)
{
    bool lower = strcmp(ckm_i_op_attr_text(l->op, "padding", ""), "same_lower") == 0;
    int64_t all = total > 0 ? total : 0;
    int64_t begin = lower || odd_first ? all - all / 2 : all / 2;
    pads[i] = begin;
    pads[i + w->n] = all - begin;
}

static void put_window(ckm_i_lower *l, const ckm_i_window *w, const int64_t *pads)
{
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("kernel", w->kernel, w->n));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("strides", w->stride, w->n));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("dilation", w->dilation, w->n));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("padding", pads, 2 * w->n));
}

static const ckm_shape *output_shape(const ckm_i_lower *l)
{
    return &l->view.graph->tensors[l->op->outputs[0]].shape;
}

// The window as the network has it, in integers, for an operator that slides over x.
static ckm_status read_window(ckm_i_lower *l, const int64_t *kernel, ckm_i_window *w, ckm_error *err)
{
    int64_t pads[2 * CKM_I_MAX_SPATIAL];
    CKM_I_CHECK(ckm_i_window_read(&l->view, kernel, w, err));
    const ckm_shape *x = &l->view.in[0]->shape;
    memcpy(pads, w->pads, sizeof pads);
    for (int32_t i = 0; w->padding == CKM_I_PAD_SAME && i < w->n; i++) {
        int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t steps = output_shape(l)->dims[w->spatial_axis + i] - 1;
        split_padding(l, w, i, steps * w->stride[i] + extent - x->dims[w->spatial_axis + i], false, pads);
    }
    put_window(l, w, pads);
    return CKM_OK;
}

static const int64_t *kernel_of(const ckm_i_lower *l, int32_t input)
{
    return &l->view.in[input]->shape.dims[l->view.graph->layout == CKM_CHANNELS_LAST ? 0 : 2];
}

ckm_status ckm_i_lower_conv(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_window w;
    CKM_I_CHECK(read_window(l, kernel_of(l, 1), &w, err));
    ckm_i_attrs_put_int(&l->attrs, "groups", ckm_i_op_attr_int(l->op, "groups", 0, 1));
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, 1, err);
}

// The output's size is written out; the padding is what makes it so.
ckm_status ckm_i_lower_conv_transpose(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_window w;
    int64_t pads[2 * CKM_I_MAX_SPATIAL];
    CKM_I_CHECK(ckm_i_window_read(&l->view, kernel_of(l, 1), &w, err));
    const int64_t *in = &l->view.in[0]->shape.dims[w.spatial_axis];
    const int64_t *out = &output_shape(l)->dims[w.spatial_axis];
    // Where the size of the output is given, or the padding is a word, the padding follows from the size.
    bool sized = ckm_i_op_attr(l->op, "output_size") != NULL;
    memcpy(pads, w.pads, sizeof pads);
    for (int32_t i = 0; i < w.n && (sized || w.padding == CKM_I_PAD_SAME); i++) {
        int64_t extent = (w.kernel[i] - 1) * w.dilation[i] + 1;
        int64_t extra = ckm_i_op_attr_int(l->op, "output_padding", i, 0);
        split_padding(l, &w, i, (in[i] - 1) * w.stride[i] + extent + extra - out[i],
                      sized && w.padding != CKM_I_PAD_SAME, pads);
    }
    put_window(l, &w, pads);
    ckm_i_attrs_put_int(&l->attrs, "groups", ckm_i_op_attr_int(l->op, "groups", 0, 1));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("output_size", out, w.n));
    ckm_i_attrs_remove(&l->attrs, "output_padding");
    return ckm_i_lower_emit(l, l->inputs, l->n_inputs, 1, err);
}

// A depthwise convolution, then a pointwise one that has the bias.
ckm_status ckm_i_lower_separable_conv(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_window w;
    int32_t middle;
    CKM_I_CHECK(read_window(l, kernel_of(l, 1), &w, err));
    ckm_i_attrs_put_int(&l->attrs, "groups", w.channels);
    CKM_I_CHECK(ckm_i_step_add(l->step,
                               &(ckm_i_step_op){.kind = "conv",
                                                .name = l->op->name,
                                                .suffix = ":depthwise",
                                                .inputs = {l->inputs, 2},
                                                .attrs = &l->attrs,
                                                .n_outputs = 1},
                               &middle, err));
    int64_t ones[CKM_I_MAX_SPATIAL];
    int64_t zeros[2 * CKM_I_MAX_SPATIAL] = {0};
    for (int32_t i = 0; i < w.n; i++) {
        ones[i] = 1;
    }
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("kernel", ones, w.n));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("strides", ones, w.n));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("dilation", ones, w.n));
    ckm_i_attrs_put(&l->attrs, ckm_i_attr_ints("padding", zeros, 2 * w.n));
    ckm_i_attrs_put_int(&l->attrs, "groups", 1);
    l->kind = "conv";
    int32_t inputs[3] = {middle, l->inputs[2], l->n_inputs > 3 ? l->inputs[3] : -1};
    return ckm_i_lower_emit(l, inputs, 3, 1, err);
}

ckm_status ckm_i_lower_pool(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_window w;
    CKM_I_CHECK(read_window(l, NULL, &w, err));
    ckm_i_attrs_put_int(&l->attrs, "ceil_mode", ckm_i_op_attr_int(l->op, "ceil_mode", 0, 0));
    ckm_i_attrs_put_int(&l->attrs, "count_include_pad", ckm_i_op_attr_int(l->op, "count_include_pad", 0, 0));
    return ckm_i_lower_emit(l, l->inputs, 1, 1, err);
}

// The network's second output, positions in the whole tensor, is another one than the step graph's.
ckm_status ckm_i_lower_max_pool(ckm_i_lower *l, ckm_error *err)
{
    ckm_i_window w;
    CKM_I_CHECK(read_window(l, NULL, &w, err));
    ckm_i_attrs_put_int(&l->attrs, "ceil_mode", ckm_i_op_attr_int(l->op, "ceil_mode", 0, 0));
    l->kind = "max_pool_train";
    int32_t outputs[2];
    CKM_I_CHECK(ckm_i_step_add(
        l->step,
        &(ckm_i_step_op){
            .kind = l->kind, .name = l->op->name, .inputs = {l->inputs, 1}, .attrs = &l->attrs, .n_outputs = 2},
        outputs, err));
    l->outputs[0] = outputs[0];
    return CKM_OK;
}
