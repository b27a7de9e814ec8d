// SPDX-License-Identifier: Apache-2.0
// DenseNet121, 169 and 201 (Huang et al. 2016) as in Keras: growth 32, bottlenecks, half the channels at every
// transition. torchvision's are the same but for the epsilon of their normalizations (1e-5). Parameters have torchvision's names, too.
#include <stdio.h>

#include "zoo/zoo_networks.h"

enum { GROWTH = 32 };

static ckm_i_layer norm_relu(ckm_i_zoo *z, ckm_i_layer x, const char *prefix, const char *known_as)
{
    ckm_i_zoo_known_as(z, "features.%s", known_as);
    const char *name = ckm_i_zoo_name(z, "%sbn", prefix);
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = name, .epsilon = 1.001e-5});
    return ckm_i_zoo_activation(z, x, ckm_i_zoo_name(z, "%srelu", prefix), "relu");
}

static ckm_i_layer conv(ckm_i_zoo *z, ckm_i_layer x, ckm_i_conv c, const char *known_as)
{
    ckm_i_zoo_known_as(z, "features.%s", known_as);
    c.no_bias = true;
    return ckm_i_zoo_conv(z, x, c);
}

// Adds GROWTH channels to those of x.
static ckm_i_layer grow(ckm_i_zoo *z, ckm_i_layer x, int stage, int number)
{
    char name[32];
    char before[40];
    char between[40];
    char known[64];
    snprintf(name, sizeof name, "conv%d_block%d", stage, number);
    snprintf(before, sizeof before, "%s_0_", name);
    snprintf(between, sizeof between, "%s_1_", name);
    char *part = known + snprintf(known, sizeof known, "denseblock%d.denselayer%d.", stage - 1, number);
    size_t room = sizeof known - (size_t)(part - known);
    snprintf(part, room, "norm1");
    ckm_i_layer y = norm_relu(z, x, before, known);
    snprintf(part, room, "conv1");
    y = conv(z, y, (ckm_i_conv){.name = ckm_i_zoo_name(z, "%s_1_conv", name), .filters = 4 * GROWTH}, known);
    snprintf(part, room, "norm2");
    y = norm_relu(z, y, between, known);
    const char *last = ckm_i_zoo_name(z, "%s_2_conv", name);
    snprintf(part, room, "conv2");
    y = conv(z, y, (ckm_i_conv){.name = last, .filters = GROWTH, .kernel = {3}, .padding = "same"}, known);
    return ckm_i_zoo_concat(z, ckm_i_zoo_name(z, "%s_concat", name), (const ckm_i_layer[]){x, y}, 2);
}

static ckm_i_layer transition(ckm_i_zoo *z, ckm_i_layer x, int stage)
{
    char prefix[32];
    char known[64];
    snprintf(prefix, sizeof prefix, "pool%d_", stage);
    snprintf(known, sizeof known, "transition%d.norm", stage - 1);
    x = norm_relu(z, x, prefix, known);
    snprintf(known, sizeof known, "transition%d.conv", stage - 1);
    int64_t half = ckm_i_zoo_channels(z, x) / 2;
    x = conv(z, x, (ckm_i_conv){.name = ckm_i_zoo_name(z, "%sconv", prefix), .filters = half}, known);
    return ckm_i_zoo_average_pool(z, x, (ckm_i_pool){.name = ckm_i_zoo_name(z, "%spool", prefix), .size = {2}});
}

ckm_i_layer ckm_i_zoo_densenet(ckm_i_zoo *z, int32_t layers)
{
    const int blocks[4] = {6, 12, layers == 201 ? 48 : (layers == 169 ? 32 : 24), layers == 121 ? 16 : 32};
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    x = ckm_i_zoo_zero_padding(z, x, NULL, (ckm_i_border){3, 3, 3, 3});
    x = conv(z, x, (ckm_i_conv){.name = "conv1/conv", .filters = 64, .kernel = {7}, .strides = {2}}, "conv0");
    x = norm_relu(z, x, "conv1/", "norm0");
    x = ckm_i_zoo_zero_padding(z, x, NULL, (ckm_i_border){1, 1, 1, 1});
    x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.name = "pool1", .size = {3}, .strides = {2}});
    for (int stage = 2; stage <= 5; stage++) {
        for (int i = 1; i <= blocks[stage - 2]; i++) {
            x = grow(z, x, stage, i);
        }
        x = stage < 5 ? transition(z, x, stage) : norm_relu(z, x, "", "norm5");
    }
    x = ckm_i_zoo_global_average_pool(z, x, "avg_pool");
    ckm_i_zoo_known_as(z, "classifier");
    return ckm_i_zoo_dense(z, x, "fc1000", ckm_i_zoo_classes(z), "softmax");
}
