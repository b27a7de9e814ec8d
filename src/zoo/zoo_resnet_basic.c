// SPDX-License-Identifier: Apache-2.0
// ResNet18 and 34 (He et al. 2015) as in torchvision, which Keras does not have: two 3x3 convolutions a block, the stride in
// a stage's first, no biases before normalizations. Parameters have torchvision's names, too.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zoo/zoo_networks.h"

static const double epsilon = 1e-5;

// Block "conv2_block1" is "layer1.0" there, and its part 0 the shortcut.
static void know(ckm_i_zoo *z, const char *block, const char *part, bool norm)
{
    int stage = block[sizeof "conv" - 1] - '0';
    int number = (int)strtol(block + sizeof "conv2_block" - 1, NULL, 10);
    if (strcmp(part, "0") == 0) {
        ckm_i_zoo_known_as(z, "layer%d.%d.downsample.%d", stage - 1, number - 1, norm);
    } else {
        ckm_i_zoo_known_as(z, "layer%d.%d.%s%s", stage - 1, number - 1, norm ? "bn" : "conv", part);
    }
}

static ckm_i_layer conv_norm(ckm_i_zoo *z, ckm_i_layer x, const char *block, const char *part, ckm_i_conv c)
{
    c.name = ckm_i_zoo_name(z, "%s_%s_conv", block, part);
    c.no_bias = true;
    know(z, block, part, false);
    x = ckm_i_zoo_conv(z, x, c);
    know(z, block, part, true);
    const char *name = ckm_i_zoo_name(z, "%s_%s_bn", block, part);
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = name, .epsilon = epsilon});
}

// A 3x3 convolution of the same size, or of half of it: a border of one on all sides, as PyTorch has it.
static ckm_i_layer conv3(ckm_i_zoo *z, ckm_i_layer x, const char *block, const char *part, int64_t filters,
                         int64_t stride)
{
    if (stride == 1) {
        return conv_norm(z, x, block, part, (ckm_i_conv){.filters = filters, .kernel = {3}, .padding = "same"});
    }
    x = ckm_i_zoo_zero_padding(z, x, ckm_i_zoo_name(z, "%s_%s_pad", block, part), (ckm_i_border){1, 1, 1, 1});
    return conv_norm(z, x, block, part, (ckm_i_conv){.filters = filters, .kernel = {3}, .strides = {stride}});
}

// A first block that changes the shape brings its input to it with a 1x1 convolution.
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t filters, int64_t stride)
{
    ckm_i_layer shortcut = x;
    if (stride != 1) {
        shortcut = conv_norm(z, x, name, "0", (ckm_i_conv){.filters = filters, .strides = {stride}});
    }
    x = conv3(z, x, name, "1", filters, stride);
    x = ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_1_relu", name), "relu");
    x = conv3(z, x, name, "2", filters, 1);
    x = ckm_i_zoo_add_layers(z, ckm_i_zoo_name(z, "%s_add", name), (const ckm_i_layer[]){shortcut, x}, 2);
    return ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_out", name), "relu");
}

static ckm_i_layer stage(ckm_i_zoo *z, ckm_i_layer x, int number, int blocks, int64_t filters)
{
    for (int i = 1; i <= blocks; i++) {
        char name[32];
        snprintf(name, sizeof name, "conv%d_block%d", number, i);
        x = block(z, x, name, filters, i == 1 && number > 2 ? 2 : 1);
    }
    return x;
}

ckm_i_layer ckm_i_zoo_resnet_basic(ckm_i_zoo *z, int32_t layers)
{
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    x = ckm_i_zoo_zero_padding(z, x, "conv1_pad", (ckm_i_border){3, 3, 3, 3});
    ckm_i_zoo_known_as(z, "conv1");
    x = ckm_i_zoo_conv(
        z, x, (ckm_i_conv){.name = "conv1_conv", .filters = 64, .kernel = {7}, .strides = {2}, .no_bias = true});
    ckm_i_zoo_known_as(z, "bn1");
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = "conv1_bn", .epsilon = epsilon});
    x = ckm_i_zoo_activation(z, x, "conv1_relu", "relu");
    // What is pooled is not below 0, so that a border of 0 changes no maximum.
    x = ckm_i_zoo_zero_padding(z, x, "pool1_pad", (ckm_i_border){1, 1, 1, 1});
    x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.name = "pool1_pool", .size = {3}, .strides = {2}});

    x = stage(z, x, 2, layers == 34 ? 3 : 2, 64);
    x = stage(z, x, 3, layers == 34 ? 4 : 2, 128);
    x = stage(z, x, 4, layers == 34 ? 6 : 2, 256);
    x = stage(z, x, 5, layers == 34 ? 3 : 2, 512);

    x = ckm_i_zoo_global_average_pool(z, x, "avg_pool");
    ckm_i_zoo_known_as(z, "fc");
    return ckm_i_zoo_dense(z, x, "probs", ckm_i_zoo_classes(z), "softmax");
}
