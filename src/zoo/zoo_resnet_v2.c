// SPDX-License-Identifier: Apache-2.0
// ResNet50V2, 101V2 and 152V2 (He et al. 2016) as in Keras: normalization and ReLU before the convolutions, the
// stride in a stage's last block.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static ckm_i_layer norm_relu(ckm_i_zoo *z, ckm_i_layer x, const char *block, const char *number)
{
    const char *name = ckm_i_zoo_name(z, "%s_%s_bn", block, number);
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = name, .epsilon = 1.001e-5});
    return ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_%s_relu", block, number), "relu");
}

static ckm_i_layer conv(ckm_i_zoo *z, ckm_i_layer x, const char *block, int number, ckm_i_conv c)
{
    c.name = ckm_i_zoo_name(z, "%s_%d_conv", block, number);
    return ckm_i_zoo_conv(z, x, c);
}

static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t filters, int64_t stride, bool first)
{
    ckm_i_layer y = norm_relu(z, x, name, "preact");
    ckm_i_layer shortcut = x;
    if (first) {
        shortcut = conv(z, y, name, 0, (ckm_i_conv){.filters = 4 * filters, .strides = {stride}});
    } else if (stride > 1) {
        shortcut = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.size = {1}, .strides = {stride}});
    }
    y = conv(z, y, name, 1, (ckm_i_conv){.filters = filters, .no_bias = true});
    y = norm_relu(z, y, name, "1");
    y = ckm_i_zoo_zero_padding(z, y, ckm_i_zoo_name(z, "%s_2_pad", name), (ckm_i_border){1, 1, 1, 1});
    y = conv(z, y, name, 2, (ckm_i_conv){.filters = filters, .kernel = {3}, .strides = {stride}, .no_bias = true});
    y = norm_relu(z, y, name, "2");
    y = conv(z, y, name, 3, (ckm_i_conv){.filters = 4 * filters});
    return ckm_i_zoo_add_layers(z, ckm_i_zoo_name(z, "%s_out", name), (const ckm_i_layer[]){shortcut, y}, 2);
}

static ckm_i_layer stage(ckm_i_zoo *z, ckm_i_layer x, int number, int blocks, int64_t filters, int64_t stride)
{
    for (int i = 1; i <= blocks; i++) {
        char name[32];
        snprintf(name, sizeof name, "conv%d_block%d", number, i);
        x = block(z, x, name, filters, i == blocks ? stride : 1, i == 1);
    }
    return x;
}

ckm_i_layer ckm_i_zoo_resnet_v2(ckm_i_zoo *z, int32_t layers)
{
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    x = ckm_i_zoo_zero_padding(z, x, "conv1_pad", (ckm_i_border){3, 3, 3, 3});
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv1_conv", .filters = 64, .kernel = {7}, .strides = {2}});
    x = ckm_i_zoo_zero_padding(z, x, "pool1_pad", (ckm_i_border){1, 1, 1, 1});
    x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.name = "pool1_pool", .size = {3}, .strides = {2}});

    x = stage(z, x, 2, 3, 64, 2);
    x = stage(z, x, 3, layers == 152 ? 8 : 4, 128, 2);
    x = stage(z, x, 4, layers == 152 ? 36 : (layers == 101 ? 23 : 6), 256, 2);
    x = stage(z, x, 5, 3, 512, 1);

    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = "post_bn", .epsilon = 1.001e-5});
    x = ckm_i_zoo_activation(z, x, "post_relu", "relu");
    x = ckm_i_zoo_global_average_pool(z, x, "avg_pool");
    return ckm_i_zoo_dense(z, x, "probs", ckm_i_zoo_classes(z), "softmax");
}
