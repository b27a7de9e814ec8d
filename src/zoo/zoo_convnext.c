// SPDX-License-Identifier: Apache-2.0
// ConvNeXt (Liu et al. 2022, "A ConvNet for the 2020s", section 2 and figures 3 and 4; sizes in section 3), without
// stochastic depth. Channels last, so no axes are exchanged between the depthwise convolutions and the dense layers.
// Parameters have torchvision's names, too. Stages have the proportion 1 : 1 : 3 : 1 of blocks, or, of the deeper variants, 3 : 3 : 27 : 3.
#include <stdio.h>

#include "zoo/zoo_networks.h"
#include "zoo/zoo_tokens.h"

static const double epsilon = 1e-6;

// `known_as` is the block there: "features.1.0".
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, const char *name, int64_t channels, const char *known_as)
{
    char known[64];
    ckm_i_zoo_known_as(z, "%s.block.0", known_as);
    ckm_i_layer y = ckm_i_zoo_depthwise_conv(
        z, x, (ckm_i_conv){.name = ckm_i_zoo_name(z, "%s/dwconv", name), .kernel = {7}, .padding = "same"});
    ckm_i_zoo_known_as(z, "%s.block.2", known_as);
    y = ckm_i_zoo_layer_norm(z, y, ckm_i_zoo_name(z, "%s/norm", name), epsilon);
    ckm_i_zoo_known_as(z, "%s.block.3", known_as);
    y = ckm_i_zoo_project(z, y,
                          (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/pwconv1", name), .units = 4 * channels});
    y = ckm_i_zoo_gelu(z, y, ckm_i_zoo_name(z, "%s/gelu", name), false);
    ckm_i_zoo_known_as(z, "%s.block.5", known_as);
    y = ckm_i_zoo_project(z, y, (ckm_i_projection){.name = ckm_i_zoo_name(z, "%s/pwconv2", name), .units = channels});
    int32_t gamma = ckm_i_zoo_parameter(z, name, "gamma", CKM_ROLE_PARAMETER, (ckm_shape){1, {channels}});
    snprintf(known, sizeof known, "%s.layer_scale", known_as);
    ckm_i_zoo_parameter_known_as(z, gamma, known, &(ckm_shape){3, {channels, 1, 1}});
    y = ckm_i_zoo_multiply(z, ckm_i_zoo_name(z, "%s/layer_scale", name), y, gamma);
    return ckm_i_zoo_add_two(z, ckm_i_zoo_name(z, "%s/add", name), x, y);
}

ckm_i_layer ckm_i_zoo_convnext(ckm_i_zoo *z, int32_t third)
{
    const ckm_zoo_size *s = ckm_i_zoo_size(z);
    if (s->depth % (third + 3) != 0) {
        return ckm_i_zoo_fail(z, "a depth of %lld does not divide into stages of 1 : 1 : %d : 1", (long long)s->depth,
                              (int)third);
    }
    int64_t channels = s->model_width;
    ckm_i_zoo_known_as(z, "features.0.0");
    ckm_i_layer x = ckm_i_zoo_conv(z, CKM_I_ZOO_INPUT,
                                   (ckm_i_conv){.name = "stem", .filters = channels, .kernel = {4}, .strides = {4}});
    ckm_i_zoo_known_as(z, "features.0.1");
    x = ckm_i_zoo_layer_norm(z, x, "stem/norm", epsilon);
    for (int stage = 0; stage < 4; stage++) {
        if (stage > 0) {
            channels *= 2;
            ckm_i_zoo_known_as(z, "features.%d.0", 2 * stage);
            x = ckm_i_zoo_layer_norm(z, x, ckm_i_zoo_name(z, "downsample%d/norm", stage), epsilon);
            ckm_i_zoo_known_as(z, "features.%d.1", 2 * stage);
            x = ckm_i_zoo_conv(z, x,
                               (ckm_i_conv){.name = ckm_i_zoo_name(z, "downsample%d", stage),
                                            .filters = channels,
                                            .kernel = {2},
                                            .strides = {2}});
        }
        int64_t blocks = s->depth / (third + 3) * (stage == 2 ? third : 1);
        for (int64_t i = 0; i < blocks; i++) {
            char name[40];
            char known[40];
            snprintf(name, sizeof name, "stage%d/block%lld", stage, (long long)i);
            snprintf(known, sizeof known, "features.%d.%lld", 2 * stage + 1, (long long)i);
            x = block(z, x, name, channels, known);
        }
    }
    x = ckm_i_zoo_global_average_pool(z, x, "pool");
    ckm_i_zoo_known_as(z, "classifier.0");
    x = ckm_i_zoo_layer_norm(z, x, "norm", epsilon);
    ckm_i_zoo_known_as(z, "classifier.2");
    return ckm_i_zoo_project(z, x, (ckm_i_projection){.name = "head", .units = ckm_i_zoo_classes(z)});
}
