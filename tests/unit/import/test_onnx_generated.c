// SPDX-License-Identifier: Apache-2.0
// Models made up from seeds, valid by the rules of ONNX: all of them are read, with the shapes that those rules give,
// and so is what training and costs make of them. Every operator that the importer knows is among them.
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

#include "base/rng.h"
#include "import/onnx_convert.h"
#include "onnx_generator.h"

enum { MODELS = 1500, BYTES = 24 };

static char seen[200][40];
static int n_seen;

static void note(const char *op)
{
    for (int i = 0; i < n_seen; i++) {
        if (strcmp(seen[i], op) == 0) {
            return;
        }
    }
    snprintf(seen[n_seen++], sizeof seen[0], "%s", op);
}

static bool was_seen(const char *op)
{
    for (int i = 0; i < n_seen; i++) {
        if (strcmp(seen[i], op) == 0) {
            return true;
        }
    }
    return false;
}

static onnx_builder *model(uint64_t seed, onnx_expected *expected, int *n)
{
    uint8_t bytes[BYTES];
    ckm_i_rng rng = {seed};
    for (int i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)ckm_i_rng_next(&rng);
    }
    return og_generate(bytes, sizeof bytes, expected, n);
}

// Operators that were not folded away carry the name of the node.
static void check_shapes(const ckm_graph *g, uint64_t seed, const onnx_expected *expected, int n)
{
    for (int32_t i = 0; i < ckm_graph_op_count(g); i++) {
        ckm_graph_op_info op = ckm_graph_get_op(g, i);
        ckm_shape shape = ckm_graph_get_tensor(g, op.outputs[0]).shape;
        for (int k = 0; k < n; k++) {
            char name[32];
            snprintf(name, sizeof name, "%.15s_node", expected[k].name);
            if (strcmp(name, op.name) == 0 && !ckm_i_shapes_equal(&shape, &expected[k].shape)) {
                char have[128];
                char want[128];
                fail_msg("model %llu: %s (%s) has shape %s, not %s", (unsigned long long)seed, op.name, op.kind,
                         ckm_i_shape_text(&shape, have, sizeof have),
                         ckm_i_shape_text(&expected[k].shape, want, sizeof want));
            }
        }
    }
}

static void all_are_read(void **state)
{
    (void)state;
    static onnx_expected expected[OG_MOST_NODES];
    int n_wide = 0;
    for (uint64_t seed = 1; seed <= MODELS; seed++) {
        ckm_error err = CKM_ERROR_INIT;
        int n;
        onnx_builder *b = model(seed, expected, &n);
        const CkmOnnx__Graph *graph = ob_model(b)->graph;
        for (size_t i = 0; i < graph->n_node; i++) {
            note(graph->node[i]->op_type);
            n_wide += graph->node[i]->n_input > CKM_I_VIEW_INPUTS;
        }
        ckm_graph *g = ob_import(b, NULL, &err);
        ob_free(b);
        if (g == NULL) {
            fail_msg("model %llu: %s", (unsigned long long)seed, err.message);
        }
        check_shapes(g, seed, expected, n);
        ckm_graph_free(g);
    }
    assert_true(n_wide > 20);
}

static void every_operator_is_among_them(void **state)
{
    (void)state;
    static const char *const kinds[CKM_I_OP_KIND_COUNT] = {
#define NAME(kind) [CKM_I_OP_##kind] = #kind,
        CKM_I_OP_KINDS(NAME)
#undef NAME
    };
    const ckm_i_onnx_row *const tables[] = {ckm_i_onnx_rows_layers, ckm_i_onnx_rows_math, ckm_i_onnx_rows_shapes};
    static const char *const folded[] = {"Constant", "Shape", "Size", "Range", "ConstantOfShape", "NonZero"};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++) {
        for (const ckm_i_onnx_row *row = tables[t]; row->op_type != NULL; row++) {
            if (!was_seen(row->op_type)) {
                fail_msg("no model has a node %s: tests/support/onnx_generator_*.c make none", row->op_type);
            }
        }
    }
    for (int i = CKM_I_OP_NO_KIND + 1; i < CKM_I_OP_KIND_COUNT; i++) {
        const ckm_i_op_class *c = ckm_i_op_class_find(kinds[i]);
        if (c->onnx.op_type != NULL && !was_seen(c->onnx.op_type)) {
            fail_msg("no model has a node %s: tests/support/onnx_generator_*.c make none", c->onnx.op_type);
        }
    }
    for (size_t i = 0; i < sizeof folded / sizeof folded[0]; i++) {
        assert_true(was_seen(folded[i]));
    }
}

// Either a training graph with costs or an error that says why not.
static void training_graphs_hold_together(void **state)
{
    (void)state;
    int made = 0;
    for (uint64_t seed = 1; seed <= MODELS / 5; seed++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_training *training = NULL;
        ckm_dataflow *df = NULL;
        ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
        ckm_cost_model costs = CKM_COST_MODEL_INIT;
        onnx_builder *b = model(seed, NULL, NULL);
        ckm_graph *g = ob_import(b, NULL, &err);
        ob_free(b);
        assert_non_null(g);
        options.loss = CKM_LOSS_MSE;
        for (int layer = 0; layer < 2; layer++) {
            ckm_status status = layer ? ckm_autodiff_layer_graph(g, &training, &err)
                                      : ckm_autodiff_op_graph(g, &options, &training, &err);
            if (status != CKM_OK) {
                assert_int_equal(err.code, status);
                assert_true(status == CKM_ERR_UNSUPPORTED || status == CKM_ERR_FORMAT);
                assert_int_not_equal(err.message[0], '\0');
                continue;
            }
            if (ckm_cost_apply(training, &costs, &df, &err) != CKM_OK) {
                fail_msg("model %llu: %s", (unsigned long long)seed, err.message);
            }
            made += layer == 0;
            ckm_dataflow_free(df);
            ckm_training_free(training);
        }
        ckm_graph_free(g);
    }
    assert_true(made > 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_read),
        cmocka_unit_test(every_operator_is_among_them),
        cmocka_unit_test(training_graphs_hold_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
