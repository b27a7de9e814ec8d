// SPDX-License-Identifier: Apache-2.0
// PSPNet (Zhao et al. 2016) on its own dilated ResNet50 or ResNet101, for the 19 classes of Cityscapes, as in
// keras_segmentation.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static ckm_i_layer conv_norm(ckm_i_zoo *z, ckm_i_layer x, const char *name, ckm_i_conv c)
{
    c.name = name;
    c.no_bias = true;
    x = ckm_i_zoo_conv(z, x, c);
    const char *norm = ckm_i_zoo_name(z, "%s_bn", name);
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){.name = norm, .epsilon = 1e-5});
}

static ckm_i_layer relu(ckm_i_zoo *z, ckm_i_layer x)
{
    return ckm_i_zoo_activation(z, x, NULL, "relu");
}

typedef struct stage_plan {
    int number, blocks;
    int64_t filters, stride, dilation;
} stage_plan;

static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer input, const stage_plan *s, int number)
{
    char name[48];
    bool first = number == 1;
    int64_t stride = first ? s->stride : 1;
    int64_t d = s->dilation;
    input = relu(z, input);
    snprintf(name, sizeof name, "conv%d_%d_1x1_reduce", s->number, number);
    ckm_i_layer x = relu(z, conv_norm(z, input, name, (ckm_i_conv){.filters = s->filters, .strides = {stride}}));
    x = ckm_i_zoo_zero_padding(z, x, NULL, (ckm_i_border){d, d, d, d});
    snprintf(name, sizeof name, "conv%d_%d_3x3", s->number, number);
    x = relu(z, conv_norm(z, x, name, (ckm_i_conv){.filters = s->filters, .kernel = {3}, .dilation = {d}}));
    snprintf(name, sizeof name, "conv%d_%d_1x1_increase", s->number, number);
    x = conv_norm(z, x, name, (ckm_i_conv){.filters = 4 * s->filters});
    ckm_i_layer shortcut = input;
    if (first) {
        snprintf(name, sizeof name, "conv%d_%d_1x1_proj", s->number, number);
        shortcut = conv_norm(z, input, name, (ckm_i_conv){.filters = 4 * s->filters, .strides = {stride}});
    }
    return ckm_i_zoo_add_layers(z, NULL, (const ckm_i_layer[]){x, shortcut}, 2);
}

static ckm_i_layer dilated_resnet(ckm_i_zoo *z, int32_t layers)
{
    const stage_plan stages[] = {
        {2, 3, 64, 1, 1},
        {3, 4, 128, 2, 1},
        {4, layers == 101 ? 23 : 6, 256, 1, 2},
        {5, 3, 512, 1, 4},
    };
    ckm_i_conv c = {.filters = 64, .kernel = {3}, .strides = {2}, .padding = "same"};
    ckm_i_layer x = relu(z, conv_norm(z, CKM_I_ZOO_INPUT, "conv1_1_3x3_s2", c));
    c.strides[0] = 1;
    x = relu(z, conv_norm(z, x, "conv1_2_3x3", c));
    c.filters = 128;
    x = relu(z, conv_norm(z, x, "conv1_3_3x3", c));
    x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.size = {3}, .strides = {2}, .padding = "same"});
    for (size_t s = 0; s < sizeof stages / sizeof stages[0]; s++) {
        for (int i = 1; i <= stages[s].blocks; i++) {
            x = block(z, x, &stages[s], i);
        }
    }
    return relu(z, x);
}

// The mean over a grid of bins x bins cells, at the size of `x` again.
static ckm_i_layer pyramid_level(ckm_i_zoo *z, ckm_i_layer x, int64_t bins)
{
    int64_t height = ckm_i_zoo_height(z, x);
    int64_t width = ckm_i_zoo_width(z, x);
    char name[48];
    snprintf(name, sizeof name, "conv5_3_pool%d_conv", (int)bins);
    if (height < bins || width < bins) {
        return ckm_i_zoo_fail(z, "layer \"%s\": %lld x %lld positions are too few for a grid of %d x %d", name,
                              (long long)height, (long long)width, (int)bins, (int)bins);
    }
    int64_t cell[2] = {height / bins, width / bins};
    ckm_i_pool p = {.size = {cell[0], cell[1]}, .strides = {cell[0], cell[1]}};
    ckm_i_layer y = ckm_i_zoo_average_pool(z, x, p);
    y = relu(z, conv_norm(z, y, name, (ckm_i_conv){.filters = 512}));
    return ckm_i_zoo_interp(z, y, NULL, height, width);
}

ckm_i_layer ckm_i_zoo_pspnet_resnet(ckm_i_zoo *z, int32_t layers)
{
    ckm_i_layer x = dilated_resnet(z, layers);
    ckm_i_layer levels[5] = {x};
    static const int64_t bins[4] = {1, 2, 3, 6};
    for (int i = 0; i < 4; i++) {
        levels[4 - i] = pyramid_level(z, x, bins[i]);  // the finest comes first
    }
    x = ckm_i_zoo_concat(z, NULL, levels, 5);
    x = relu(z, conv_norm(z, x, "conv5_4", (ckm_i_conv){.filters = 512, .kernel = {3}, .padding = "same"}));
    x = ckm_i_zoo_dropout(z, x, NULL, 0.1);
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv6", .filters = ckm_i_zoo_classes(z)});
    int64_t height = ckm_i_zoo_height(z, CKM_I_ZOO_INPUT);
    int64_t width = ckm_i_zoo_width(z, CKM_I_ZOO_INPUT);
    x = ckm_i_zoo_interp(z, x, NULL, height, width);
    x = ckm_i_zoo_reshape(z, x, NULL, (const int64_t[]){-1, ckm_i_zoo_classes(z)}, 2);
    return ckm_i_zoo_activation(z, x, NULL, "softmax");
}
