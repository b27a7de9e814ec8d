// SPDX-License-Identifier: Apache-2.0
// Segmentation networks: U-Net (Ronneberger et al. 2015), SegNet (Badrinarayanan et al. 2015), FCN-8 and FCN-32
// (Long et al. 2014), PSPNet (Zhao et al. 2016) on an encoder, for the 19 classes of Cityscapes, as in
// keras_segmentation.
#include <stdio.h>

#include "zoo/zoo_networks.h"

static const ckm_i_border border_1 = {1, 1, 1, 1};

static ckm_i_features encode(ckm_i_zoo *z, int32_t encoder)
{
    switch (encoder) {
    case CKM_I_ENCODER_VGG:
        return ckm_i_zoo_encode_vgg(z);
    case CKM_I_ENCODER_MOBILENET:
        return ckm_i_zoo_encode_mobilenet(z);
    case CKM_I_ENCODER_RESNET50:
        return ckm_i_zoo_encode_resnet50(z);
    default:
        return ckm_i_zoo_encode_plain(z);
    }
}

static ckm_i_layer padded_conv(ckm_i_zoo *z, ckm_i_layer x, int64_t filters)
{
    x = ckm_i_zoo_zero_padding(z, x, NULL, border_1);
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.filters = filters, .kernel = {3}});
    return ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){0});
}

ckm_i_features ckm_i_zoo_encode_plain(ckm_i_zoo *z)
{
    static const int64_t filters[5] = {64, 128, 256, 256, 256};
    ckm_i_features f;
    ckm_i_layer x = CKM_I_ZOO_INPUT;
    for (int i = 0; i < 5; i++) {
        x = padded_conv(z, x, filters[i]);
        x = ckm_i_zoo_activation(z, x, NULL, "relu");
        x = ckm_i_zoo_max_pool(z, x, (ckm_i_pool){.size = {2}});
        f.level[i] = x;
    }
    return f;
}

// Class probabilities of every pixel.
static ckm_i_layer classify(ckm_i_zoo *z, ckm_i_layer x)
{
    int64_t pixels = -1;  // inferred
    x = ckm_i_zoo_reshape(z, x, NULL, (const int64_t[]){pixels, ckm_i_zoo_classes(z)}, 2);
    return ckm_i_zoo_activation(z, x, NULL, "softmax");
}

// Three steps up from the fourth level, each joined with the encoder's map of the same size if `skip`.
static ckm_i_layer climb(ckm_i_zoo *z, const ckm_i_features *f, bool skip)
{
    static const int64_t filters[3] = {256, 128, 64};
    ckm_i_layer x = padded_conv(z, f->level[3], 512);
    for (int i = 0; i < 3; i++) {
        x = ckm_i_zoo_up_sampling(z, x, NULL, 2);
        if (skip) {
            x = ckm_i_zoo_concat(z, NULL, (const ckm_i_layer[]){x, f->level[2 - i]}, 2);
        }
        x = padded_conv(z, x, filters[i]);
    }
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.filters = ckm_i_zoo_classes(z), .kernel = {3}, .padding = "same"});
    return classify(z, x);
}

ckm_i_layer ckm_i_zoo_unet(ckm_i_zoo *z, int32_t encoder)
{
    ckm_i_features f = encode(z, encoder);
    return climb(z, &f, true);
}

ckm_i_layer ckm_i_zoo_segnet(ckm_i_zoo *z, int32_t encoder)
{
    ckm_i_features f = encode(z, encoder);
    return climb(z, &f, false);
}

// Crops the wider of a and b to the width of the other, then the higher to the other's height; where they
// agree b gets a cropping of nothing.
static void crop_alike(ckm_i_zoo *z, ckm_i_layer *a, ckm_i_layer *b)
{
    int64_t columns = ckm_i_zoo_width(z, *a) - ckm_i_zoo_width(z, *b);
    int64_t rows = ckm_i_zoo_height(z, *a) - ckm_i_zoo_height(z, *b);
    ckm_i_layer *wide = columns > 0 ? a : b;
    *wide = ckm_i_zoo_cropping(z, *wide, NULL, (ckm_i_border){.right = columns > 0 ? columns : -columns});
    ckm_i_layer *high = rows > 0 ? a : b;
    *high = ckm_i_zoo_cropping(z, *high, NULL, (ckm_i_border){.bottom = rows > 0 ? rows : -rows});
}

static ckm_i_layer scores(ckm_i_zoo *z, ckm_i_layer x)
{
    return ckm_i_zoo_conv(z, x, (ckm_i_conv){.filters = ckm_i_zoo_classes(z)});
}

static ckm_i_layer enlarge(ckm_i_zoo *z, ckm_i_layer x, int64_t kernel, int64_t stride)
{
    return ckm_i_zoo_conv_transpose(
        z, x, (ckm_i_conv){.filters = ckm_i_zoo_classes(z), .kernel = {kernel}, .strides = {stride}, .no_bias = true});
}

// The classifier of VGG as convolutions.
static ckm_i_layer convolved_classifier(ckm_i_zoo *z, ckm_i_layer x)
{
    static const int64_t kernels[2] = {7, 1};
    for (int i = 0; i < 2; i++) {
        x = ckm_i_zoo_conv(
            z, x, (ckm_i_conv){.filters = 4096, .kernel = {kernels[i]}, .padding = "same", .activation = "relu"});
        x = ckm_i_zoo_dropout(z, x, NULL, 0.5);
    }
    return scores(z, x);
}

ckm_i_layer ckm_i_zoo_fcn_8(ckm_i_zoo *z, int32_t encoder)
{
    ckm_i_features f = encode(z, encoder);
    ckm_i_layer x = convolved_classifier(z, f.level[4]);

    x = enlarge(z, x, 4, 2);
    ckm_i_layer fine = scores(z, f.level[3]);
    crop_alike(z, &x, &fine);
    x = ckm_i_zoo_add_layers(z, NULL, (const ckm_i_layer[]){x, fine}, 2);

    x = enlarge(z, x, 4, 2);
    fine = scores(z, f.level[2]);
    crop_alike(z, &fine, &x);
    x = ckm_i_zoo_add_layers(z, NULL, (const ckm_i_layer[]){fine, x}, 2);

    return classify(z, enlarge(z, x, 16, 8));
}

ckm_i_layer ckm_i_zoo_fcn_32(ckm_i_zoo *z, int32_t encoder)
{
    ckm_i_features f = encode(z, encoder);
    return classify(z, enlarge(z, convolved_classifier(z, f.level[4]), 64, 32));
}

// ---- PSPNet

static ckm_i_layer pointwise(ckm_i_zoo *z, ckm_i_layer x, const char *padding)
{
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.filters = 512, .padding = padding, .no_bias = true});
    x = ckm_i_zoo_batch_norm(z, x, (ckm_i_batch_norm){0});
    return ckm_i_zoo_activation(z, x, NULL, "relu");
}

// Bilinear interpolation to `rows` and `columns` times the size.
static ckm_i_layer stretch(ckm_i_zoo *z, ckm_i_layer x, int64_t rows, int64_t columns)
{
    char text[80];
    int64_t dims[3] = {rows * ckm_i_zoo_height(z, x), columns * ckm_i_zoo_width(z, x), ckm_i_zoo_channels(z, x)};
    snprintf(text, sizeof text, "resize_images(%lld,%lld,bilinear)", (long long)rows, (long long)columns);
    return ckm_i_zoo_lambda(z, x, NULL, text, dims);
}

// The mean over a grid of bins x bins cells, at the size of `x` again.
static ckm_i_layer pyramid_level(ckm_i_zoo *z, ckm_i_layer x, int64_t bins)
{
    int64_t rows = ckm_i_zoo_height(z, x) / bins;
    int64_t columns = ckm_i_zoo_width(z, x) / bins;
    if (rows < 1 || columns < 1) {
        return ckm_i_zoo_fail(z, "average_pooling2d: %lld x %lld positions are too few for a grid of %lld x %lld",
                              (long long)ckm_i_zoo_height(z, x), (long long)ckm_i_zoo_width(z, x), (long long)bins,
                              (long long)bins);
    }
    ckm_i_layer y = ckm_i_zoo_average_pool(
        z, x, (ckm_i_pool){.size = {rows, columns}, .strides = {rows, columns}, .padding = "same"});
    return stretch(z, pointwise(z, y, "same"), rows, columns);
}

ckm_i_layer ckm_i_zoo_pspnet(ckm_i_zoo *z, int32_t encoder)
{
    static const int64_t bins[4] = {1, 2, 3, 6};
    ckm_i_features f = encode(z, encoder);
    ckm_i_layer levels[5] = {f.level[4]};
    for (int i = 0; i < 4; i++) {
        levels[i + 1] = pyramid_level(z, f.level[4], bins[i]);
    }
    ckm_i_layer x = pointwise(z, ckm_i_zoo_concat(z, NULL, levels, 5), NULL);
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.filters = ckm_i_zoo_classes(z), .kernel = {3}, .padding = "same"});
    return classify(z, stretch(z, x, 8, 8));
}

// ---- A small U-Net without a separate encoder

static ckm_i_layer conv_dropout_conv(ckm_i_zoo *z, ckm_i_layer x, int64_t filters)
{
    ckm_i_conv c = {.filters = filters, .kernel = {3}, .padding = "same", .activation = "relu"};
    x = ckm_i_zoo_conv(z, x, c);
    x = ckm_i_zoo_dropout(z, x, NULL, 0.2);
    return ckm_i_zoo_conv(z, x, c);
}

ckm_i_layer ckm_i_zoo_unet_mini(ckm_i_zoo *z, int32_t unused)
{
    (void)unused;
    ckm_i_layer fine = conv_dropout_conv(z, CKM_I_ZOO_INPUT, 32);
    ckm_i_layer middle = conv_dropout_conv(z, ckm_i_zoo_max_pool(z, fine, (ckm_i_pool){.size = {2}}), 64);
    ckm_i_layer x = conv_dropout_conv(z, ckm_i_zoo_max_pool(z, middle, (ckm_i_pool){.size = {2}}), 128);
    x = ckm_i_zoo_up_sampling(z, x, NULL, 2);
    x = conv_dropout_conv(z, ckm_i_zoo_concat(z, NULL, (const ckm_i_layer[]){x, middle}, 2), 64);
    x = ckm_i_zoo_up_sampling(z, x, NULL, 2);
    x = conv_dropout_conv(z, ckm_i_zoo_concat(z, NULL, (const ckm_i_layer[]){x, fine}, 2), 32);
    return classify(z, ckm_i_zoo_conv(z, x, (ckm_i_conv){.filters = ckm_i_zoo_classes(z), .padding = "same"}));
}
