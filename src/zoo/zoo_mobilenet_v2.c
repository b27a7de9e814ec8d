// SPDX-License-Identifier: Apache-2.0
// MobileNetV2 (Sandler et al. 2018), width 1, as in Keras.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static ckm_i_layer norm(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = name});
}

// What makes a convolution with a stride of 2 give half the size, rounded up: less before an even size.
static ckm_i_layer pad(ckm_i_zoo *z, ckm_i_layer x, const char *name)
{
    ckm_i_border b = {.top = ckm_i_zoo_height(z, x) % 2, .bottom = 1, .left = ckm_i_zoo_width(z, x) % 2, .right = 1};
    return ckm_i_zoo_zero_padding(z, x, name, b);
}

// Expand, filter by channel, project; added to its input where the shape stays.
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer input, int number, int64_t expansion, int64_t filters,
                         int64_t stride)
{
    char p[24] = "expanded_conv_";
    ckm_i_layer x = input;
    if (number > 0) {
        snprintf(p, sizeof p, "block_%d_", number);
        int64_t wide = expansion * ckm_i_zoo_channels(z, x);
        const char *name = ckm_i_zoo_name(z, "%sexpand", p);
        x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = name, .filters = wide, .padding = "same", .no_bias = true});
        x = norm(z, x, ckm_i_zoo_name(z, "%sexpand_BN", p));
        x = ckm_i_zoo_relu(z, x, ckm_i_zoo_name(z, "%sexpand_relu", p), 6.0);
    }
    if (stride == 2) {
        x = pad(z, x, ckm_i_zoo_name(z, "%spad", p));
    }
    ckm_i_conv depthwise = {.kernel = {3}, .strides = {stride}, .no_bias = true};
    depthwise.padding = stride == 2 ? "valid" : "same";
    depthwise.name = ckm_i_zoo_name(z, "%sdepthwise", p);
    x = ckm_i_zoo_depthwise_conv(z, x, depthwise);
    x = norm(z, x, ckm_i_zoo_name(z, "%sdepthwise_BN", p));
    x = ckm_i_zoo_relu(z, x, ckm_i_zoo_name(z, "%sdepthwise_relu", p), 6.0);
    const char *name = ckm_i_zoo_name(z, "%sproject", p);
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = name, .filters = filters, .padding = "same", .no_bias = true});
    x = norm(z, x, ckm_i_zoo_name(z, "%sproject_BN", p));
    if (stride == 1 && ckm_i_zoo_channels(z, input) == filters) {
        x = ckm_i_zoo_add_layers(z, ckm_i_zoo_name(z, "%sadd", p), (const ckm_i_layer[]){input, x}, 2);
    }
    return x;
}

ckm_i_layer ckm_i_zoo_mobilenet_v2(ckm_i_zoo *z, int32_t unused)
{
    (void)unused;
    static const struct {
        int64_t expansion, filters, blocks, stride;
    } stages[] = {
        {1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1},
    };
    ckm_i_conv first = {.name = "Conv1", .filters = 32, .kernel = {3}, .strides = {2}, .no_bias = true};
    ckm_i_layer x = ckm_i_zoo_conv(z, pad(z, CKM_I_ZOO_INPUT, "Conv1_pad"), first);
    x = ckm_i_zoo_relu(z, norm(z, x, "bn_Conv1"), "Conv1_relu", 6.0);
    int number = 0;
    for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++) {
        for (int64_t i = 0; i < stages[s].blocks; i++) {
            x = block(z, x, number++, stages[s].expansion, stages[s].filters, i == 0 ? stages[s].stride : 1);
        }
    }
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "Conv_1", .filters = 1280, .no_bias = true});
    x = ckm_i_zoo_relu(z, norm(z, x, "Conv_1_bn"), "out_relu", 6.0);
    x = ckm_i_zoo_global_average_pool(z, x, NULL);
    return ckm_i_zoo_dense(z, x, "Logits", ckm_i_zoo_classes(z), "softmax");
}
