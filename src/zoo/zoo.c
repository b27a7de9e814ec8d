// SPDX-License-Identifier: Apache-2.0
// The registry of networks: one row each, in groups.
#include <checkmate/zoo.h>

#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "zoo/zoo_networks.h"

typedef struct zoo_entry {
    const char *name;
    ckm_i_zoo_network build;
    int32_t variant;
    ckm_zoo_size size;  // as published; 0: the network has no such number
} zoo_entry;

// clang-format off
#define IMAGE(h, w) .height = (h), .width = (w), .channels = 3
#define IMAGENET(h, w) { IMAGE(h, w), .classes = 1000 }
#define CITYSCAPES(h, w) { IMAGE(h, w), .classes = 19 }
#define PHOTO IMAGENET(224, 224)
#define STREET CITYSCAPES(416, 608)
#define PYRAMID CITYSCAPES(384, 576)
#define LINEAR(n) { "linear" #n, ckm_i_zoo_linear, n, PHOTO }
#define TEXT(length, width, layers, n_heads, words) \
    { .sequence_length = (length), .model_width = (width), .depth = (layers), .heads = (n_heads), .vocabulary = (words) }
#define VISION(side, w, layers, n_heads) \
    { IMAGE(side, side), .model_width = (w), .depth = (layers), .heads = (n_heads), .classes = 1000 }
#define NOISE(side, w, layers, n_heads) \
    { IMAGE(side, side), .model_width = (w), .depth = (layers), .heads = (n_heads) }

static const zoo_entry classifiers[] = {
    { "VGG16",            ckm_i_zoo_vgg,           16,                      PHOTO },
    { "VGG19",            ckm_i_zoo_vgg,           19,                      PHOTO },
    { "MobileNet",        ckm_i_zoo_mobilenet,     0,                       PHOTO },
    { "ResNet18",         ckm_i_zoo_resnet_basic,  18,                      PHOTO },
    { "ResNet34",         ckm_i_zoo_resnet_basic,  34,                      PHOTO },
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
    { "Xception",         ckm_i_zoo_xception,      0,                       IMAGENET(299, 299) },
    { "InceptionV3",      ckm_i_zoo_inception,     0,                       IMAGENET(299, 299) },
    { "NASNetMobile",     ckm_i_zoo_nasnet,        0,                       PHOTO },
    { "NASNetLarge",      ckm_i_zoo_nasnet,        1,                       IMAGENET(331, 331) },
};

static const zoo_entry segmenters[] = {
    { "unet_mini",        ckm_i_zoo_unet_mini,     0,                       CITYSCAPES(360, 480) },
    { "unet",             ckm_i_zoo_unet,          CKM_I_ENCODER_PLAIN,     STREET },
    { "vgg_unet",         ckm_i_zoo_unet,          CKM_I_ENCODER_VGG,       STREET },
    { "mobilenet_unet",   ckm_i_zoo_unet,          CKM_I_ENCODER_MOBILENET, CITYSCAPES(224, 224) },
    { "resnet50_unet",    ckm_i_zoo_unet,          CKM_I_ENCODER_RESNET50,  STREET },
    { "segnet",           ckm_i_zoo_segnet,        CKM_I_ENCODER_PLAIN,     STREET },
    { "vgg_segnet",       ckm_i_zoo_segnet,        CKM_I_ENCODER_VGG,       STREET },
    { "mobilenet_segnet", ckm_i_zoo_segnet,        CKM_I_ENCODER_MOBILENET, CITYSCAPES(224, 224) },
    { "resnet50_segnet",  ckm_i_zoo_segnet,        CKM_I_ENCODER_RESNET50,  STREET },
    { "fcn_8",            ckm_i_zoo_fcn_8,         CKM_I_ENCODER_PLAIN,     STREET },
    { "fcn_8_vgg",        ckm_i_zoo_fcn_8,         CKM_I_ENCODER_VGG,       STREET },
    { "fcn_8_mobilenet",  ckm_i_zoo_fcn_8,         CKM_I_ENCODER_MOBILENET, CITYSCAPES(224, 224) },
    { "fcn_8_resnet50",   ckm_i_zoo_fcn_8,         CKM_I_ENCODER_RESNET50,  STREET },
    { "fcn_32",           ckm_i_zoo_fcn_32,        CKM_I_ENCODER_PLAIN,     STREET },
    { "fcn_32_vgg",       ckm_i_zoo_fcn_32,        CKM_I_ENCODER_VGG,       STREET },
    { "fcn_32_mobilenet", ckm_i_zoo_fcn_32,        CKM_I_ENCODER_MOBILENET, CITYSCAPES(224, 224) },
    { "fcn_32_resnet50",  ckm_i_zoo_fcn_32,        CKM_I_ENCODER_RESNET50,  STREET },
    { "pspnet",           ckm_i_zoo_pspnet,        CKM_I_ENCODER_PLAIN,     PYRAMID },
    { "vgg_pspnet",       ckm_i_zoo_pspnet,        CKM_I_ENCODER_VGG,       PYRAMID },
    { "resnet50_pspnet",  ckm_i_zoo_pspnet,        CKM_I_ENCODER_RESNET50,  PYRAMID },
    { "pspnet_50",        ckm_i_zoo_pspnet_resnet, 50,                      CITYSCAPES(473, 473) },
    { "pspnet_101",       ckm_i_zoo_pspnet_resnet, 101,                     CITYSCAPES(473, 473) },
};

static const zoo_entry language[] = {
    { "GPT2",           ckm_i_zoo_gpt2,  0,                TEXT(1024, 768, 12, 12, 50257) },
    { "GPT2-medium",    ckm_i_zoo_gpt2,  0,                TEXT(1024, 1024, 24, 16, 50257) },
    { "GPT2-large",     ckm_i_zoo_gpt2,  0,                TEXT(1024, 1280, 36, 20, 50257) },
    { "GPT2-XL",        ckm_i_zoo_gpt2,  0,                TEXT(1024, 1600, 48, 25, 50257) },
    { "TinyLlama-1.1B", ckm_i_zoo_llama, CKM_I_LLAMA_TINY, TEXT(2048, 2048, 22, 32, 32000) },
    { "Llama-2-7B",     ckm_i_zoo_llama, CKM_I_LLAMA_2_7B, TEXT(4096, 4096, 32, 32, 32000) },
    { "Llama-3.2-1B",   ckm_i_zoo_llama, CKM_I_LLAMA_3_1B, TEXT(8192, 2048, 16, 32, 128256) },
    { "Llama-3.2-3B",   ckm_i_zoo_llama, CKM_I_LLAMA_3_3B, TEXT(8192, 3072, 28, 24, 128256) },
    { "Llama-3.1-8B",   ckm_i_zoo_llama, CKM_I_LLAMA_3_8B, TEXT(8192, 4096, 32, 32, 128256) },
    { "BERT-base",      ckm_i_zoo_bert,  0,                TEXT(512, 768, 12, 12, 30522) },
    { "BERT-large",     ckm_i_zoo_bert,  0,                TEXT(512, 1024, 24, 16, 30522) },
};

static const zoo_entry vision[] = {
    { "ViT-B16",    ckm_i_zoo_vit,      16, VISION(224, 768, 12, 12) },
    { "ViT-L16",    ckm_i_zoo_vit,      16, VISION(224, 1024, 24, 16) },
    { "ConvNeXt-T", ckm_i_zoo_convnext, 3,  VISION(224, 96, 18, 0) },
    { "ConvNeXt-S", ckm_i_zoo_convnext, 9,  VISION(224, 96, 36, 0) },
    { "ConvNeXt-B", ckm_i_zoo_convnext, 9,  VISION(224, 128, 36, 0) },
    { "Swin-T",     ckm_i_zoo_swin,     3,  VISION(224, 96, 12, 3) },
    { "Swin-S",     ckm_i_zoo_swin,     9,  VISION(224, 96, 24, 3) },
    { "Swin-B",     ckm_i_zoo_swin,     9,  VISION(224, 128, 24, 4) },
};

static const zoo_entry diffusion[] = {
    { "DDPM-CIFAR10", ckm_i_zoo_ddpm, CKM_I_DDPM_CIFAR10, NOISE(32, 128, 2, 1) },
    { "DDPM-256",     ckm_i_zoo_ddpm, CKM_I_DDPM_256,     NOISE(256, 128, 2, 1) },
};

static const zoo_entry chains[] = {
    LINEAR(0),  LINEAR(1),  LINEAR(2),  LINEAR(3),  LINEAR(4),  LINEAR(5),  LINEAR(6),  LINEAR(7),
    LINEAR(8),  LINEAR(9),  LINEAR(10), LINEAR(11), LINEAR(12), LINEAR(13), LINEAR(14), LINEAR(15),
    LINEAR(16), LINEAR(17), LINEAR(18), LINEAR(19), LINEAR(20), LINEAR(21), LINEAR(22), LINEAR(23),
    LINEAR(24), LINEAR(25), LINEAR(26), LINEAR(27), LINEAR(28), LINEAR(29), LINEAR(30), LINEAR(31),
    { "test",             ckm_i_zoo_test,          0,                       PHOTO },
};
// clang-format on

typedef struct zoo_group {
    const char *title;
    const zoo_entry *entries;
    int32_t n;
} zoo_group;

#define GROUP(title, entries)                                           \
    {                                                                   \
        title, entries, (int32_t)(sizeof(entries) / sizeof(entries)[0]) \
    }
static const zoo_group groups[] = {
    GROUP("Image classification", classifiers),
    GROUP("Segmentation", segmenters),
    GROUP("Language", language),
    GROUP("Today's image classification", vision),
    GROUP("Diffusion", diffusion),
    GROUP("Chains for experiments", chains),
};

// Network i and the group it belongs to; NULL beyond the last.
static const zoo_entry *entry_at(int32_t i, const zoo_group **group)
{
    for (size_t g = 0; i >= 0 && g < sizeof groups / sizeof groups[0]; i -= groups[g++].n) {
        if (i < groups[g].n) {
            *group = &groups[g];
            return &groups[g].entries[i];
        }
    }
    return NULL;
}

int32_t ckm_zoo_count(void)
{
    int32_t n = 0;
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        n += groups[g].n;
    }
    return n;
}

const char *ckm_zoo_name(int32_t i)
{
    const zoo_group *group;
    const zoo_entry *entry = entry_at(i, &group);
    return entry != NULL ? entry->name : NULL;
}

const char *ckm_zoo_group(int32_t i)
{
    const zoo_group *group;
    return entry_at(i, &group) != NULL ? group->title : NULL;
}

// The network called `name`, or NULL.
static const zoo_entry *find_entry(const char *name)
{
    const zoo_group *group;
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        const zoo_entry *entry = entry_at(i, &group);
        if (strcmp(entry->name, name) == 0) {
            return entry;
        }
    }
    return NULL;
}

int64_t ckm_zoo_classes(const char *name)
{
    const zoo_entry *entry = name != NULL ? find_entry(name) : NULL;
    return entry != NULL ? entry->size.classes : 0;
}

int64_t ckm_zoo_vocabulary(const char *name)
{
    const zoo_entry *entry = name != NULL ? find_entry(name) : NULL;
    return entry != NULL ? entry->size.vocabulary : 0;
}

static ckm_status at_least_one(const char *name, const char *what, int64_t value, ckm_error *err)
{
    return value >= 1 ? CKM_OK
                      : ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: %s is %lld; it must be at least 1", name, what,
                                    (long long)value);
}

// The image given in place of the network's own.
static ckm_status choose_image(const char *name, const int64_t image[3], ckm_zoo_size *size, ckm_error *err)
{
    static const char *const axes[] = {"the input's height", "the input's width", "the input's number of channels"};
    if (size->height == 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s reads a text: it has a sequence length, not an input shape",
                           name);
    }
    for (int i = 0; i < 3; i++) {
        CKM_I_CHECK(at_least_one(name, axes[i], image[i], err));
    }
    size->height = image[0];
    size->width = image[1];
    size->channels = image[2];
    return CKM_OK;
}

// Every other number that is given in place of the network's own.
static ckm_status choose_numbers(const char *name, const ckm_zoo_size *given, ckm_zoo_size *size, ckm_error *err)
{
    const struct {
        const char *what, *subject;
        int64_t given, *own;
    } numbers[] = {
        {"sequence length", "the sequence length", given->sequence_length, &size->sequence_length},
        {"width", "the width", given->model_width, &size->model_width},
        {"depth", "the depth", given->depth, &size->depth},
        {"number of heads", "the number of heads", given->heads, &size->heads},
        {"vocabulary", "the vocabulary", given->vocabulary, &size->vocabulary},
        {"number of classes", "the number of classes", given->classes, &size->classes},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].given == 0) {
            continue;
        }
        if (*numbers[i].own == 0) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s has no %s to choose", name, numbers[i].what);
        }
        CKM_I_CHECK(at_least_one(name, numbers[i].subject, numbers[i].given, err));
        *numbers[i].own = numbers[i].given;
    }
    if (size->heads > 0 && size->model_width % size->heads != 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "%s: a width of %lld does not divide into %lld heads", name,
                           (long long)size->model_width, (long long)size->heads);
    }
    return CKM_OK;
}

static ckm_status build(const char *name, int64_t batch, const int64_t image[3], const ckm_zoo_size *given,
                        ckm_graph **out, ckm_error *err)
{
    const zoo_entry *entry = find_entry(name);
    if (entry == NULL) {
        return ckm_i_error(err, CKM_ERR_NOT_FOUND, "no network is called \"%.100s\"", name);
    }
    ckm_zoo_size size = entry->size;
    ckm_i_zoo *z = NULL;
    ckm_status status;
    CKM_I_TRY(at_least_one(entry->name, "the batch", batch, err));
    if (image != NULL) {
        CKM_I_TRY(choose_image(entry->name, image, &size, err));
    }
    CKM_I_TRY(choose_numbers(entry->name, given, &size, err));
    CKM_I_TRY(ckm_i_zoo_create(entry->name, batch, &size, &z, err));
    CKM_I_TRY(ckm_i_zoo_finish(z, entry->build(z, entry->variant), out, err));
cleanup:
    ckm_i_zoo_free(z);
    return status;
}

ckm_status ckm_zoo_build(const char *name, int64_t batch, const int64_t input_shape[3], ckm_graph **out, ckm_error *err)
{
    CKM_I_NEED(name, err);
    CKM_I_NEED(out, err);
    return build(name, batch, input_shape, &(ckm_zoo_size)CKM_ZOO_SIZE_INIT, out, err);
}

ckm_status ckm_zoo_build_sized(const char *name, int64_t batch, const ckm_zoo_size *size, ckm_graph **out,
                               ckm_error *err)
{
    CKM_I_NEED(name, err);
    CKM_I_NEED(size, err);
    CKM_I_NEED(out, err);
    ckm_zoo_size own = CKM_ZOO_SIZE_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_zoo_size, &own, vocabulary, size, err));
    const int64_t image[3] = {own.height, own.width, own.channels};
    bool any = own.height != 0 || own.width != 0 || own.channels != 0;
    return build(name, batch, any ? image : NULL, &own, out, err);
}
