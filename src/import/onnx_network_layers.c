// SPDX-License-Identifier: Apache-2.0
// Layers with weights, and windows, as nodes of an ONNX model.
#include <string.h>

#include "base/error.h"
#include "graph/op_window.h"
#include "import/onnx_network.h"

// Channels last: k, k, in, out. First: out, in, k, k.
static const int64_t filter_perm[4] = {3, 2, 0, 1};

static ckm_status view_of(const ckm_i_onnx_network *n, ckm_i_op_view *view, ckm_error *err)
{
    if (ckm_i_onnx_in_shape(n, 0)->rank != 4) {
        return ckm_i_onnx_refuse(n, "it works on other than four axes", err);
    }
    return ckm_i_op_view_init(n->graph, (int32_t)(n->op - n->graph->ops), view, err);
}

// Splits `total` elements of padding along axis i as the network says.
static void split_padding(const ckm_i_onnx_network *n, ckm_i_window *w, int32_t i, int64_t total)
{
    bool lower = strcmp(ckm_i_op_attr_text(n->op, "padding", ""), "same_lower") == 0;
    int64_t all = total > 0 ? total : 0;
    w->pads[i] = lower ? all - all / 2 : all / 2;
    w->pads[i + w->n] = all - w->pads[i];
}

static ckm_status read_window(const ckm_i_onnx_network *n, const int64_t *kernel, ckm_i_window *w, ckm_error *err)
{
    ckm_i_op_view view;
    CKM_I_CHECK(view_of(n, &view, err));
    CKM_I_CHECK(ckm_i_window_read(&view, kernel, w, err));
    for (int32_t i = 0; w->padding == CKM_I_PAD_SAME && i < w->n; i++) {
        int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
        int64_t steps = ckm_i_onnx_out_shape(n, 0)->dims[w->spatial_axis + i] - 1;
        split_padding(n, w, i, steps * w->stride[i] + extent - ckm_i_onnx_in_shape(n, 0)->dims[w->spatial_axis + i]);
    }
    return CKM_OK;
}

static void put_window(ckm_i_onnx_network *n, const ckm_i_window *w)
{
    ckm_i_onnx_put_ints(n->put, "kernel_shape", w->kernel, w->n);
    ckm_i_onnx_put_ints(n->put, "strides", w->stride, w->n);
    ckm_i_onnx_put_ints(n->put, "pads", w->pads, 2 * w->n);
}

static void put_conv(ckm_i_onnx_network *n, const ckm_i_window *w, int64_t groups)
{
    put_window(n, w);
    ckm_i_onnx_put_ints(n->put, "dilations", w->dilation, w->n);
    ckm_i_onnx_put_int(n->put, "group", groups);
}

ckm_status ckm_i_onnx_put_conv(ckm_i_onnx_network *n, ckm_error *err)
{
    ckm_i_window w;
    CKM_I_CHECK(read_window(n, ckm_i_onnx_in_shape(n, 1)->dims, &w, err));
    const char *out = ckm_i_onnx_before_activation(n);
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    const char *weight = ckm_i_onnx_weight(n, 1, filter_perm, NULL);
    const char *bias = ckm_i_onnx_has(n, 2) ? ckm_i_onnx_weight(n, 2, NULL, NULL) : NULL;
    ckm_i_onnx_put_begin(n->put, "Conv", (const char *[]){x, weight, bias, NULL}, (const char *[]){out, NULL});
    put_conv(n, &w, ckm_i_op_attr_int(n->op, "groups", 0, 1));
    ckm_i_onnx_put_end(n->put);
    return ckm_i_onnx_activate(n, CKM_I_ONNX_FIRST, out, err);
}

// A depthwise convolution, then a pointwise one that has the bias.
ckm_status ckm_i_onnx_put_separable_conv(ckm_i_onnx_network *n, ckm_error *err)
{
    ckm_i_window w;
    CKM_I_CHECK(read_window(n, ckm_i_onnx_in_shape(n, 1)->dims, &w, err));
    const char *out = ckm_i_onnx_before_activation(n);
    const char *middle = ckm_i_onnx_part(n, "depthwise");
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    const char *depthwise = ckm_i_onnx_weight(n, 1, filter_perm, NULL);
    const char *pointwise = ckm_i_onnx_weight(n, 2, filter_perm, NULL);
    const char *bias = ckm_i_onnx_has(n, 3) ? ckm_i_onnx_weight(n, 3, NULL, NULL) : NULL;
    ckm_i_onnx_put_begin(n->put, "Conv", (const char *[]){x, depthwise, NULL}, (const char *[]){middle, NULL});
    put_conv(n, &w, w.channels);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_put_begin(n->put, "Conv", (const char *[]){middle, pointwise, bias, NULL}, (const char *[]){out, NULL});
    ckm_i_onnx_put_ints(n->put, "kernel_shape", (const int64_t[]){1, 1}, 2);
    ckm_i_onnx_put_end(n->put);
    return ckm_i_onnx_activate(n, CKM_I_ONNX_FIRST, out, err);
}

// Padding is what makes the output's size; where that takes more than there is, the rest is output padding.
ckm_status ckm_i_onnx_put_conv_transpose(ckm_i_onnx_network *n, ckm_error *err)
{
    ckm_i_window w;
    ckm_i_op_view view;
    int64_t more[CKM_I_MAX_SPATIAL] = {0};
    CKM_I_CHECK(view_of(n, &view, err));
    CKM_I_CHECK(ckm_i_window_read(&view, ckm_i_onnx_in_shape(n, 1)->dims, &w, err));
    for (int32_t i = 0; i < w.n; i++) {
        int64_t extent = (w.kernel[i] - 1) * w.dilation[i] + 1;
        int64_t whole = (ckm_i_onnx_in_shape(n, 0)->dims[w.spatial_axis + i] - 1) * w.stride[i] + extent;
        int64_t total = whole - ckm_i_onnx_out_shape(n, 0)->dims[w.spatial_axis + i];
        split_padding(n, &w, i, total);
        more[i] = total < 0 ? -total : 0;
    }
    const char *out = ckm_i_onnx_before_activation(n);
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    const char *weight = ckm_i_onnx_weight(n, 1, filter_perm, NULL);
    const char *bias = ckm_i_onnx_has(n, 2) ? ckm_i_onnx_weight(n, 2, NULL, NULL) : NULL;
    ckm_i_onnx_put_begin(n->put, "ConvTranspose", (const char *[]){x, weight, bias, NULL}, (const char *[]){out, NULL});
    put_conv(n, &w, ckm_i_op_attr_int(n->op, "groups", 0, 1));
    ckm_i_onnx_put_ints(n->put, "output_padding", more, w.n);
    ckm_i_onnx_put_end(n->put);
    return ckm_i_onnx_activate(n, CKM_I_ONNX_FIRST, out, err);
}

ckm_status ckm_i_onnx_put_dense(ckm_i_onnx_network *n, ckm_error *err)
{
    bool tied = ckm_i_op_attr_int(n->op, "transposed", 0, 0) != 0;
    bool has_bias = ckm_i_onnx_has(n, 2);
    const char *out = ckm_i_onnx_before_activation(n);
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *weight = ckm_i_onnx_in(n, 1, CKM_I_ONNX_PLAIN);
    const char *bias = has_bias ? ckm_i_onnx_in(n, 2, CKM_I_ONNX_PLAIN) : NULL;
    if (ckm_i_onnx_in_shape(n, 0)->rank == 2) {
        ckm_i_onnx_put_begin(n->put, "Gemm", (const char *[]){x, weight, bias, NULL}, (const char *[]){out, NULL});
        ckm_i_onnx_put_int(n->put, "transB", tied ? 1 : 0);
        ckm_i_onnx_put_end(n->put);
        return ckm_i_onnx_activate(n, CKM_I_ONNX_PLAIN, out, err);
    }
    if (tied) {
        const char *turned = ckm_i_onnx_part(n, "kernel");
        ckm_i_onnx_put_begin(n->put, "Transpose", (const char *[]){weight, NULL}, (const char *[]){turned, NULL});
        ckm_i_onnx_put_ints(n->put, "perm", (const int64_t[]){1, 0}, 2);
        ckm_i_onnx_put_end(n->put);
        weight = turned;
    }
    const char *product = ckm_i_onnx_one(n, "MatMul", x, weight, has_bias ? ckm_i_onnx_part(n, "product") : out);
    if (has_bias) {
        ckm_i_onnx_one(n, "Add", product, bias, out);
    }
    return ckm_i_onnx_activate(n, CKM_I_ONNX_PLAIN, out, err);
}

// ---- normalization

// Parameter i, one number a channel, or as many of the number where it is absent.
static const char *each(ckm_i_onnx_network *n, int32_t i, const char *part, float value, const ckm_shape *shape)
{
    float values[512];
    int64_t count = ckm_i_elements(shape);
    if (ckm_i_onnx_has(n, i)) {
        return ckm_i_onnx_weight(n, i, NULL, shape);
    }
    for (int64_t k = 0; k < count && k < (int64_t)(sizeof values / sizeof values[0]); k++) {
        values[k] = value;
    }
    if (count <= (int64_t)(sizeof values / sizeof values[0])) {
        return ckm_i_onnx_put_floats(n->put, ckm_i_onnx_part(n, part), values, *shape);
    }
    // Many: one number, spread by the model.
    const char *one = ckm_i_onnx_put_floats(n->put, ckm_i_onnx_part(n, "each"), &value, (ckm_shape){1, {1}});
    const char *to = ckm_i_onnx_long_list(n, "count", &count, 1);
    return ckm_i_onnx_one(n, "Expand", one, to, ckm_i_onnx_part(n, part));
}

// By the running statistics.
ckm_status ckm_i_onnx_put_batch_norm(ckm_i_onnx_network *n, ckm_error *err)
{
    int32_t rank = ckm_i_onnx_in_shape(n, 0)->rank;
    if ((rank != 2 && rank != 4) || !ckm_i_onnx_has(n, 3) || !ckm_i_onnx_has(n, 4)) {
        return ckm_i_onnx_refuse(n, "it normalizes other than two or four axes, or keeps no statistics", err);
    }
    ckm_shape channels = {1, {ckm_i_onnx_in_shape(n, 0)->dims[rank - 1]}};
    ckm_i_onnx_form form = rank == 4 ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
    const char *x = ckm_i_onnx_in(n, 0, form);
    const char *gamma = each(n, 1, "gamma", 1.0F, &channels);
    const char *beta = each(n, 2, "beta", 0.0F, &channels);
    const char *mean = ckm_i_onnx_weight(n, 3, NULL, NULL);
    const char *variance = ckm_i_onnx_weight(n, 4, NULL, NULL);
    ckm_i_onnx_put_begin(n->put, "BatchNormalization", (const char *[]){x, gamma, beta, mean, variance, NULL},
                         (const char *[]){n->name, NULL});
    ckm_i_onnx_put_real(n->put, "epsilon", ckm_i_op_attr_double(n->op, "epsilon", 1e-3));
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, form, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_layer_norm(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    int64_t axis = ckm_i_op_attr_int(n->op, "axis", 0, -1);
    if (axis != -1 && axis != shape->rank - 1) {
        return ckm_i_onnx_refuse(n, "it normalizes more than the last axis", err);
    }
    ckm_shape last = {1, {shape->dims[shape->rank - 1]}};
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *scale = each(n, 1, "scale", 1.0F, &last);
    const char *bias = ckm_i_onnx_has(n, 2) ? ckm_i_onnx_weight(n, 2, NULL, NULL) : NULL;
    ckm_i_onnx_put_begin(n->put, "LayerNormalization", (const char *[]){x, scale, bias, NULL},
                         (const char *[]){n->name, NULL});
    ckm_i_onnx_put_int(n->put, "axis", -1);
    ckm_i_onnx_put_real(n->put, "epsilon", ckm_i_op_attr_double(n->op, "epsilon", 1e-5));
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// x / sqrt(mean of squares + epsilon) * scale
ckm_status ckm_i_onnx_put_rms_norm(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *square = ckm_i_onnx_one(n, "Mul", x, x, ckm_i_onnx_part(n, "square"));
    const char *axes = ckm_i_onnx_long_list(n, "axes", &(const int64_t){-1}, 1);
    const char *mean = ckm_i_onnx_one(n, "ReduceMean", square, axes, ckm_i_onnx_part(n, "mean"));
    const char *epsilon = ckm_i_onnx_number(n, "epsilon", ckm_i_op_attr_double(n->op, "epsilon", 1e-6));
    const char *shifted = ckm_i_onnx_one(n, "Add", mean, epsilon, ckm_i_onnx_part(n, "shifted"));
    const char *root = ckm_i_onnx_one(n, "Sqrt", shifted, NULL, ckm_i_onnx_part(n, "root"));
    bool scaled = ckm_i_onnx_has(n, 1);
    const char *y = ckm_i_onnx_one(n, "Div", x, root, scaled ? ckm_i_onnx_part(n, "normalized") : n->name);
    if (scaled) {
        ckm_i_onnx_one(n, "Mul", y, ckm_i_onnx_weight(n, 1, NULL, NULL), n->name);
    }
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// Groups as instances of a map with as many channels; then a scale and a bias for every channel.
ckm_status ckm_i_onnx_put_group_norm(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    if (shape->rank != 4) {
        return ckm_i_onnx_refuse(n, "it normalizes other than four axes", err);
    }
    int64_t channels = shape->dims[3];
    int64_t groups = ckm_i_op_attr_int(n->op, "groups", 0, channels);
    const int64_t split[3] = {0, groups, -1};
    const int64_t whole[4] = {0, channels, shape->dims[1], shape->dims[2]};
    ckm_shape map = {3, {channels, 1, 1}};
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    x = ckm_i_onnx_one(n, "Reshape", x, ckm_i_onnx_long_list(n, "groups_shape", split, 3),
                       ckm_i_onnx_part(n, "groups"));
    const char *normalized = ckm_i_onnx_part(n, "normalized");
    const int32_t absent = n->op->n_inputs;
    const char *ones = each(n, absent, "ones", 1.0F, &(ckm_shape){1, {groups}});
    const char *zeros = each(n, absent, "zeros", 0.0F, &(ckm_shape){1, {groups}});
    ckm_i_onnx_put_begin(n->put, "InstanceNormalization", (const char *[]){x, ones, zeros, NULL},
                         (const char *[]){normalized, NULL});
    ckm_i_onnx_put_real(n->put, "epsilon", ckm_i_op_attr_double(n->op, "epsilon", 1e-5));
    ckm_i_onnx_put_end(n->put);
    const char *shape_name = ckm_i_onnx_long_list(n, "shape", whole, 4);
    x = ckm_i_onnx_one(n, "Reshape", normalized, shape_name, ckm_i_onnx_part(n, "map"));
    x = ckm_i_onnx_one(n, "Mul", x, each(n, 1, "scale", 1.0F, &map), ckm_i_onnx_part(n, "scaled"));
    ckm_i_onnx_one(n, "Add", x, each(n, 2, "bias", 0.0F, &map), n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_FIRST, n->name);
    return CKM_OK;
}

// ---- pooling

static ckm_status put_pool(ckm_i_onnx_network *n, const char *op_type, ckm_error *err)
{
    ckm_i_window w;
    CKM_I_CHECK(read_window(n, NULL, &w, err));
    if (n->op->n_outputs > 1 || ckm_i_op_attr_int(n->op, "ceil_mode", 0, 0) != 0) {
        return ckm_i_onnx_refuse(n, "it gives positions, or windows beyond the end", err);
    }
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    ckm_i_onnx_put_begin(n->put, op_type, (const char *[]){x, NULL}, (const char *[]){n->name, NULL});
    put_window(n, &w);
    if (ckm_i_op_attr_int(n->op, "count_include_pad", 0, 0) != 0) {
        ckm_i_onnx_put_int(n->put, "count_include_pad", 1);
    }
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_FIRST, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_max_pool(ckm_i_onnx_network *n, ckm_error *err)
{
    return put_pool(n, "MaxPool", err);
}

ckm_status ckm_i_onnx_put_average_pool(ckm_i_onnx_network *n, ckm_error *err)
{
    return put_pool(n, "AveragePool", err);
}

ckm_status ckm_i_onnx_put_global_average_pool(ckm_i_onnx_network *n, ckm_error *err)
{
    if (ckm_i_onnx_in_shape(n, 0)->rank != 4) {
        return ckm_i_onnx_refuse(n, "it works on other than four axes", err);
    }
    bool keeps = ckm_i_op_attr_int(n->op, "keepdims", 0, 0) != 0;
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    const char *pooled = keeps ? n->name : ckm_i_onnx_part(n, "pooled");
    ckm_i_onnx_one(n, "GlobalAveragePool", x, NULL, pooled);
    if (!keeps) {
        ckm_i_onnx_one(n, "Flatten", pooled, NULL, n->name);
    }
    ckm_i_onnx_out(n, 0, keeps ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}
