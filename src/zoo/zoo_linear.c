// SPDX-License-Identifier: Apache-2.0
// Small networks for experiments: a chain of convolutions, and the smallest one with a branch.
#include "zoo/zoo_networks.h"

ckm_i_layer ckm_i_zoo_linear(ckm_i_zoo *z, int32_t convolutions)
{
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    for (int32_t i = 0; i < convolutions; i++) {
        const char *name = ckm_i_zoo_name(z, "conv%d", (int)i);
        x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = name, .filters = 64, .kernel = {3}, .no_bias = true});
    }
    x = ckm_i_zoo_global_average_pool(z, x, "flatten");
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}

ckm_i_layer ckm_i_zoo_test(ckm_i_zoo *z, int32_t unused)
{
    (void)unused;
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "in_conv", .filters = 64, .kernel = {3}, .activation = "relu"});
    ckm_i_layer branches[2];
    branches[0] = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv1", .filters = 128, .activation = "relu"});
    branches[1] = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "conv2", .filters = 128, .activation = "relu"});
    x = ckm_i_zoo_add_layers(z, "addc1c2", branches, 2);
    x = ckm_i_zoo_global_average_pool(z, x, "flatten");
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}
