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
            assert_int_equal(output_shape(g, op).dims[0], 7);
            for (int32_t other = 0; other < op; other++) {
                assert_string_not_equal(ckm_graph_get_op(g, op).name, ckm_graph_get_op(g, other).name);
            }
        }
        ckm_graph_free(g);
    }
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

// input -> a -> b -> sum, input -> c -> sum, and d from b that nothing needs. Depths: sum 0, b and c 1, a 2.
// Written with c first; the walk from sum meets b first, because b is its first operand.
static void builder_sorts_by_depth_then_by_walk(void **state)
{
    (void)state;
    ckm_i_zoo *z = NULL;
    ckm_graph *g = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_zoo_create("diamond", 1, (const int64_t[]){4, 4, 2}, &z, &err), CKM_OK);
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
    assert_int_equal(ckm_i_zoo_create("n", 1, (const int64_t[]){4, 4, 2}, &z, &err), CKM_OK);
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

    assert_int_equal(ckm_i_zoo_create("n", 1, (const int64_t[]){4, 4, 2}, &z, &err), CKM_OK);
    assert_int_equal(ckm_i_zoo_finish(z, CKM_I_ZOO_INPUT, &g, &err), CKM_ERR_INTERNAL);
    ckm_i_zoo_free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_have_their_published_size),
        cmocka_unit_test(every_name_builds_for_any_batch),
        cmocka_unit_test(resnet50_lists_its_layers_as_keras_does),
        cmocka_unit_test(unet_drops_the_block_it_does_not_use),
        cmocka_unit_test(other_input_shapes),
        cmocka_unit_test(builder_sorts_by_depth_then_by_walk),
        cmocka_unit_test(builder_keeps_the_first_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
