// SPDX-License-Identifier: Apache-2.0
// The networks' builders. Each takes the builder and the variant its row in the registry names, and returns
// the output layer.
#ifndef CKM_SRC_ZOO_ZOO_NETWORKS_H
#define CKM_SRC_ZOO_ZOO_NETWORKS_H

#include "zoo/zoo_builder.h"

typedef ckm_i_layer (*ckm_i_zoo_network)(ckm_i_zoo *z, int32_t variant);

ckm_i_layer ckm_i_zoo_linear(ckm_i_zoo *z, int32_t convolutions);
ckm_i_layer ckm_i_zoo_test(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_vgg(ckm_i_zoo *z, int32_t layers);  // 16 or 19
ckm_i_layer ckm_i_zoo_mobilenet(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_mobilenet_v2(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_xception(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_densenet(ckm_i_zoo *z, int32_t layers);       // 121, 169 or 201
ckm_i_layer ckm_i_zoo_resnet_v2(ckm_i_zoo *z, int32_t layers);      // 50, 101 or 152
ckm_i_layer ckm_i_zoo_pspnet_resnet(ckm_i_zoo *z, int32_t layers);  // 50 or 101
ckm_i_layer ckm_i_zoo_nasnet(ckm_i_zoo *z, int32_t large);
ckm_i_layer ckm_i_zoo_inception(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_resnet(ckm_i_zoo *z, int32_t layers);        // 50, 101 or 152
ckm_i_layer ckm_i_zoo_resnet_basic(ckm_i_zoo *z, int32_t layers);  // 18 or 34

// Today's; sizes are the builder's.
enum { CKM_I_LLAMA_TINY, CKM_I_LLAMA_2_7B, CKM_I_LLAMA_3_8B, CKM_I_LLAMA_3_1B, CKM_I_LLAMA_3_3B };
enum { CKM_I_DDPM_CIFAR10, CKM_I_DDPM_256 };
ckm_i_layer ckm_i_zoo_gpt2(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_llama(ckm_i_zoo *z, int32_t which);  // CKM_I_LLAMA_...
ckm_i_layer ckm_i_zoo_bert(ckm_i_zoo *z, int32_t unused);
ckm_i_layer ckm_i_zoo_vit(ckm_i_zoo *z, int32_t patch);
ckm_i_layer ckm_i_zoo_convnext(ckm_i_zoo *z, int32_t third);  // blocks of the third stage, the others having 1
ckm_i_layer ckm_i_zoo_swin(ckm_i_zoo *z, int32_t third);      // the same
ckm_i_layer ckm_i_zoo_ddpm(ckm_i_zoo *z, int32_t which);      // CKM_I_DDPM_...

// Segmentation: an encoder's five feature maps, finest first, and a decoder on top of them.
typedef struct ckm_i_features {
    ckm_i_layer level[5];
} ckm_i_features;

ckm_i_features ckm_i_zoo_encode_plain(ckm_i_zoo *z);
ckm_i_features ckm_i_zoo_encode_vgg(ckm_i_zoo *z);
ckm_i_features ckm_i_zoo_encode_mobilenet(ckm_i_zoo *z);
ckm_i_features ckm_i_zoo_encode_resnet50(ckm_i_zoo *z);

// The variant names the encoder.
enum { CKM_I_ENCODER_PLAIN, CKM_I_ENCODER_VGG, CKM_I_ENCODER_MOBILENET, CKM_I_ENCODER_RESNET50 };
ckm_i_layer ckm_i_zoo_unet(ckm_i_zoo *z, int32_t encoder);
ckm_i_layer ckm_i_zoo_segnet(ckm_i_zoo *z, int32_t encoder);
ckm_i_layer ckm_i_zoo_fcn_8(ckm_i_zoo *z, int32_t encoder);
ckm_i_layer ckm_i_zoo_fcn_32(ckm_i_zoo *z, int32_t encoder);
ckm_i_layer ckm_i_zoo_pspnet(ckm_i_zoo *z, int32_t encoder);
ckm_i_layer ckm_i_zoo_unet_mini(ckm_i_zoo *z, int32_t unused);

#endif
