// SPDX-License-Identifier: Apache-2.0
// VGG16 and VGG19 (Simonyan and Zisserman 2014, configurations D and E) as in Keras; torchvision's are the same but for their dropout,
// and for a pooling to 7x7 that does nothing to images of 224x224. Parameters have torchvision's names, too.
#include "zoo/zoo_networks.h"

// `at` counts layers as torchvision does: a convolution, its activation, a pooling.
static ckm_i_layer block(ckm_i_zoo *z, ckm_i_layer x, int number, int convolutions, int64_t filters, int *at)
{
    for (int i = 1; i <= convolutions; i++) {
        ckm_i_zoo_known_as(z, "features.%d", *at);
        *at += 2;
        x = ckm_i_zoo_conv(z, x,
                           (ckm_i_conv){.name = ckm_i_zoo_name(z, "block%d_conv%d", number, i),
                                        .filters = filters,
                                        .kernel = {3},
                                        .padding = "same",
                                        .activation = "relu"});
    }
    *at += 1;
    return ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.name = ckm_i_zoo_name(z, "block%d_pool", number), .size = {2}});
}

// The five blocks; the deeper three have `convolutions` each.
static ckm_i_features blocks(ckm_i_zoo *z, int convolutions)
{
    ckm_i_features f;
    int at = 0;
    f.level[0] = block(z, CKM_I_ZOO_INPUT, 1, 2, 64, &at);
    f.level[1] = block(z, f.level[0], 2, 2, 128, &at);
    f.level[2] = block(z, f.level[1], 3, convolutions, 256, &at);
    f.level[3] = block(z, f.level[2], 4, convolutions, 512, &at);
    f.level[4] = block(z, f.level[3], 5, convolutions, 512, &at);
    return f;
}

ckm_i_layer ckm_i_zoo_vgg(ckm_i_zoo *z, int32_t layers)
{
    ckm_i_layer x = blocks(z, layers == 19 ? 4 : 3).level[4];
    int64_t height = ckm_i_zoo_height(z, x);
    int64_t width = ckm_i_zoo_width(z, x);
    int64_t channels = ckm_i_zoo_channels(z, x);
    x = ckm_i_zoo_flatten(z, x, "flatten");
    ckm_i_zoo_known_as(z, "classifier.0");
    ckm_i_zoo_known_flattened(z, height, width, channels);
    x = ckm_i_zoo_dense(z, x, "fc1", 4096, "relu");
    ckm_i_zoo_known_as(z, "classifier.3");
    x = ckm_i_zoo_dense(z, x, "fc2", 4096, "relu");
    ckm_i_zoo_known_as(z, "classifier.6");
    return ckm_i_zoo_dense(z, x, "predictions", ckm_i_zoo_classes(z), "softmax");
}

ckm_i_features ckm_i_zoo_encode_vgg(ckm_i_zoo *z)
{
    return blocks(z, 3);
}
