// SPDX-License-Identifier: Apache-2.0
// Blocks of a graph, and the page of them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/emit.h>
#include <checkmate/zoo.h>

#include "emit/emit_blocks.h"
#include "scratch.h"

static ckm_dataflow *step_of(const char *name)
{
    ckm_graph *network = NULL;
    ckm_training *training = NULL;
    ckm_dataflow *df = NULL;
    const ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
    const ckm_cost_model costs = CKM_COST_MODEL_INIT;
    assert_int_equal(ckm_zoo_build(name, 2, NULL, &network, NULL), CKM_OK);
    assert_int_equal(ckm_autodiff_op_graph(network, &options, &training, NULL), CKM_OK);
    assert_int_equal(ckm_cost_apply(training, &costs, &df, NULL), CKM_OK);
    ckm_training_free(training);
    ckm_graph_free(network);
    return df;
}

// `n` forward operators in a chain, named by a pattern, and a backward operator for each.
static ckm_dataflow *chain_of(int32_t n, const char *forward, const char *backward, const char *module)
{
    ckm_dataflow *df = NULL;
    char name[64];
    char path[64];
    assert_int_equal(ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    int32_t before = -1;
    for (int32_t i = 0; i < 2 * n; i++) {
        int32_t at = i < n ? i : 2 * n - 1 - i;
        int32_t out;
        snprintf(name, sizeof name, "t%d", (int)i);
        const ckm_dataflow_tensor tensor = {.name = name, .bytes = 10};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &out, NULL), CKM_OK);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, i < n ? forward : backward, (int)at);
        snprintf(path, sizeof path, module, (int)at / 2);
#pragma GCC diagnostic pop
        const ckm_dataflow_op op = {.name = name,
                                    .module = path,
                                    .kind = i < n ? CKM_OP_FORWARD : CKM_OP_BACKWARD,
                                    .cost = 1,
                                    .n_inputs = before >= 0 ? 1 : 0,
                                    .inputs = &before,
                                    .n_outputs = 1,
                                    .outputs = &out};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, NULL), CKM_OK);
        before = out;
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    return df;
}

static void test_blocks_of_a_network(void **state)
{
    (void)state;
    ckm_dataflow *df = step_of("ResNet50");
    ckm_i_emit_blocks b;
    char name[128];
    int found = 0;
    assert_int_equal(ckm_i_emit_blocks_create(df, &b, NULL), CKM_OK);
    // 16 residual blocks, the six operators before them, and three behind.
    assert_int_equal(b.n, 25);
    for (int32_t i = 0; i < b.n; i++) {
        found += strcmp(ckm_i_emit_blocks_name(df, &b, i, name, sizeof name), "conv4_block6") == 0;
    }
    assert_int_equal(found, 1);
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        // An operator stands in the block by whose name its own begins, the backward one too.
        const char *op = ckm_dataflow_get_op(df, v).name;
        assert_true(b.of_op[v] >= 0 && b.of_op[v] < b.n);
        ckm_i_emit_blocks_name(df, &b, b.of_op[v], name, sizeof name);
        if (strchr(op, ':') != NULL && strncmp(op, name, strlen(name)) != 0) {
            fail_msg("%s stands in %s", op, name);
        }
    }
    ckm_i_emit_blocks_dispose(&b);
    ckm_dataflow_free(df);
}

static void check_rows(ckm_dataflow *df, int32_t n, int32_t n_blocks)
{
    ckm_i_emit_blocks b;
    assert_int_equal(ckm_i_emit_blocks_create(df, &b, NULL), CKM_OK);
    assert_int_equal(b.n, n_blocks);
    for (int32_t v = 1; v < n; v++) {
        assert_true(b.of_op[v] == b.of_op[v - 1] || b.of_op[v] == b.of_op[v - 1] + 1);
    }
    for (int32_t v = 0; v < n; v++) {
        if (b.of_op[2 * n - 1 - v] != b.of_op[v]) {
            fail_msg("the gradient of %d is in row %d, it in %d", (int)v, (int)b.of_op[2 * n - 1 - v], (int)b.of_op[v]);
        }
    }
    ckm_i_emit_blocks_dispose(&b);
    ckm_dataflow_free(df);
}

static void test_rows(void **state)
{
    (void)state;
    // Few operators: a row each. Names of gradients in three ways.
    check_rows(chain_of(8, "layer%d", "grad_layer%d", ""), 8, 8);
    check_rows(chain_of(8, "layer%d", "layer%d_grad", ""), 8, 8);
    check_rows(chain_of(44, "layer%d", "layer%d:grad_x", ""), 44, 44);
    // One more: no name says what belongs together, and rows have equal shares.
    check_rows(chain_of(45, "layer%d", "layer%d_grad", ""), 45, 44);
    check_rows(chain_of(4400, "layer%d", "layer%d:grad_x", ""), 4400, 44);
    // Modules say so, of forward and backward operators.
    check_rows(chain_of(60, "mm_%d", "sum_%d", "layers.%d"), 60, 30);
    // One block with everything in it would show nothing.
    check_rows(chain_of(60, "all.%d", "all.%d:grad", ""), 60, 44);
}

// The picture of an SVG file, which is no larger than a page.
static const char *page_in(const char *path)
{
    static char text[1 << 20];
    double width;
    double height;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    assert_int_equal(fclose(file), 0);
    const char *size = strstr(text, "<svg width=\"");
    assert_non_null(size);
    assert_int_equal(sscanf(size, "<svg width=\"%lfpt\" height=\"%lfpt\"", &width, &height), 2);
    assert_true(width < 900 && height < 1600);
    return text;
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) {
        n++;
    }
    return n;
}

static void test_page(void **state)
{
    (void)state;
    if (system("command -v dot > /dev/null") != 0) {
        print_message("SKIP: dot is not installed\n");
        skip();
    }
    scratch_stay stay;
    scratch_enter(&stay);
    // 462 operators took 2,900 by 7,594 points.
    ckm_dataflow *df = step_of("ResNet50");
    assert_int_equal(ckm_emit_graph_figure(df, "g.svg", NULL), CKM_OK);
    const char *text = page_in("g.svg");
    assert_non_null(strstr(text, ">ResNet50: 462 operators in 25 rows, each with the bytes of its outputs<"));
    assert_non_null(strstr(text, ">conv4_block6<"));
    ckm_dataflow_free(df);
    scratch_leave(&stay);
}

static void test_page_of_a_network(void **state)
{
    (void)state;
    if (system("command -v dot > /dev/null") != 0) {
        print_message("SKIP: dot is not installed\n");
        skip();
    }
    scratch_stay stay;
    scratch_enter(&stay);
    // A node for every layer took 405 by 7,478 points.
    ckm_graph *network = NULL;
    assert_int_equal(ckm_zoo_build("ResNet50", 2, NULL, &network, NULL), CKM_OK);
    assert_int_equal(ckm_emit_network_figure(network, "n.svg", NULL), CKM_OK);
    const char *text = page_in("n.svg");
    assert_non_null(strstr(text, ">ResNet50: 176 layers in 25 rows, each with the shape of its output<"));
    assert_non_null(strstr(text, ">12 layers, 2 \xc3\x97 56 \xc3\x97 56 \xc3\x97 256<"));
    assert_non_null(strstr(text, ">conv, 2 \xc3\x97 112 \xc3\x97 112 \xc3\x97 64<"));
    assert_non_null(strstr(text, ">input, 2 \xc3\x97 224 \xc3\x97 224 \xc3\x97 3<"));
    // One row to the next, and no more: residual connections stay within their blocks.
    assert_int_equal(count(text, "class=\"edge\""), 24);
    ckm_graph_free(network);

    // What a U-Net hands over its rows has an edge of its own.
    assert_int_equal(ckm_zoo_build("vgg_unet", 2, NULL, &network, NULL), CKM_OK);
    assert_int_equal(ckm_emit_network_figure(network, "n.svg", NULL), CKM_OK);
    text = page_in("n.svg");
    assert_int_equal(count(text, "class=\"node\""), 36);
    assert_int_equal(count(text, "class=\"edge\""), 35 + 3);
    ckm_graph_free(network);
    scratch_leave(&stay);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_of_a_network),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_page_of_a_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
