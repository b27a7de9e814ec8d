// SPDX-License-Identifier: Apache-2.0
// The zoo: totals of every family against the published numbers, the order of layers, input shapes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/zoo.h>

#include "zoo/zoo_builder.h"

static const ckm_zoo_size small = {.height = 4, .width = 4, .channels = 2};

static ckm_graph *build(const char *name, int64_t batch, const int64_t *shape)
{
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_zoo_build(name, batch, shape, &g, &err) != CKM_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    return g;
}

static ckm_shape output_shape(const ckm_graph *g, int32_t op)
{
    return ckm_graph_get_tensor(g, ckm_graph_get_op(g, op).outputs[0]).shape;
}

static void assert_shape(const ckm_graph *g, int32_t op, const char *want)
{
    char text[128];
    ckm_shape shape = output_shape(g, op);
    assert_string_equal(ckm_i_shape_text(&shape, text, sizeof text), want);
}

static int32_t find(const ckm_graph *g, const char *layer)
{
    for (int32_t i = 0; i < ckm_graph_op_count(g); i++) {
        if (strcmp(ckm_graph_get_op(g, i).name, layer) == 0) {
            return i;
        }
    }
    fail_msg("%s has no layer %s", ckm_graph_name(g), layer);
    return -1;
}

static void networks_have_their_published_size(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int32_t layers;
        int64_t trained, kept;
        const char *output;
    } known[] = {
        {"linear0", 2, 4000, 0, "1x1000"},
        {"linear1", 3, 66728, 0, "1x1000"},
        {"linear31", 33, 1172648, 0, "1x1000"},
        {"test", 6, 147432, 0, "1x1000"},
        {"VGG16", 22, 138357544, 0, "1x1000"},
        {"VGG19", 25, 143667240, 0, "1x1000"},
        {"MobileNet", 92, 4231976, 21888, "1x1000"},
        // As published for torchvision, running statistics kept: two for every channel that is normalized.
        {"ResNet18", 73, 11689512, 9600, "1x1000"},
        {"ResNet34", 129, 21797672, 17024, "1x1000"},
        {"ResNet50", 176, 25583592, 53120, "1x1000"},
        {"ResNet101", 346, 44601832, 105344, "1x1000"},
        {"ResNet152", 516, 60268520, 151424, "1x1000"},
        {"MobileNetV2", 156, 3504872, 34112, "1x1000"},
        {"ResNet50V2", 191, 25568360, 45440, "1x1000"},
        {"ResNet152V2", 565, 60236904, 143744, "1x1000"},
        {"DenseNet121", 428, 7978856, 83648, "1x1000"},
        {"DenseNet201", 708, 20013928, 229056, "1x1000"},
        {"NASNetMobile", 770, 5289978, 36738, "1x1000"},
        {"NASNetLarge", 1040, 88753150, 196668, "1x1000"},
        {"Xception", 133, 22855952, 54528, "1x1000"},
        {"InceptionV3", 312, 23817352, 34432, "1x1000"},
        {"unet_mini", 24, 472147, 0, "1x172800x19"},
        {"mobilenet_unet", 102, 6308691, 16640, "1x12544x19"},
        {"resnet50_unet", 164, 16350739, 32512, "1x63232x19"},
        {"fcn_32_resnet50", 181, 452918291, 53120, "1x286720x19"},
        {"pspnet", 53, 3349523, 7040, "1x13824x19"},
        {"pspnet_50", 224, 46715347, 58624, "1x223729x19"},
        {"unet", 41, 4478227, 3328, "1x63232x19"},
        {"vgg_unet", 35, 12330835, 1920, "1x63232x19"},
        {"segnet", 38, 3704083, 3328, "1x63232x19"},
        {"vgg_segnet", 32, 11556691, 1920, "1x63232x19"},
        {"fcn_8", 43, 69910105, 1920, "1x261184x19"},
        {"fcn_8_vgg", 36, 134456985, 0, "1x261184x19"},
        // Today's: the published counts, position tables and tied embeddings included.
        {"GPT2", 268, 124439808, 0, "1x1024x50257"},
        {"GPT2-medium", 532, 354823168, 0, "1x1024x50257"},
        {"GPT2-large", 796, 774030080, 0, "1x1024x50257"},
        {"GPT2-XL", 1060, 1557611200, 0, "1x1024x50257"},
        {"TinyLlama-1.1B", 685, 1100048384, 0, "1x2048x32000"},
        {"Llama-2-7B", 867, 6738415616, 0, "1x4096x32000"},
        {"Llama-3.2-1B", 499, 1235814400, 0, "1x8192x128256"},
        {"Llama-3.2-3B", 871, 3212749824, 0, "1x8192x128256"},
        {"Llama-3.1-8B", 995, 8030261248, 0, "1x8192x128256"},
        {"BERT-base", 322, 109514298, 0, "1x512x30522"},
        {"BERT-large", 634, 335174458, 0, "1x512x30522"},
        {"ViT-B16", 273, 86567656, 0, "1x1000"},
        {"ViT-L16", 537, 304326632, 0, "1x1000"},
        {"ConvNeXt-T", 137, 28589128, 0, "1x1000"},
        {"ConvNeXt-S", 263, 50223688, 0, "1x1000"},
        {"ConvNeXt-B", 263, 88591464, 0, "1x1000"},
        {"Swin-T", 390, 28288354, 0, "1x1000"},
        {"Swin-S", 762, 49606258, 0, "1x1000"},
        {"Swin-B", 762, 87768224, 0, "1x1000"},
        {"DDPM-CIFAR10", 405, 35746307, 0, "1x32x32x3"},
        {"DDPM-256", 502, 113673219, 0, "1x256x256x3"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ckm_graph *g = build(known[i].name, 1, NULL);
        assert_string_equal(ckm_graph_name(g), known[i].name);
        assert_int_equal(ckm_graph_op_count(g), known[i].layers);
        assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_PARAMETER), known[i].trained);
        assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_STATE), known[i].kept);
        assert_shape(g, ckm_graph_op_count(g) - 1, known[i].output);
        ckm_graph_free(g);
    }
}

static bool reads_data(const ckm_graph *g, int32_t op)
{
    ckm_graph_op_info info = ckm_graph_get_op(g, op);
    for (int32_t i = 0; i < info.n_inputs; i++) {
        if (info.inputs[i] >= 0 && ckm_graph_get_tensor(g, info.inputs[i]).role != CKM_ROLE_PARAMETER) {
            return true;
        }
    }
    return false;
}

static void every_name_builds_for_any_batch(void **state)
{
    (void)state;
    assert_true(ckm_zoo_count() >= 72);
    assert_null(ckm_zoo_name(-1));
    assert_null(ckm_zoo_name(ckm_zoo_count()));
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        for (int32_t k = 0; k < i; k++) {
            assert_string_not_equal(ckm_zoo_name(i), ckm_zoo_name(k));
        }
        ckm_graph *g = build(ckm_zoo_name(i), 7, NULL);
        assert_int_equal(ckm_graph_batch(g), 7);
        for (int32_t op = 0; op < ckm_graph_op_count(g); op++) {
            // Windows of an image count as samples; what only parameters give has none.
            assert_true(output_shape(g, op).dims[0] % 7 == 0 || !reads_data(g, op));
            for (int32_t other = 0; other < op; other++) {
                assert_string_not_equal(ckm_graph_get_op(g, op).name, ckm_graph_get_op(g, other).name);
            }
        }
        ckm_graph_free(g);
    }
}

// Running statistics that move too slowly are still those of the beginning after a short training.
static void running_statistics_follow_a_tenth(void **state)
{
    int32_t norms = 0;
    (void)state;
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        ckm_graph *g = NULL;
        assert_int_equal(ckm_zoo_build(ckm_zoo_name(i), 1, NULL, &g, NULL), CKM_OK);
        for (int32_t v = 0; v < g->n_ops; v++) {
            if (strcmp(g->ops[v].op_class->kind, "batch_norm") == 0) {
                assert_true(ckm_i_op_attr_double(&g->ops[v], "momentum", 0) == 0.9);
                norms++;
            }
        }
        ckm_graph_free(g);
    }
    assert_true(norms > 1000);
}

static void resnet50_lists_its_layers_as_keras_does(void **state)
{
    (void)state;
    static const char *const start[] = {
        "conv1_pad",
        "conv1_conv",
        "conv1_bn",
        "conv1_relu",
        "pool1_pad",
        "pool1_pool",
        "conv2_block1_1_conv",
        "conv2_block1_1_bn",
        "conv2_block1_1_relu",
        "conv2_block1_2_conv",
        "conv2_block1_2_bn",
        "conv2_block1_2_relu",
        // As deep as the main branch's last convolution, and met first as the sum's first operand.
        "conv2_block1_0_conv",
        "conv2_block1_3_conv",
        "conv2_block1_0_bn",
        "conv2_block1_3_bn",
        "conv2_block1_add",
        "conv2_block1_out",
        "conv2_block2_1_conv",
    };
    ckm_graph *g = build("ResNet50", 1, NULL);
    for (int32_t i = 0; i < (int32_t)(sizeof start / sizeof start[0]); i++) {
        assert_string_equal(ckm_graph_get_op(g, i).name, start[i]);
    }
    assert_shape(g, 0, "1x230x230x3");
    assert_shape(g, 1, "1x112x112x64");
    assert_shape(g, 5, "1x56x56x64");
    assert_shape(g, find(g, "conv3_block1_1_conv"), "1x28x28x128");
    assert_shape(g, find(g, "conv4_block6_out"), "1x14x14x1024");
    assert_shape(g, find(g, "conv5_block3_out"), "1x7x7x2048");
    assert_string_equal(ckm_graph_get_op(g, 174).name, "avg_pool");
    assert_string_equal(ckm_graph_get_op(g, 175).name, "probs");
    ckm_graph_free(g);
}

static void unet_drops_the_block_it_does_not_use(void **state)
{
    (void)state;
    ckm_graph *g = build("unet", 1, NULL);
    for (int32_t i = 0; i < ckm_graph_op_count(g); i++) {
        assert_string_not_equal(ckm_graph_get_op(g, i).name, "conv2d_4");
    }
    // The numbers of what was dropped stay used.
    assert_int_equal(find(g, "conv2d_5"), 21);
    ckm_graph_free(g);
}

static void other_input_shapes(void **state)
{
    (void)state;
    ckm_graph *g = build("VGG16", 2, (const int64_t[]){96, 160, 4});
    assert_shape(g, find(g, "block5_pool"), "2x3x5x512");
    assert_shape(g, find(g, "fc1"), "2x4096");
    ckm_graph_free(g);
    g = build("ResNet50", 1, (const int64_t[]){64, 64, 3});
    assert_shape(g, find(g, "conv5_block3_out"), "1x2x2x2048");
    ckm_graph_free(g);
    g = build("vgg_unet", 1, (const int64_t[]){64, 32, 3});
    assert_shape(g, ckm_graph_op_count(g) - 1, "1x512x19");
    ckm_graph_free(g);

    static const struct {
        const char *name;
        int64_t batch, shape[3];
        ckm_status status;
        const char *word;
    } bad[] = {
        {"VGG16", 1, {16, 16, 3}, CKM_ERR_ARGUMENT, "\"block5_pool\""},
        {"vgg_unet", 1, {100, 100, 3}, CKM_ERR_ARGUMENT, "\"concatenate_1\""},
        {"pspnet_50", 1, {40, 473, 3}, CKM_ERR_ARGUMENT, "\"conv5_3_pool6_conv\""},
        {"pspnet", 1, {128, 192, 3}, CKM_ERR_ARGUMENT, "too few for a grid of 6 x 6"},
        {"pspnet", 1, {448, 576, 3}, CKM_ERR_ARGUMENT, "\"concatenate\""},
        {"linear8", 1, {16, 224, 3}, CKM_ERR_ARGUMENT, "\"conv7\""},
        {"VGG16", 0, {224, 224, 3}, CKM_ERR_ARGUMENT, "the batch is 0"},
        {"VGG16", -1, {224, 224, 3}, CKM_ERR_ARGUMENT, "the batch is -1"},
        {"VGG16", 1, {224, 0, 3}, CKM_ERR_ARGUMENT, "width is 0"},
        {"VGG16", 1, {-224, 224, 3}, CKM_ERR_ARGUMENT, "height is -224"},
        {"VGG16", 1, {224, 224, -3}, CKM_ERR_ARGUMENT, "channels is -3"},
        {"VGG16", INT64_C(1) << 42, {224, 224, 3}, CKM_ERR_OVERFLOW, "\"block1_conv1\""},
        {"VGG16", INT64_MAX, {224, 224, 3}, CKM_ERR_OVERFLOW, "\"input\""},
        {"VGG16", 1, {INT64_MAX, 1, 1}, CKM_ERR_OVERFLOW, "\"input\""},
        {"VGG17", 1, {224, 224, 3}, CKM_ERR_NOT_FOUND, "\"VGG17\""},
        {"", 1, {224, 224, 3}, CKM_ERR_NOT_FOUND, "\"\""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        g = NULL;
        assert_int_equal(ckm_zoo_build(bad[i].name, bad[i].batch, bad[i].shape, &g, &err), bad[i].status);
        if (strstr(err.message, bad[i].word) == NULL) {
            fail_msg("\"%s\" does not name %s", err.message, bad[i].word);
        }
        assert_null(g);
        assert_int_equal(ckm_zoo_build(bad[i].name, bad[i].batch, bad[i].shape, &g, NULL), bad[i].status);
    }
}

static ckm_graph *build_sized(const char *name, int64_t batch, ckm_zoo_size size)
{
    size.size = sizeof size;
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_zoo_build_sized(name, batch, &size, &g, &err) != CKM_OK) {
        fail_msg("%s: %s", name, err.message);
    }
    return g;
}

static int64_t trained(const ckm_graph *g)
{
    return ckm_graph_element_count(g, CKM_ROLE_PARAMETER);
}

static void texts_of_other_sizes(void **state)
{
    (void)state;
    ckm_graph *g = build_sized(
        "GPT2", 3, (ckm_zoo_size){.sequence_length = 10, .model_width = 24, .depth = 2, .heads = 3, .vocabulary = 50});
    // Tokens and 1024 positions; two layers of 12 width^2 + 13 width; the last normalization.
    assert_int_equal(trained(g), (50 + 1024) * 24 + 2 * (12 * 24 * 24 + 13 * 24) + 2 * 24);
    assert_shape(g, find(g, "h1/attn/scores"), "3x3x10x10");
    assert_shape(g, find(g, "h1/mlp/gelu"), "3x10x96");
    assert_shape(g, ckm_graph_op_count(g) - 1, "3x10x50");
    assert_int_equal(ckm_graph_task(g), CKM_TASK_NEXT_TOKEN);
    assert_int_equal(ckm_graph_get_tensor(g, 0).dtype, CKM_I32);
    ckm_graph_free(g);
    // More positions than published: the table grows, and nothing is cut out of it.
    g = build_sized("GPT2", 1,
                    (ckm_zoo_size){.sequence_length = 1025, .model_width = 8, .depth = 1, .heads = 1, .vocabulary = 9});
    assert_int_equal(trained(g), (9 + 1025) * 8 + 12 * 8 * 8 + 13 * 8 + 2 * 8);
    for (int32_t i = 0; i < ckm_graph_op_count(g); i++) {
        assert_string_not_equal(ckm_graph_get_op(g, i).kind, "slice");
    }
    ckm_graph_free(g);
    // Eight heads share one of keys, as 32 share 4; 64 wide, the feed-forward part is 176.
    g = build_sized("TinyLlama-1.1B", 2,
                    (ckm_zoo_size){.sequence_length = 6, .model_width = 64, .depth = 1, .heads = 8, .vocabulary = 10});
    assert_int_equal(trained(g), 2 * 10 * 64 + 2 * 64 * 64 + 2 * 64 * 8 + 3 * 64 * 176 + 3 * 64);
    assert_shape(g, find(g, "layer0/attention/k_rotary"), "2x1x6x8");
    assert_shape(g, find(g, "layer0/attention/scores"), "2x1x48x6");
    assert_shape(g, find(g, "layer0/attention/probabilities"), "2x8x6x6");
    ckm_graph_free(g);
    g = build_sized("BERT-base", 2,
                    (ckm_zoo_size){.sequence_length = 7, .model_width = 12, .depth = 1, .heads = 2, .vocabulary = 30});
    assert_int_equal(trained(g), (30 + 512 + 2 + 2) * 12 + 12 * 144 + 13 * 12 + 144 + 3 * 12 + 30);
    assert_int_equal(ckm_graph_task(g), CKM_TASK_MASKED_TOKEN);
    ckm_graph_free(g);
}

static void images_of_other_sizes(void **state)
{
    (void)state;
    ckm_graph *g = build("ViT-B16", 2, (const int64_t[]){48, 64, 3});
    assert_shape(g, find(g, "block0/attn/scores"), "2x12x13x13");
    assert_int_equal(trained(g), 86567656 - (197 - 13) * 768);
    ckm_graph_free(g);
    g = build("ConvNeXt-T", 1, (const int64_t[]){65, 96, 3});
    assert_shape(g, find(g, "stage3/block2/add"), "1x2x3x768");
    assert_int_equal(trained(g), 28589128);
    ckm_graph_free(g);
    // Maps of 10 x 14: padded to 14 x 14, shifted both ways; then 5 x 7, 3 x 4 and 2 x 2, which one window covers.
    g = build("Swin-T", 1, (const int64_t[]){40, 56, 3});
    assert_shape(g, find(g, "stage0/block1/attn/shift"), "1x14x14x96");
    assert_shape(g, find(g, "stage0/block1/attn/scores"), "4x3x49x49");
    assert_shape(g, find(g, "stage0/block1/attn/crop"), "1x10x14x96");
    assert_shape(g, find(g, "merge2"), "1x3x4x384");
    assert_shape(g, find(g, "stage3/block0/attn/by_window"), "1x1x1x7x7x768");
    for (int32_t i = 0; i < ckm_graph_op_count(g); i++) {
        const char *name = ckm_graph_get_op(g, i).name;
        assert_true(strstr(name, "shift") == NULL || strncmp(name, "stage0/", 7) == 0);
    }
    assert_int_equal(trained(g), 28288354);
    ckm_graph_free(g);
    g = build("DDPM-CIFAR10", 2, (const int64_t[]){64, 32, 1});
    assert_shape(g, find(g, "down2/block0/attn/scores"), "2x1x128x128");
    assert_shape(g, find(g, "up0/block2/join"), "2x64x32x256");
    assert_shape(g, ckm_graph_op_count(g) - 1, "2x64x32x1");
    assert_int_equal(ckm_graph_task(g), CKM_TASK_DENOISE);
    ckm_graph_free(g);
}

// The head of every classifier and segmenter follows the number of classes, and nothing else does.
static void heads_of_other_sizes(void **state)
{
    (void)state;
    int32_t with_head = 0;
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        const char *name = ckm_zoo_name(i);
        ckm_zoo_size size = CKM_ZOO_SIZE_INIT;
        ckm_graph *g = NULL;
        size.classes = 3;
        if (ckm_zoo_classes(name) == 0) {
            assert_int_equal(ckm_zoo_build_sized(name, 2, &size, &g, NULL), CKM_ERR_ARGUMENT);
            continue;
        }
        with_head++;
        ckm_graph *published = build(name, 2, NULL);
        assert_int_equal(ckm_zoo_build_sized(name, 2, &size, &g, NULL), CKM_OK);
        assert_int_equal(ckm_graph_op_count(g), ckm_graph_op_count(published));
        for (int32_t op = 0; op < ckm_graph_op_count(g); op++) {
            assert_string_equal(ckm_graph_get_op(g, op).name, ckm_graph_get_op(published, op).name);
        }
        ckm_shape last = output_shape(g, ckm_graph_op_count(g) - 1);
        ckm_shape before = output_shape(published, ckm_graph_op_count(published) - 1);
        assert_int_equal(last.dims[last.rank - 1], 3);
        assert_int_equal(before.dims[before.rank - 1], ckm_zoo_classes(name));
        assert_true(ckm_graph_element_count(g, CKM_ROLE_PARAMETER) <
                    ckm_graph_element_count(published, CKM_ROLE_PARAMETER));
        ckm_graph_free(published);
        ckm_graph_free(g);
    }
    assert_int_equal(with_head, 19 + 22 + 8 + 33);
    assert_int_equal(ckm_zoo_classes("VGG16"), 1000);
    assert_int_equal(ckm_zoo_classes("segnet"), 19);
    assert_int_equal(ckm_zoo_classes("nonesuch"), 0);
    assert_int_equal(ckm_zoo_classes(NULL), 0);
    assert_int_equal(ckm_zoo_vocabulary("GPT2"), 50257);
    assert_int_equal(ckm_zoo_vocabulary("VGG16"), 0);
    assert_int_equal(ckm_zoo_vocabulary(NULL), 0);
}

static void sizes_that_cannot_be(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ckm_zoo_size size;
        const char *words;
    } bad[] = {
        {"VGG16", {.sequence_length = 5}, "VGG16 has no sequence length to choose"},
        {"VGG16", {.model_width = 5}, "VGG16 has no width to choose"},
        {"ResNet50", {.depth = 5}, "ResNet50 has no depth to choose"},
        {"ConvNeXt-T", {.heads = 5}, "ConvNeXt-T has no number of heads to choose"},
        {"ViT-B16", {.vocabulary = 5}, "ViT-B16 has no vocabulary to choose"},
        {"GPT2", {.classes = 5}, "GPT2 has no number of classes to choose"},
        {"unet", {.classes = -5}, "the number of classes is -5"},
        {"GPT2", {.height = 32, .width = 32, .channels = 3}, "GPT2 reads a text"},
        {"GPT2", {.heads = 7}, "a width of 768 does not divide into 7 heads"},
        {"GPT2", {.depth = -1}, "the depth is -1"},
        {"GPT2", {.sequence_length = INT64_MAX}, "tensor \"tokens\""},
        {"Llama-2-7B", {.model_width = 96}, "a head of 3 numbers"},
        {"ViT-B16", {.height = 40, .width = 32, .channels = 3}, "do not tile the image"},
        {"ConvNeXt-T", {.depth = 7}, "a depth of 7"},
        {"ConvNeXt-T", {.height = 16, .width = 32, .channels = 3}, "\"downsample3\""},
        {"Swin-T", {.depth = 8}, "a depth of 8"},
        {"DDPM-CIFAR10", {.height = 36, .width = 32, .channels = 3}, "multiples of 8"},
        {"DDPM-CIFAR10", {.model_width = 48}, "groups"},
        {"DDPM-256", {.depth = 1000}, "blocks at a resolution"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = NULL;
        ckm_zoo_size size = bad[i].size;
        size.size = sizeof size;
        ckm_status status = ckm_zoo_build_sized(bad[i].name, 1, &size, &g, &err);
        assert_true(status == CKM_ERR_ARGUMENT || status == CKM_ERR_OVERFLOW);
        if (strstr(err.message, bad[i].words) == NULL) {
            fail_msg("\"%s\" does not say %s", err.message, bad[i].words);
        }
        assert_null(g);
    }
}

static void groups_hold_together(void **state)
{
    (void)state;
    assert_null(ckm_zoo_group(-1));
    assert_null(ckm_zoo_group(ckm_zoo_count()));
    assert_null(ckm_zoo_name(-1));
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        for (int32_t k = 0; k < i; k++) {
            // Once a group has ended it does not come back.
            assert_true(strcmp(ckm_zoo_group(i), ckm_zoo_group(k)) != 0 ||
                        strcmp(ckm_zoo_group(i - 1), ckm_zoo_group(i)) == 0);
        }
    }
}

// input -> a -> b -> sum, input -> c -> sum, and d from b that nothing needs. Depths: sum 0, b and c 1, a 2.
// Written with c first; the walk from sum meets b first, because b is its first operand.
static void builder_sorts_by_depth_then_by_walk(void **state)
{
    (void)state;
    ckm_i_zoo *z = NULL;
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_zoo_create("diamond", 1, &small, &z, &err), CKM_OK);
    ckm_i_layer c = ckm_i_zoo_activation(z, CKM_I_ZOO_INPUT, "c", "relu");
    ckm_i_layer a = ckm_i_zoo_activation(z, CKM_I_ZOO_INPUT, NULL, "relu");
    ckm_i_layer b = ckm_i_zoo_activation(z, a, NULL, "tanh");
    ckm_i_layer d = ckm_i_zoo_activation(z, b, NULL, "sigmoid");
    assert_true(d > b);
    ckm_i_layer sum = ckm_i_zoo_add_layers(z, NULL, (const ckm_i_layer[]){b, c}, 2);
    assert_int_equal(ckm_i_zoo_finish(z, sum, &g, &err), CKM_OK);
    ckm_i_zoo_free(z);
    static const char *const names[] = {"activation", "activation_1", "c", "add"};
    assert_int_equal(ckm_graph_op_count(g), 4);
    for (int32_t i = 0; i < 4; i++) {
        assert_string_equal(ckm_graph_get_op(g, i).name, names[i]);
    }
    assert_int_equal(ckm_graph_tensor_count(g), 5);
    assert_int_equal(ckm_graph_get_tensor(g, ckm_graph_get_op(g, 3).inputs[0]).producer, 1);
    assert_int_equal(ckm_graph_get_tensor(g, ckm_graph_get_op(g, 3).inputs[1]).producer, 2);
    ckm_graph_free(g);
}

static void builder_keeps_the_first_error(void **state)
{
    (void)state;
    ckm_i_zoo *z = NULL;
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_zoo_create("n", 1, &small, &z, &err), CKM_OK);
    ckm_i_layer x = ckm_i_zoo_conv(z, CKM_I_ZOO_INPUT, (ckm_i_conv){.name = "first", .filters = 1, .kernel = {9}});
    assert_int_equal(x, -1);
    x = ckm_i_zoo_conv(z, x, (ckm_i_conv){.name = "second", .filters = 0});
    assert_int_equal(x, -1);
    assert_int_equal(ckm_i_zoo_channels(z, x), 1);
    assert_int_equal(ckm_i_zoo_fail(z, "third"), -1);
    assert_int_equal(ckm_i_zoo_finish(z, x, &g, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "\"first\""));
    assert_non_null(strstr(err.message, "4x4x2"));
    assert_null(g);
    ckm_i_zoo_free(z);
    ckm_i_zoo_free(NULL);

    assert_int_equal(ckm_i_zoo_create("n", 1, &small, &z, &err), CKM_OK);
    assert_int_equal(ckm_i_zoo_finish(z, CKM_I_ZOO_INPUT, &g, &err), CKM_ERR_INTERNAL);
    ckm_i_zoo_free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_their_published_size),
        cmocka_unit_test(every_name_builds_for_any_batch),
        cmocka_unit_test(running_statistics_follow_a_tenth),
        cmocka_unit_test(resnet50_lists_its_layers_as_keras_does),
        cmocka_unit_test(unet_drops_the_block_it_does_not_use),
        cmocka_unit_test(other_input_shapes),
        cmocka_unit_test(texts_of_other_sizes),
        cmocka_unit_test(images_of_other_sizes),
        cmocka_unit_test(heads_of_other_sizes),
        cmocka_unit_test(sizes_that_cannot_be),
        cmocka_unit_test(groups_hold_together),
        cmocka_unit_test(builder_sorts_by_depth_then_by_walk),
        cmocka_unit_test(builder_keeps_the_first_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
