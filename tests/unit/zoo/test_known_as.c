// SPDX-License-Identifier: Apache-2.0
// Names and shapes that PyTorch has for parameters, of every family of networks that has them: those of the golden list, which
// python/tests/test_torch_weights.py holds against torchvision and transformers. And elements, which go to their places there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/zoo.h>

#include "graph/known_as.h"

static const char *const networks[] = {"ResNet18",    "ResNet34",       "VGG16",      "VGG19",
                                       "DenseNet121", "ViT-B16",        "ConvNeXt-T", "Swin-T",
                                       "GPT2",        "TinyLlama-1.1B", "BERT-base",  "Llama-3.2-1B"};

static ckm_graph *build(const char *name)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *graph = NULL;
    if (ckm_zoo_build(name, 1, NULL, &graph, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return graph;
}

static void write_line(FILE *to, const char *network, const char *name, const ckm_shape *shape)
{
    char text[128];
    fprintf(to, "%s: %s %s\n", network, name, ckm_i_shape_text(shape, text, sizeof text));
}

static void write_names(const char *network, FILE *to)
{
    ckm_graph *g = build(network);
    assert_true(ckm_i_graph_is_known(g));
    for (int32_t i = 0; i < g->n_tensors; i++) {
        const ckm_i_known_as *as = g->tensors[i].known_as;
        if (as == NULL) {
            continue;
        }
        assert_int_equal(ckm_i_elements(&as->shape), ckm_i_elements(&g->tensors[i].shape));
        assert_int_equal(ckm_i_elements(&as->view), ckm_i_elements(&g->tensors[i].shape));
        write_line(to, network, as->names[0], &as->shape);
        if (as->names[1][0] != '\0') {
            write_line(to, network, as->names[1], &as->shape);
        }
        if (as->index[0] != '\0') {
            int64_t n = as->window[0] * as->window[1];
            write_line(to, network, as->index, &(ckm_shape){1, {n * n}});
        }
    }
    ckm_graph_free(g);
}

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    assert_true(n > 0);
    fclose(file);
    return text;
}

static void the_golden_list(void **state)
{
    (void)state;
    const char *golden = CKM_SOURCE_DIR "/tests/golden/pytorch_names.txt";
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    assert_non_null(stream);
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        write_names(networks[i], stream);
    }
    fclose(stream);
    if (getenv("CKM_UPDATE_GOLDEN") != NULL) {
        FILE *to = fopen(golden, "w");
        assert_non_null(to);
        fputs(text, to);
        fclose(to);
    }
    char *wanted = read_whole(golden);
    assert_string_equal(text, wanted);
    free(wanted);
    free(text);
}

// Keras' networks are others than torchvision's of the same name, and so nothing is claimed of them.
static void networks_that_are_others(void **state)
{
    (void)state;
    static const char *const others[] = {"ResNet50", "MobileNetV2", "MobileNet", "InceptionV3", "unet_mini"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ckm_graph *g = build(others[i]);
        assert_false(ckm_i_graph_is_known(g));
        ckm_graph_free(g);
    }
}

static const ckm_i_known_as *known(const ckm_graph *g, const char *name)
{
    const ckm_i_known_as *as = ckm_i_graph_find_known(g, name);
    assert_non_null(as);
    return as;
}

// Element i there, by divisions; and the walk from there goes on to it.
static int64_t offset(const ckm_i_known_as *as, int64_t i)
{
    ckm_i_known_walk w = ckm_i_known_begin(as, i - (i > 0));
    if (i > 0) {
        ckm_i_known_next(&w);
    }
    assert_int_equal(w.offset, ckm_i_known_begin(as, i).offset);
    return w.offset;
}

static void places_of_elements(void **state)
{
    (void)state;
    ckm_graph *g = build("ResNet18");
    // 64,3,7,7 there: filter 5, channel 2, row 3, column 4. Here 7,7,3,64.
    const ckm_i_known_as *conv = known(g, "conv1_conv/kernel");
    assert_int_equal(offset(conv, ((5 * 3 + 2) * 7 + 3) * 7 + 4), ((3 * 7 + 4) * 3 + 2) * 64 + 5);
    // 1000,512 there: output 7, input 9.
    assert_int_equal(offset(known(g, "probs/kernel"), 7 * 512 + 9), 9 * 1000 + 7);
    assert_int_equal(offset(known(g, "conv1_bn/moving_variance"), 11), 11);
    assert_null(ckm_i_graph_find_known(g, "nothing"));
    ckm_graph_free(g);
    g = build("VGG16");
    // The map is 7,7,512 here and 512,7,7 there: output 3, channel 5, row 6, column 2.
    const ckm_i_known_as *flat = known(g, "fc1/kernel");
    assert_int_equal(offset(flat, ((3 * 512 + 5) * 7 + 6) * 7 + 2), ((6 * 7 + 2) * 512 + 5) * 4096 + 3);
    ckm_graph_free(g);
    g = build("GPT2");
    assert_int_equal(offset(known(g, "h0/attn/qkv/kernel"), 4321), 4321);  // in, out there, too
    ckm_graph_free(g);
    g = build("Swin-T");
    const ckm_i_known_as *table = known(g, "stage0/block0/attn/relative_position_bias");
    assert_int_equal(ckm_i_known_row(table, 0), 6 * 13 + 6);          // a position and itself
    assert_int_equal(ckm_i_known_row(table, 48), 0);                  // the first and the last
    assert_int_equal(ckm_i_known_row(table, 48 * 49), 12 * 13 + 12);  // the last and the first
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_golden_list),
        cmocka_unit_test(networks_that_are_others),
        cmocka_unit_test(places_of_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
