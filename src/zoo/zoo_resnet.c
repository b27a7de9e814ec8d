// SPDX-License-Identifier: Apache-2.0
// ResNet50, 101 and 152 (He et al. 2015) as in Keras: bottleneck blocks, the stride in a stage's first 1x1
// convolutions.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static const double epsilon = 1.001e-5;

static ckm_i_layer conv_norm(ckm_i_zoo *z, ckm_i_layer x, const char *block, int number, ckm_i_conv c)
{
    c.name = ckm_i_zoo_name(z, "%s_%d_conv", block, number);
    x = ckm_i_zoo_conv(z, x, c);
    const char *name = ckm_i_zoo_name(z, "%s_%d_bn", block, number);
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = name, .epsilon = epsilon});
}

// 1x1, 3x3, 1x1 with four times the filters, added to the block's input; a stage's first block brings that
// to its own shape with a convolution.
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t filters, int64_t stride, bool first)
{
    ckm_i_layer shortcut = x;
    if (first) {
        shortcut = conv_norm(z, x, name, 0, (ckm_i_conv){.filters = 4 * filters, .strides = {stride}});
    }
    x = conv_norm(z, x, name, 1, (ckm_i_conv){.filters = filters, .strides = {stride}});
    x = ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_1_relu", name), "relu");
    x = conv_norm(z, x, name, 2, (ckm_i_conv){.filters = filters, .kernel = {3}, .padding = "same"});
    x = ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_2_relu", name), "relu");
    x = conv_norm(z, x, name, 3, (ckm_i_conv){.filters = 4 * filters});
    x = ckm_i_zoo_add_layers(z, ckm_i_zoo_name(z, "%s_add", name), (const ckm_i_layer[]){shortcut, x}, 2);
    return ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_out", name), "relu");
}

static ckm_i_layer stage(ckm_i_zoo *z, ckm_i_layer x, int number, int blocks, int64_t filters, int64_t stride)
{
    for (int i = 1; i <= blocks; i++) {
        char name[32];
        snprintf(name, sizeof name, "conv%d_block%d", number, i);
        x = block(z, x, name, filters, i == 1 ? stride : 1, i == 1);
    }
    return x;
}

ckm_i_layer ckm_i_zoo_resnet(ckm_i_zoo *z, int32_t layers)
{
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    x = ckm_i_zoo_zero_padding(z, x, "conv1_pad", (ckm_i_border){3, 3, 3, 3});
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv1_conv", .filters = 64, .kernel = {7}, .strides = {2}});
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = "conv1_bn", .epsilon = epsilon});
    x = ckm_i_zoo_activation(z, x, "conv1_relu", "relu");
    x = ckm_i_zoo_zero_padding(z, x, "pool1_pad", (ckm_i_border){1, 1, 1, 1});
    x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.name = "pool1_pool", .size = {3}, .strides = {2}});

    x = stage(z, x, 2, 3, 64, 1);
    x = stage(z, x, 3, layers == 152 ? 8 : 4, 128, 2);
    x = stage(z, x, 4, layers == 152 ? 36 : (layers == 101 ? 23 : 6), 256, 2);
    x = stage(z, x, 5, 3, 512, 2);

    x = ckm_i_zoo_global_average_pool(z, x, "avg_pool");
    return ckm_i_zoo_dense(z, x, "probs", ckm_i_zoo_classes(z), "softmax");
}
