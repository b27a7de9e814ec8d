// SPDX-License-Identifier: Apache-2.0
// The registry of networks: one row each.
#include <checkmate/zoo.h>

#include <string.h>

#include "base/error.h"
#include "zoo/zoo_networks.h"

typedef struct zoo_entry {
    const char *name;
    ckm_i_zoo_network build;
    int32_t variant;
    int64_t input_shape[3];  // height, width, channels
} zoo_entry;

// clang-format off
#define PHOTO { 224, 224, 3 }
#define STREET { 416, 608, 3 }
#define PYRAMID { 384, 576, 3 }
#define LINEAR(n) { "linear" #n, ckm_i_zoo_linear, n, PHOTO }

static const zoo_entry networks[] = {
    LINEAR(0),  LINEAR(1),  LINEAR(2),  LINEAR(3),  LINEAR(4),  LINEAR(5),  LINEAR(6),  LINEAR(7),
    LINEAR(8),  LINEAR(9),  LINEAR(10), LINEAR(11), LINEAR(12), LINEAR(13), LINEAR(14), LINEAR(15),
    LINEAR(16), LINEAR(17), LINEAR(18), LINEAR(19), LINEAR(20), LINEAR(21), LINEAR(22), LINEAR(23),
    LINEAR(24), LINEAR(25), LINEAR(26), LINEAR(27), LINEAR(28), LINEAR(29), LINEAR(30), LINEAR(31),
    { "test",             ckm_i_zoo_test,          0,                       PHOTO },
    { "VGG16",            ckm_i_zoo_vgg,           16,                      PHOTO },
    { "VGG19",            ckm_i_zoo_vgg,           19,                      PHOTO },
    { "MobileNet",        ckm_i_zoo_mobilenet,     0,                       PHOTO },
    { "ResNet50",         ckm_i_zoo_resnet,        50,                      PHOTO },
    { "ResNet101",        ckm_i_zoo_resnet,        101,                     PHOTO },
    { "ResNet152",        ckm_i_zoo_resnet,        152,                     PHOTO },
    { "MobileNetV2",      ckm_i_zoo_mobilenet_v2,  0,                       PHOTO },
    { "ResNet50V2",       ckm_i_zoo_resnet_v2,     50,                      PHOTO },
    { "ResNet101V2",      ckm_i_zoo_resnet_v2,     101,                     PHOTO },
    { "ResNet152V2",      ckm_i_zoo_resnet_v2,     152,                     PHOTO },
    { "DenseNet121",      ckm_i_zoo_densenet,      121,                     PHOTO },
    { "DenseNet169",      ckm_i_zoo_densenet,      169,                     PHOTO },
    { "DenseNet201",      ckm_i_zoo_densenet,      201,                     PHOTO },
    { "Xception",         ckm_i_zoo_xception,      0,                       { 299, 299, 3 } },
    { "InceptionV3",      ckm_i_zoo_inception,     0,                       { 299, 299, 3 } },
    { "NASNetMobile",     ckm_i_zoo_nasnet,        0,                       PHOTO },
    { "NASNetLarge",      ckm_i_zoo_nasnet,        1,                       { 331, 331, 3 } },
    { "unet_mini",        ckm_i_zoo_unet_mini,     0,                       { 360, 480, 3 } },
    { "unet",             ckm_i_zoo_unet,          CKM_I_ENCODER_PLAIN,     STREET },
    { "vgg_unet",         ckm_i_zoo_unet,          CKM_I_ENCODER_VGG,       STREET },
    { "mobilenet_unet",   ckm_i_zoo_unet,          CKM_I_ENCODER_MOBILENET, PHOTO },
    { "resnet50_unet",    ckm_i_zoo_unet,          CKM_I_ENCODER_RESNET50,  STREET },
    { "segnet",           ckm_i_zoo_segnet,        CKM_I_ENCODER_PLAIN,     STREET },
    { "vgg_segnet",       ckm_i_zoo_segnet,        CKM_I_ENCODER_VGG,       STREET },
    { "mobilenet_segnet", ckm_i_zoo_segnet,        CKM_I_ENCODER_MOBILENET, PHOTO },
    { "resnet50_segnet",  ckm_i_zoo_segnet,        CKM_I_ENCODER_RESNET50,  STREET },
    { "fcn_8",            ckm_i_zoo_fcn_8,         CKM_I_ENCODER_PLAIN,     STREET },
    { "fcn_8_vgg",        ckm_i_zoo_fcn_8,         CKM_I_ENCODER_VGG,       STREET },
    { "fcn_8_mobilenet",  ckm_i_zoo_fcn_8,         CKM_I_ENCODER_MOBILENET, PHOTO },
    { "fcn_8_resnet50",   ckm_i_zoo_fcn_8,         CKM_I_ENCODER_RESNET50,  STREET },
    { "fcn_32",           ckm_i_zoo_fcn_32,        CKM_I_ENCODER_PLAIN,     STREET },
    { "fcn_32_vgg",       ckm_i_zoo_fcn_32,        CKM_I_ENCODER_VGG,       STREET },
    { "fcn_32_mobilenet", ckm_i_zoo_fcn_32,        CKM_I_ENCODER_MOBILENET, PHOTO },
    { "fcn_32_resnet50",  ckm_i_zoo_fcn_32,        CKM_I_ENCODER_RESNET50,  STREET },
    { "pspnet",           ckm_i_zoo_pspnet,        CKM_I_ENCODER_PLAIN,     PYRAMID },
    { "vgg_pspnet",       ckm_i_zoo_pspnet,        CKM_I_ENCODER_VGG,       PYRAMID },
    { "resnet50_pspnet",  ckm_i_zoo_pspnet,        CKM_I_ENCODER_RESNET50,  PYRAMID },
    { "pspnet_50",        ckm_i_zoo_pspnet_resnet, 50,                      { 473, 473, 3 } },
    { "pspnet_101",       ckm_i_zoo_pspnet_resnet, 101,                     { 473, 473, 3 } },
};
// clang-format on

int32_t ckm_zoo_count(void)
{
    return (int32_t)(sizeof networks / sizeof networks[0]);
}

const char *ckm_zoo_name(int32_t i)
{
    return i >= 0 && i < ckm_zoo_count() ? networks[i].name : NULL;
}

static ckm_status check_sizes(const char *name, int64_t batch, const int64_t shape[3], ckm_error *err)
{
    static const char *const axes[] = {"height", "width", "number of channels"};
    if (batch < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: the batch is %lld; it must be at least 1", name,
                           (long long)batch);
    }
    for (int i = 0; i < 3; i++) {
        if (shape[i] < 1) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: the input's %s is %lld; it must be at least 1", name,
                               axes[i], (long long)shape[i]);
        }
    }
    return CKM_OK;
}

ckm_status ckm_zoo_build(const char *name, int64_t batch, const int64_t input_shape[3], ckm_graph **out, ckm_error *err)
{
    const zoo_entry *entry = NULL;
    for (int32_t i = 0; i < ckm_zoo_count() && entry == NULL; i++) {
        entry = strcmp(networks[i].name, name) == 0 ? &networks[i] : NULL;
    }
    if (entry == NULL) {
        return ckm_i_error(err, CKM_ERR_NOT_FOUND, "no network is called \"%.100s\"", name);
    }
    const int64_t *shape = input_shape != NULL ? input_shape : entry->input_shape;
    ckm_i_zoo *z = NULL;
    ckm_status status;
    CKM_I_TRY(check_sizes(entry->name, batch, shape, err));
    CKM_I_TRY(ckm_i_zoo_create(entry->name, batch, shape, &z, err));
    CKM_I_TRY(ckm_i_zoo_finish(z, entry->build(z, entry->variant), out, err));
cleanup:
    ckm_i_zoo_free(z);
    return status;
}
