// SPDX-License-Identifier: Apache-2.0
// ResNet50 as the encoder of keras_segmentation: the names and the order of operands of an earlier Keras, no
// padding before the first pooling, unnamed activations.
#include <stdio.h>

#include "zoo/zoo_networks.h"

// Branch "2a", "2b", "2c" or "1" of a block such as "3b".
static ckm_i_layer conv_norm(ckm_i_zoo *z, ckm_i_layer x, const char *block, const char *branch, ckm_i_conv c)
{
    c.name = ckm_i_zoo_name(z, "res%s_branch%s", block, branch);
    x = ckm_i_zoo_conv(z, x, c);
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = ckm_i_zoo_name(z, "bn%s_branch%s", block, branch)});
}

static ckm_i_layer relu(ckm_i_zoo *z, ckm_i_layer x)
{
    return ckm_i_zoo_activation(z, x, NULL, "relu");
}

static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer input, const char *name, int64_t filters, int64_t stride, bool first)
{
    ckm_i_layer x = input;
    x = relu(z, conv_norm(z, x, name, "2a", (ckm_i_conv){.filters = filters, .strides = {stride}}));
    x = relu(z, conv_norm(z, x, name, "2b", (ckm_i_conv){.filters = filters, .kernel = {3}, .padding = "same"}));
    x = conv_norm(z, x, name, "2c", (ckm_i_conv){.filters = 4 * filters});
    ckm_i_layer shortcut = input;
    if (first) {
        shortcut = conv_norm(z, input, name, "1", (ckm_i_conv){.filters = 4 * filters, .strides = {stride}});
    }
    return relu(z, ckm_i_zoo_add_layers(z, NULL, (const ckm_i_layer[]){x, shortcut}, 2));
}

static ckm_i_layer stage(ckm_i_zoo *z, ckm_i_layer x, int number, int blocks, int64_t filters, int64_t stride)
{
    for (int i = 0; i < blocks; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d%c", number, 'a' + i);
        x = block(z, x, name, filters, i == 0 ? stride : 1, i == 0);
    }
    return x;
}

// One row and one column more, by padding all sides and cutting the last ones off.
static ckm_i_layer pad_one_side(ckm_i_zoo *z, ckm_i_layer x)
{
    x = ckm_i_zoo_zero_padding(z, x, NULL, (ckm_i_border){1, 1, 1, 1});
    int64_t dims[3] = {ckm_i_zoo_height(z, x) - 1, ckm_i_zoo_width(z, x) - 1, ckm_i_zoo_channels(z, x)};
    return ckm_i_zoo_lambda(z, x, NULL, "slice", dims);
}

ckm_i_features ckm_i_zoo_encode_resnet50(ckm_i_zoo *z)
{
    ckm_i_features f;
    ckm_i_layer x = ckm_i_zoo_zero_padding(z, CKM_I_ZOO_INPUT, NULL, (ckm_i_border){3, 3, 3, 3});
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv1", .filters = 64, .kernel = {7}, .strides = {2}});
    f.level[0] = x;
    x = relu(z, ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = "bn_conv1"}));
    x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.size = {3}, .strides = {2}});
    x = stage(z, x, 2, 3, 64, 1);
    f.level[1] = pad_one_side(z, x);
    f.level[2] = stage(z, x, 3, 4, 128, 2);
    f.level[3] = stage(z, f.level[2], 4, 6, 256, 2);
    f.level[4] = stage(z, f.level[3], 5, 3, 512, 2);
    return f;
}
