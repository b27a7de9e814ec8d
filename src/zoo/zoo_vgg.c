// SPDX-License-Identifier: Apache-2.0
// VGG16 and VGG19 (Simonyan and Zisserman 2014, configurations D and E) as in Keras.
#include "zoo/zoo_networks.h"

static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, int number, int convolutions, int64_t filters)
{
    for (int i = 1; i <= convolutions; i++) {
        x = ckm_i_zoo_conv(z, x,
                           (ckm_i_conv){.name = ckm_i_zoo_name(z, "block%d_conv%d", number, i),
                                        .filters = filters,
                                        .kernel = {3},
                                        .padding = "same",
                                        .activation = "relu"});
    }
    return ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.name = ckm_i_zoo_name(z, "block%d_pool", number), .size = {2}});
}

// The five blocks; the deeper three have `convolutions` each.
static ckm_i_features blocks(ckm_i_zoo *z, int convolutions)
{
    ckm_i_features f;
    f.level[0] = block(z, CKM_I_ZOO_INPUT, 1, 2, 64);
    f.level[1] = block(z, f.level[0], 2, 2, 128);
    f.level[2] = block(z, f.level[1], 3, convolutions, 256);
    f.level[3] = block(z, f.level[2], 4, convolutions, 512);
    f.level[4] = block(z, f.level[3], 5, convolutions, 512);
    return f;
}

ckm_i_layer ckm_i_zoo_vgg(ckm_i_zoo *z, int32_t layers)
{
    ckm_i_layer x = blocks(z, layers == 19 ? 4 : 3).level[4];
    x = ckm_i_zoo_flatten(z, x, "flatten");
    x = ckm_i_zoo_dense(z, x, "fc1", 4096, "relu");
    x = ckm_i_zoo_dense(z, x, "fc2", 4096, "relu");
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}

ckm_i_features ckm_i_zoo_encode_vgg(ckm_i_zoo *z)
{
    return blocks(z, 3);
}
