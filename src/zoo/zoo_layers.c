// SPDX-License-Identifier: Apache-2.0
// The layers of the builder: each makes its parameters and adds one operator.
#include "zoo/zoo_builder.h"

#include <string.h>

#define MAX_ATTRS 8

static ckm_shape shape_of(int32_t rank, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (ckm_shape){.rank = rank, .dims = {a, b, c, d}};
}

// A pair as given, its second member the first where it is 0, or both `fallback`.
static ckm_i_attr pair(const char *key, const int64_t given[2], int64_t fallback)
{
    int64_t first = given[0] != 0 ? given[0] : fallback;
    int64_t values[2] = {first, given[1] != 0 ? given[1] : first};
    return ckm_i_attr_ints(key, values, 2);
}

static int32_t conv_attrs(const ckm_i_conv *c, ckm_i_attr attrs[MAX_ATTRS])
{
    attrs[0] = pair("kernel", c->kernel, 1);
    attrs[1] = pair("strides", c->strides, 1);
    attrs[2] = pair("dilation", c->dilation, 1);
    attrs[3] = ckm_i_attr_word("padding", c->padding != NULL ? c->padding : "valid");
    attrs[4] = ckm_i_attr_word("activation", c->activation != NULL ? c->activation : "linear");
    return 5;
}

// The inputs of a convolution: x, its kernel, and a bias of `channels` unless there is none.
static int32_t conv_inputs(ckm_i_zoo *z, ckm_i_layer x, const char *layer, const ckm_i_conv *c, ckm_shape kernel,
                           int64_t channels, int32_t inputs[3])
{
    inputs[0] = x;
    inputs[1] = ckm_i_zoo_parameter(z, layer, "kernel", CKM_ROLE_PARAMETER, kernel);
    if (c->no_bias) {
        return 2;
    }
    inputs[2] = ckm_i_zoo_parameter(z, layer, "bias", CKM_ROLE_PARAMETER, shape_of(1, channels, 0, 0, 0));
    return 3;
}

ckm_i_layer ckm_i_zoo_conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c)
{
    const char *layer = ckm_i_zoo_layer_name(z, "conv2d", c.name);
    ckm_i_attr attrs[MAX_ATTRS];
    int32_t n = conv_attrs(&c, attrs);
    const int64_t *k = attrs[0].ints;
    int32_t inputs[3];
    ckm_shape kernel = shape_of(4, k[0], k[1], ckm_i_zoo_channels(z, x), c.filters);
    int32_t n_inputs = conv_inputs(z, x, layer, &c, kernel, c.filters, inputs);
    return ckm_i_zoo_add(z, "conv", layer, inputs, n_inputs, attrs, n);
}

ckm_i_layer ckm_i_zoo_depthwise_conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c)
{
    const char *layer = ckm_i_zoo_layer_name(z, "depthwise_conv2d", c.name);
    ckm_i_attr attrs[MAX_ATTRS];
    int32_t n = conv_attrs(&c, attrs);
    int64_t channels = ckm_i_zoo_channels(z, x);
    attrs[n++] = ckm_i_attr_ints("groups", &channels, 1);
    const int64_t *k = attrs[0].ints;
    int32_t inputs[3];
    int32_t n_inputs = conv_inputs(z, x, layer, &c, shape_of(4, k[0], k[1], 1, channels), channels, inputs);
    return ckm_i_zoo_add(z, "conv", layer, inputs, n_inputs, attrs, n);
}

ckm_i_layer ckm_i_zoo_conv_transpose(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c)
{
    const char *layer = ckm_i_zoo_layer_name(z, "conv2d_transpose", c.name);
    ckm_i_attr attrs[MAX_ATTRS];
    int32_t n = conv_attrs(&c, attrs);
    const int64_t *k = attrs[0].ints;
    int32_t inputs[3];
    ckm_shape kernel = shape_of(4, k[0], k[1], c.filters, ckm_i_zoo_channels(z, x));
    int32_t n_inputs = conv_inputs(z, x, layer, &c, kernel, c.filters, inputs);
    return ckm_i_zoo_add(z, "conv_transpose", layer, inputs, n_inputs, attrs, n);
}

ckm_i_layer ckm_i_zoo_separable_conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c)
{
    const char *layer = ckm_i_zoo_layer_name(z, "separable_conv2d", c.name);
    ckm_i_attr attrs[MAX_ATTRS];
    int32_t n = conv_attrs(&c, attrs);
    const int64_t *k = attrs[0].ints;
    int64_t channels = ckm_i_zoo_channels(z, x);
    int32_t inputs[4] = {x, -1, -1, -1};
    inputs[1] = ckm_i_zoo_parameter(z, layer, "depthwise_kernel", CKM_ROLE_PARAMETER,
                                    shape_of(4, k[0], k[1], 1, channels));
    inputs[2] = ckm_i_zoo_parameter(z, layer, "pointwise_kernel", CKM_ROLE_PARAMETER,
                                    shape_of(4, 1, 1, channels, c.filters));
    int32_t n_inputs = 3;
    if (!c.no_bias) {
        inputs[n_inputs++] = ckm_i_zoo_parameter(z, layer, "bias", CKM_ROLE_PARAMETER, shape_of(1, c.filters, 0, 0, 0));
    }
    return ckm_i_zoo_add(z, "separable_conv", layer, inputs, n_inputs, attrs, n);
}

ckm_i_layer ckm_i_zoo_dense(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t units, const char *activation)
{
    const char *layer = ckm_i_zoo_layer_name(z, "dense", name);
    ckm_i_attr activates = ckm_i_attr_word("activation", activation != NULL ? activation : "linear");
    ckm_shape kernel = shape_of(2, ckm_i_zoo_channels(z, x), units, 0, 0);
    int32_t inputs[3] = {x, -1, -1};
    inputs[1] = ckm_i_zoo_parameter(z, layer, "kernel", CKM_ROLE_PARAMETER, kernel);
    inputs[2] = ckm_i_zoo_parameter(z, layer, "bias", CKM_ROLE_PARAMETER, shape_of(1, units, 0, 0, 0));
    return ckm_i_zoo_add(z, "dense", layer, inputs, 3, &activates, 1);
}

ckm_i_layer ckm_i_zoo_batch_norm(ckm_i_zoo *z, ckm_i_layer x, ckm_i_batch_norm b)
{
    const char *layer = ckm_i_zoo_layer_name(z, "batch_normalization", b.name);
    ckm_shape one_a_channel = shape_of(1, ckm_i_zoo_channels(z, x), 0, 0, 0);
    ckm_i_attr attrs[2] = {
        ckm_i_attr_real("epsilon", b.epsilon > 0.0 ? b.epsilon : 1e-3),
        // PyTorch's usual 0.1 of the batch, in every network: with Keras' 0.99 and more, running statistics are those of the
        // beginning for hundreds of steps, and what was trained for less predicts badly.
        ckm_i_attr_real("momentum", b.momentum > 0.0 ? b.momentum : 0.9),
    };
    int32_t inputs[5] = {x, -1, -1, -1, -1};
    if (!b.no_scale) {
        inputs[1] = ckm_i_zoo_parameter(z, layer, "gamma", CKM_ROLE_PARAMETER, one_a_channel);
    }
    inputs[2] = ckm_i_zoo_parameter(z, layer, "beta", CKM_ROLE_PARAMETER, one_a_channel);
    inputs[3] = ckm_i_zoo_parameter(z, layer, "moving_mean", CKM_ROLE_STATE, one_a_channel);
    inputs[4] = ckm_i_zoo_parameter(z, layer, "moving_variance", CKM_ROLE_STATE, one_a_channel);
    return ckm_i_zoo_add(z, "batch_norm", layer, inputs, 5, attrs, 2);
}

ckm_i_layer ckm_i_zoo_activation(ckm_i_zoo *z, ckm_i_layer x, const char *name, const char *function)
{
    const char *layer = ckm_i_zoo_layer_name(z, "activation", name);
    if (strcmp(function, "relu6") == 0) {
        ckm_i_attr most = ckm_i_attr_real("max_value", 6.0);
        return ckm_i_zoo_add(z, "relu", layer, &x, 1, &most, 1);
    }
    return ckm_i_zoo_add(z, function, layer, &x, 1, NULL, 0);
}

ckm_i_layer ckm_i_zoo_relu(ckm_i_zoo *z, ckm_i_layer x, const char *name, double max_value)
{
    const char *layer = ckm_i_zoo_layer_name(z, "re_lu", name);
    ckm_i_attr most = ckm_i_attr_real("max_value", max_value);
    return ckm_i_zoo_add(z, "relu", layer, &x, 1, &most, 1);
}

ckm_i_layer ckm_i_zoo_add_layers(ckm_i_zoo *z, const char *name, const ckm_i_layer *x, int32_t n)
{
    return ckm_i_zoo_add(z, "add", ckm_i_zoo_layer_name(z, "add", name), x, n, NULL, 0);
}

ckm_i_layer ckm_i_zoo_concat(ckm_i_zoo *z, const char *name, const ckm_i_layer *x, int32_t n)
{
    return ckm_i_zoo_add(z, "concat", ckm_i_zoo_layer_name(z, "concatenate", name), x, n, NULL, 0);
}

static ckm_i_layer pool(ckm_i_zoo *z, ckm_i_layer x, const char *kind, const char *layer, const ckm_i_pool *p)
{
    ckm_i_attr attrs[3];
    attrs[0] = pair("kernel", p->size, 1);
    attrs[1] = pair("strides", p->strides[0] != 0 ? p->strides : p->size, 1);
    attrs[2] = ckm_i_attr_word("padding", p->padding != NULL ? p->padding : "valid");
    return ckm_i_zoo_add(z, kind, layer, &x, 1, attrs, 3);
}

ckm_i_layer ckm_i_zoo_max_pool(ckm_i_zoo *z, ckm_i_layer x, ckm_i_pool p)
{
    return pool(z, x, "max_pool", ckm_i_zoo_layer_name(z, "max_pooling2d", p.name), &p);
}

ckm_i_layer ckm_i_zoo_average_pool(ckm_i_zoo *z, ckm_i_layer x, ckm_i_pool p)
{
    return pool(z, x, "average_pool", ckm_i_zoo_layer_name(z, "average_pooling2d", p.name), &p);
}

ckm_i_layer ckm_i_zoo_global_average_pool(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    const char *layer = ckm_i_zoo_layer_name(z, "global_average_pooling2d", name);
    return ckm_i_zoo_add(z, "global_average_pool", layer, &x, 1, NULL, 0);
}

static ckm_i_layer border(ckm_i_zoo *z, ckm_i_layer x, const char *kind, const char *layer, ckm_i_border b)
{
    int64_t pads[4] = {b.top, b.left, b.bottom, b.right};
    ckm_i_attr attr = ckm_i_attr_ints("pads", pads, 4);
    return ckm_i_zoo_add(z, kind, layer, &x, 1, &attr, 1);
}

ckm_i_layer ckm_i_zoo_zero_padding(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_border b)
{
    return border(z, x, "zero_padding", ckm_i_zoo_layer_name(z, "zero_padding2d", name), b);
}

ckm_i_layer ckm_i_zoo_cropping(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_border b)
{
    return border(z, x, "cropping", ckm_i_zoo_layer_name(z, "cropping2d", name), b);
}

ckm_i_layer ckm_i_zoo_up_sampling(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t factor)
{
    const char *layer = ckm_i_zoo_layer_name(z, "up_sampling2d", name);
    int64_t size[2] = {factor, factor};
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("size", size, 2), ckm_i_attr_word("mode", "nearest")};
    return ckm_i_zoo_add(z, "up_sampling", layer, &x, 1, attrs, 2);
}

ckm_i_layer ckm_i_zoo_interp(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t height, int64_t width)
{
    const char *layer = ckm_i_zoo_layer_name(z, "interp", name);
    int64_t size[2] = {height, width};
    ckm_i_attr attr = ckm_i_attr_ints("size", size, 2);
    return ckm_i_zoo_add(z, "interp", layer, &x, 1, &attr, 1);
}

ckm_i_layer ckm_i_zoo_dropout(ckm_i_zoo *z, ckm_i_layer x, const char *name, double rate)
{
    ckm_i_attr attr = ckm_i_attr_real("rate", rate);
    return ckm_i_zoo_add(z, "dropout", ckm_i_zoo_layer_name(z, "dropout", name), &x, 1, &attr, 1);
}

ckm_i_layer ckm_i_zoo_flatten(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    return ckm_i_zoo_add(z, "flatten", ckm_i_zoo_layer_name(z, "flatten", name), &x, 1, NULL, 0);
}

ckm_i_layer ckm_i_zoo_reshape(ckm_i_zoo *z, ckm_i_layer x, const char *name, const int64_t *dims, int32_t n)
{
    const char *layer = ckm_i_zoo_layer_name(z, "reshape", name);
    int64_t shape[CKM_MAX_RANK] = {0};  // the leading 0 keeps the batch
    for (int32_t i = 0; i < n && i + 1 < CKM_MAX_RANK; i++) {
        shape[i + 1] = dims[i];
    }
    ckm_i_attr attr = ckm_i_attr_ints("shape", shape, n + 1);
    return ckm_i_zoo_add(z, "reshape", layer, &x, 1, &attr, 1);
}

ckm_i_layer ckm_i_zoo_lambda(ckm_i_zoo *z, ckm_i_layer x, const char *name, const char *text, const int64_t dims[3])
{
    const char *layer = ckm_i_zoo_layer_name(z, "lambda", name);
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("shape", dims, 3), ckm_i_attr_word("text", text)};
    return ckm_i_zoo_add(z, "lambda", layer, &x, 1, attrs, 2);
}
