// SPDX-License-Identifier: Apache-2.0
// MobileNet (Howard et al. 2017), width 1, as in Keras.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static ckm_i_layer norm_relu6(ckm_i_zoo *z, ckm_i_layer x, const char *prefix)
{
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = ckm_i_zoo_name(z, "%s_bn", prefix)});
    return ckm_i_zoo_relu(z, x, ckm_i_zoo_name(z, "%s_relu", prefix), 6.0);
}

static const struct {
    int64_t filters, stride;
} plan[] = {
    {64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2},  {512, 1},
    {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1},
};
enum { BLOCKS = sizeof plan / sizeof plan[0] };

// A depthwise and a pointwise convolution; one with a stride of 2 pads below and to the right first.
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, int i)
{
    char depthwise[32];
    char pointwise[32];
    snprintf(depthwise, sizeof depthwise, "conv_dw_%d", i + 1);
    snprintf(pointwise, sizeof pointwise, "conv_pw_%d", i + 1);
    bool strided = plan[i].stride > 1;
    ckm_i_conv spatial = {.name = depthwise, .kernel = {3}, .strides = {plan[i].stride}, .no_bias = true};
    spatial.padding = strided ? "valid" : "same";
    ckm_i_conv mix = {.name = pointwise, .filters = plan[i].filters, .padding = "same", .no_bias = true};
    if (strided) {
        const char *name = ckm_i_zoo_name(z, "conv_pad_%d", i + 1);
        x = ckm_i_zoo_zero_padding(z, x, name, (ckm_i_border){.bottom = 1, .right = 1});
    }
    x = norm_relu6(z, ckm_i_zoo_depthwise_conv(z, x, spatial), depthwise);
    return norm_relu6(z, ckm_i_zoo_conv(z, x, mix), pointwise);
}

static const ckm_i_conv first = {.name = "conv1", .filters = 32, .kernel = {3}, .strides = {2}, .no_bias = true};

ckm_i_layer ckm_i_zoo_mobilenet(ckm_i_zoo *z, int32_t unused)
{
    (void)unused;
    ckm_i_layer x = ckm_i_zoo_zero_padding(z, CKM_I_ZOO_INPUT, "conv1_pad", (ckm_i_border){.bottom = 1, .right = 1});
    x = norm_relu6(z, ckm_i_zoo_conv(z, x, first), "conv1");
    for (int i = 0; i < BLOCKS; i++) {
        x = block(z, x, i);
    }
    x = ckm_i_zoo_global_average_pool(z, x, NULL);
    x = ckm_i_zoo_reshape(z, x, "reshape_1", (const int64_t[]){1, 1, 1024}, 3);
    x = ckm_i_zoo_dropout(z, x, "dropout", 1e-3);
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv_preds", .filters = ckm_i_zoo_classes(z), .padding = "same"});
    x = ckm_i_zoo_reshape(z, x, "reshape_2", (const int64_t[]){ckm_i_zoo_classes(z)}, 1);
    return ckm_i_zoo_activation(z, x, "act_softmax", "softmax");
}

// ---- The encoder of keras_segmentation: pads on all sides before every convolution, relu6 as an activation

static ckm_i_layer encoder_norm_relu6(ckm_i_zoo *z, ckm_i_layer x, const char *prefix)
{
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = ckm_i_zoo_name(z, "%s_bn", prefix)});
    return ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%s_relu", prefix), "relu6");
}

static ckm_i_layer encoder_block(ckm_i_zoo *z, ckm_i_layer x, int i)
{
    char depthwise[32];
    char pointwise[32];
    snprintf(depthwise, sizeof depthwise, "conv_dw_%d", i + 1);
    snprintf(pointwise, sizeof pointwise, "conv_pw_%d", i + 1);
    ckm_i_conv spatial = {.name = depthwise, .kernel = {3}, .strides = {plan[i].stride}, .no_bias = true};
    ckm_i_conv mix = {.name = pointwise, .filters = plan[i].filters, .padding = "same", .no_bias = true};
    x = ckm_i_zoo_zero_padding(z, x, ckm_i_zoo_name(z, "conv_pad_%d", i + 1), (ckm_i_border){1, 1, 1, 1});
    x = encoder_norm_relu6(z, ckm_i_zoo_depthwise_conv(z, x, spatial), depthwise);
    return encoder_norm_relu6(z, ckm_i_zoo_conv(z, x, mix), pointwise);
}

ckm_i_features ckm_i_zoo_encode_mobilenet(ckm_i_zoo *z)
{
    static const int last_of_level[5] = {0, 2, 4, 10, 12};
    ckm_i_features f = {{-1, -1, -1, -1, -1}};
    ckm_i_layer x = ckm_i_zoo_zero_padding(z, CKM_I_ZOO_INPUT, "conv1_pad", (ckm_i_border){1, 1, 1, 1});
    x = encoder_norm_relu6(z, ckm_i_zoo_conv(z, x, first), "conv1");
    for (int i = 0, level = 0; i < BLOCKS; i++) {
        x = encoder_block(z, x, i);
        if (i == last_of_level[level]) {
            f.level[level++] = x;
        }
    }
    return f;
}
