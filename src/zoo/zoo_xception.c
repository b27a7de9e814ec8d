// SPDX-License-Identifier: Apache-2.0
// Xception (Chollet 2016) as in Keras.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static ckm_i_layer norm(ckm_i_zoo *z, ckm_i_layer x, const char *layer)
{
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = ckm_i_zoo_name(z, "%s_bn", layer)});
}

static ckm_i_layer relu(ckm_i_zoo *z, ckm_i_layer x, const char *layer)
{
    return ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_act", layer), "relu");
}

static ckm_i_layer conv(ckm_i_zoo *z, ckm_i_layer x, const char *layer, int64_t filters, int64_t stride)
{
    ckm_i_conv c = {.name = layer, .filters = filters, .kernel = {3}, .strides = {stride}, .no_bias = true};
    return relu(z, norm(z, ckm_i_zoo_conv(z, x, c), layer), layer);
}

static ckm_i_layer separable(ckm_i_zoo *z, ckm_i_layer x, const char *layer, int64_t filters)
{
    ckm_i_conv c = {.name = layer, .filters = filters, .kernel = {3}, .padding = "same", .no_bias = true};
    return norm(z, ckm_i_zoo_separable_conv(z, x, c), layer);
}

static ckm_i_layer add(ckm_i_zoo *z, ckm_i_layer x, ckm_i_layer shortcut)
{
    return ckm_i_zoo_add_layers(z, NULL, (const ckm_i_layer[]){x, shortcut}, 2);
}

// Two separable convolutions and a pooling, in parallel with a pointwise convolution with a stride. The ReLU in front is
// left out where the block's input has just been through one.
static ckm_i_layer shrink(ckm_i_zoo *z, ckm_i_layer x, int number, int64_t filters1, int64_t filters2, bool relu_first)
{
    char first[32];
    char second[32];
    snprintf(first, sizeof first, "block%d_sepconv1", number);
    snprintf(second, sizeof second, "block%d_sepconv2", number);
    ckm_i_conv c = {.filters = filters2, .strides = {2}, .padding = "same", .no_bias = true};
    ckm_i_layer shortcut = ckm_i_zoo_batch_norm(z, ckm_i_zoo_conv(z, x, c), (ckm_i_batch_norm){0});
    x = separable(z, relu_first ? relu(z, x, first) : x, first, filters1);
    x = separable(z, relu(z, x, second), second, filters2);
    ckm_i_pool p = {.size = {3}, .strides = {2}, .padding = "same"};
    p.name = ckm_i_zoo_name(z, "block%d_pool", number);
    return add(z, ckm_i_zoo_max_pool(z, x, p), shortcut);
}

static ckm_i_layer middle(ckm_i_zoo *z, ckm_i_layer input, int number)
{
    ckm_i_layer x = input;
    for (int i = 1; i <= 3; i++) {
        char layer[32];
        snprintf(layer, sizeof layer, "block%d_sepconv%d", number, i);
        x = separable(z, relu(z, x, layer), layer, 728);
    }
    return add(z, x, input);
}

ckm_i_layer ckm_i_zoo_xception(ckm_i_zoo *z, int32_t unused)
{
    (void)unused;
    ckm_i_layer x = conv(z, CKM_I_ZOO_INPUT, "block1_conv1", 32, 2);
    x = conv(z, x, "block1_conv2", 64, 1);
    x = shrink(z, x, 2, 128, 128, false);
    x = shrink(z, x, 3, 256, 256, true);
    x = shrink(z, x, 4, 728, 728, true);
    for (int i = 5; i <= 12; i++) {
        x = middle(z, x, i);
    }
    x = shrink(z, x, 13, 728, 1024, true);
    x = relu(z, separable(z, x, "block14_sepconv1", 1536), "block14_sepconv1");
    x = relu(z, separable(z, x, "block14_sepconv2", 2048), "block14_sepconv2");
    x = ckm_i_zoo_global_average_pool(z, x, "avg_pool");
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}
