// SPDX-License-Identifier: Apache-2.0
// Networks built by callers: the same as the zoo builds, and everything that can be got wrong.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/network.h>
#include <checkmate/zoo.h>

static const int64_t image[3] = {32, 32, 3};
static const int64_t text[1] = {6};

static ckm_network *begin(void)
{
    ckm_network *net = NULL;
    assert_int_equal(ckm_network_create("own", 2, &net, NULL), CKM_OK);
    return net;
}

// VGG19 by hand is VGG19.
static void a_network_is_that_of_the_zoo(void **state)
{
    static const int64_t filters[5] = {64, 128, 256, 512, 512};
    static const int convolutions[5] = {2, 2, 4, 4, 4};
    ckm_graph *ours = NULL;
    ckm_graph *zoo = NULL;
    ckm_network *net = begin();
    ckm_layer x = ckm_network_input(net, "input", CKM_F32, 3, (const int64_t[]){224, 224, 3});
    (void)state;
    for (int block = 0; block < 5; block++) {
        for (int i = 0; i < convolutions[block]; i++) {
            x = ckm_network_conv(
                net, x,
                (ckm_conv_layer){.filters = filters[block], .kernel = {3}, .padding = "same", .activation = "relu"});
        }
        x = ckm_network_max_pool(net, x, (ckm_pool_layer){.size = {2}});
    }
    x = ckm_network_dense(net, ckm_network_flatten(net, x, NULL), NULL, 4096, "relu");
    x = ckm_network_dense(net, ckm_network_dense(net, x, NULL, 4096, "relu"), NULL, 1000, "softmax");
    assert_int_equal(ckm_network_finish(net, x, &ours, NULL), CKM_OK);
    ckm_network_free(net);
    assert_int_equal(ckm_zoo_build("VGG19", 2, NULL, &zoo, NULL), CKM_OK);
    assert_int_equal(ckm_graph_op_count(ours), ckm_graph_op_count(zoo));
    assert_int_equal(ckm_graph_element_count(ours, CKM_ROLE_PARAMETER),
                     ckm_graph_element_count(zoo, CKM_ROLE_PARAMETER));
    for (int32_t i = 0; i < ckm_graph_op_count(zoo); i++) {
        ckm_graph_op_info a = ckm_graph_get_op(ours, i);
        ckm_graph_op_info b = ckm_graph_get_op(zoo, i);
        ckm_shape left = ckm_graph_get_tensor(ours, a.outputs[0]).shape;
        ckm_shape right = ckm_graph_get_tensor(zoo, b.outputs[0]).shape;
        assert_string_equal(a.kind, b.kind);
        assert_memory_equal(&left, &right, sizeof left);
    }
    ckm_graph_free(ours);
    ckm_graph_free(zoo);
}

static void shapes_are_told(void **state)
{
    ckm_network *net = begin();
    ckm_layer x = ckm_network_input(net, "input", CKM_F32, 3, image);
    x = ckm_network_conv(net, x, (ckm_conv_layer){.filters = 5, .kernel = {3, 5}, .strides = {2}});
    ckm_shape shape = ckm_network_shape(net, x);
    (void)state;
    assert_int_equal(shape.rank, 4);
    assert_int_equal(shape.dims[0], 2);
    assert_int_equal(shape.dims[1], 15);
    assert_int_equal(shape.dims[2], 14);
    assert_int_equal(shape.dims[3], 5);
    assert_int_equal(ckm_network_shape(net, -1).rank, 0);
    assert_int_equal(ckm_network_shape(net, 1 << 20).rank, 0);
    ckm_network_free(net);
}

// A mistake, by what it does to a network with an image, a text and its embedding; and what is said of it.
typedef ckm_layer mistake(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words);

static ckm_layer far_away(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens, (void)words;
    return ckm_network_dense(net, 12345, "a", 3, NULL);
}
static ckm_layer a_parameter(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens;
    return ckm_network_dense(net, words - 1, "a", 3, NULL);
}
static ckm_layer wrong_rank(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens;
    return ckm_network_conv(net, words, (ckm_conv_layer){.filters = 3, .kernel = {3}});
}
static ckm_layer too_large_a_kernel(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_conv(net, img, (ckm_conv_layer){.filters = 3, .kernel = {33}});
}
static ckm_layer negative_strides(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_conv(net, img, (ckm_conv_layer){.filters = 3, .kernel = {3}, .strides = {-1}});
}
static ckm_layer no_filters(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_conv(net, img, (ckm_conv_layer){.kernel = {3}});
}
static ckm_layer no_pool_size(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_max_pool(net, img, (ckm_pool_layer){.name = NULL});
}
static ckm_layer no_heads(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens;
    return ckm_network_attention(net, words, words, words, (ckm_attention_layer){.causal = true});
}
static ckm_layer heads_that_do_not_divide(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens;
    return ckm_network_attention(net, words, words, words, (ckm_attention_layer){.heads = 3});
}
static ckm_layer unknown_activation(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_activation(net, img, NULL, "rleu");
}
static ckm_layer no_activation(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_activation(net, img, NULL, NULL);
}
static ckm_layer activation_of_a_conv(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_conv(net, img, (ckm_conv_layer){.filters = 3, .kernel = {3}, .activation = "rleu"});
}
static ckm_layer activation_of_a_dense(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_dense(net, img, NULL, 3, "dropout");
}
static ckm_layer negative_epsilon(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_layer_norm(net, img, NULL, -1e-5);
}
static ckm_layer no_number_as_epsilon(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_batch_norm(net, img, (ckm_batch_norm_layer){.epsilon = NAN});
}
static ckm_layer momentum_above_one(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_batch_norm(net, img, (ckm_batch_norm_layer){.momentum = 1.5});
}
static ckm_layer no_utf8(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_dense(net, img, "caf\xe9", 3, NULL);
}
static ckm_layer name_twice(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_activation(net, ckm_network_activation(net, img, "a", "relu"), "a", "relu");
}
static ckm_layer name_of_an_input(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_activation(net, img, "image", "relu");
}
static ckm_layer long_name(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_activation(net, img, "a name of more characters than a layer's can have", "relu");
}
static ckm_layer empty_name(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_dense(net, img, "", 3, NULL);
}
static ckm_layer different_shapes(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens;
    return ckm_network_add(net, "a", (ckm_layer[]){img, words}, 2);
}
static ckm_layer reshape_to_nothing(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_reshape(net, img, "a", 1, (const int64_t[]){7});
}
static ckm_layer rows_of_reals(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)tokens, (void)words;
    return ckm_network_embed(net, img, "a", 10, 4);
}
static ckm_layer a_flat_input(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens, (void)words;
    return ckm_network_input(net, "a", CKM_F32, 2, (const int64_t[]){4, 0});
}
static ckm_layer an_endless_input(ckm_network *net, ckm_layer img, ckm_layer tokens, ckm_layer words)
{
    (void)img, (void)tokens, (void)words;
    return ckm_network_input(net, "a", CKM_F32, 2, (const int64_t[]){INT64_MAX / 2, 64});
}

static void mistakes_are_named(void **state)
{
    static const struct {
        mistake *make;
        const char *said;
    } cases[] = {
        {far_away, "layer 2 (dense a): operand 12345 is not a layer"},
        {a_parameter, "is not a layer"},
        {wrong_rank, "layer 2 (conv): its operand has 3 dimensions"},
        {too_large_a_kernel, "layer 2 (conv): "},
        {negative_strides, "layer 2 (conv): kernel, strides and dilation cannot be negative"},
        {no_filters, "layer 2 (conv): "},
        {no_pool_size, "layer 2 (max_pool): it needs a size"},
        {no_heads, "layer 2 (attention): 0 heads"},
        {heads_that_do_not_divide, "3 heads of 8 numbers"},
        {unknown_activation, "layer 2 (activation): there is no activation called \"rleu\""},
        {no_activation, "layer 2 (activation): it needs the name of a function"},
        {activation_of_a_conv, "layer 2 (conv): there is no activation called \"rleu\""},
        {activation_of_a_dense, "layer 2 (dense): there is no activation called \"dropout\""},
        {negative_epsilon, "layer 2 (layer_norm): epsilon cannot be negative"},
        {no_number_as_epsilon, "layer 2 (batch_norm): epsilon"},
        {momentum_above_one, "momentum is from 0 to 1"},
        {no_utf8, "has to be UTF-8"},
        {name_twice, "layer 3 (activation a): there are two layers called \"a\""},
        {name_of_an_input, "called \"image\""},
        {long_name, "1 to 40 characters"},
        {empty_name, "layer 2 (dense): \"\": a name has 1 to 40 characters, or is NULL"},
        {different_shapes, "\"a\""},
        {reshape_to_nothing, "\"a\""},
        {rows_of_reals, "layer 2 (embed a): its operand holds no tokens"},
        {a_flat_input, "batch 2: tensor \"a\""},
        {an_endless_input, "\"a\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *graph = NULL;
        ckm_network *net = begin();
        ckm_layer img = ckm_network_input(net, "image", CKM_F32, 3, image);
        ckm_layer tokens = ckm_network_input(net, "tokens", CKM_I32, 1, text);
        ckm_layer words = ckm_network_embed(net, tokens, "words", 10, 8);
        assert_true(words > 0);
        ckm_layer x = cases[i].make(net, img, tokens, words);
        if (x != -1) {
            fail_msg("mistake %zu is taken", i);
        }
        // It sticks.
        assert_int_equal(ckm_network_flatten(net, img, NULL), -1);
        ckm_status status = ckm_network_finish(net, words, &graph, &err);
        if (status == CKM_OK || status == CKM_ERR_INTERNAL || strstr(err.message, cases[i].said) == NULL) {
            fail_msg("mistake %zu: %s: %s", i, ckm_status_name(status), err.message);
        }
        assert_null(graph);
        ckm_network_free(net);
    }
}

static void an_output_has_to_be_a_layer(void **state)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    ckm_network *net = begin();
    (void)state;
    assert_int_equal(ckm_network_finish(net, 0, &graph, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "no input"));
    ckm_layer x = ckm_network_input(net, "image", CKM_F32, 3, image);
    assert_int_equal(ckm_network_finish(net, x, &graph, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_network_finish(net, 99, &graph, &err), CKM_ERR_ARGUMENT);
    ckm_network_free(net);
    // The first layer before any input.
    net = begin();
    assert_int_equal(ckm_network_flatten(net, 0, NULL), -1);
    assert_int_equal(ckm_network_finish(net, 0, &graph, &err), CKM_ERR_ARGUMENT);
    ckm_network_free(net);
    // An input that could not be added is what is told, not that there is none.
    net = begin();
    assert_int_equal(ckm_network_input(net, NULL, CKM_F32, 3, image), -1);
    assert_int_equal(ckm_network_finish(net, 0, &graph, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "needs a name"));
    ckm_network_free(net);
    assert_int_equal(ckm_network_create("own", 0, &net, &err), CKM_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_is_that_of_the_zoo),
        cmocka_unit_test(shapes_are_told),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(an_output_has_to_be_a_layer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
