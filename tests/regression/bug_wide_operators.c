// SPDX-License-Identifier: Apache-2.0
// Operators with more inputs than the view of an operator has room for: Sum, Mean, Max and Min of a file read past it,
// and crashed or took what lay behind for a shape.
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

#include "graph/graph.h"
#include "graph/op_registry.h"
#include "onnx_builder.h"

static const char *const kinds[] = {"Sum", "Mean", "Max", "Min"};
enum { N_KINDS = sizeof kinds / sizeof kinds[0], MOST = 1000 };

// x times a matrix, a parameter of 3 numbers many times, and as the last of n operands one that makes the result 2x5x3.
static ckm_graph *wide_network(const char *kind, int n)
{
    static char inputs[MOST * 2 + 16];
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,1,3");
    ob_leaves(b, "w=3,3;p=3;l=2,5,1");
    ob_node(b, "MatMul", "x,w", "r");
    strcpy(inputs, "r");
    for (int i = 1; i + 1 < n; i++) {
        strcat(inputs, ",p");
    }
    strcat(inputs, ",l");
    ob_node(b, kind, inputs, "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    ob_free(b);
    if (g == NULL) {
        fail_msg("%s of %d: %s", kind, n, err.message);
    }
    return g;
}

static void all_inputs_give_the_shape(void **state)
{
    (void)state;
    static const int counts[] = {2, 64, 65, 66, 100, MOST};
    for (size_t k = 0; k < N_KINDS * sizeof counts / sizeof counts[0]; k++) {
        int n = counts[k / N_KINDS];
        ckm_graph *g = wide_network(kinds[k % N_KINDS], n);
        ckm_graph_op_info op = ckm_graph_get_op(g, 1);
        ckm_graph_tensor_info y = ckm_graph_get_tensor(g, op.outputs[0]);
        assert_int_equal(op.n_inputs, n);
        assert_int_equal(y.shape.rank, 3);
        assert_int_equal(y.shape.dims[0], 2);
        assert_int_equal(y.shape.dims[1], 5);
        assert_int_equal(y.shape.dims[2], 3);
        ckm_graph_free(g);
    }
}

static void a_misfit_behind_the_view_is_named(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    ckm_shape three = {1, {3}};
    ckm_shape four = {1, {4}};
    int32_t inputs[80];
    int32_t y;
    assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_FIRST, 1, &g, &err), CKM_OK);
    for (int32_t i = 0; i < 80; i++) {
        assert_int_equal(
            ckm_i_graph_add_tensor(g, "t", CKM_ROLE_INPUT, CKM_F32, i == 79 ? &four : &three, &inputs[i], &err),
            CKM_OK);
    }
    assert_int_equal(
        ckm_i_graph_add_op(
            g, &(ckm_i_new_op){.kind = "maximum", .name = "wide", .inputs = {inputs, 80}, .n_outputs = 1}, &y, &err),
        CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"wide\" (maximum)"));
    ckm_graph_free(g);
}

// Training ran into an operand that is left out, which only the shape did without.
static void operands_left_out_are_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_KINDS; k++) {
        ckm_error err = CKM_ERROR_INIT;
        onnx_builder *b = ob_create(13);
        ob_input(b, "x", OB_FLOAT, "2,3");
        ob_node(b, kinds[k], "x,,x", "y");
        ob_output(b, "y");
        assert_null(ob_import(b, NULL, &err));
        assert_non_null(strstr(err.message, "operand 1 is missing"));
        ob_free(b);
    }
}

// What uses the view after the import: both training graphs, and the costs counted and predicted for them.
static void training_graphs_and_costs(void **state)
{
    (void)state;
    for (size_t k = 0; k < N_KINDS; k++) {
        ckm_graph *g = wide_network(kinds[k], 150);
        for (int layer = 0; layer < 2; layer++) {
            ckm_error err = CKM_ERROR_INIT;
            ckm_training *training = NULL;
            ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
            options.loss = CKM_LOSS_MSE;
            ckm_status status = layer ? ckm_autodiff_layer_graph(g, &training, &err)
                                      : ckm_autodiff_op_graph(g, &options, &training, &err);
            if (status != CKM_OK) {
                fail_msg("%s: %s", kinds[k], err.message);
            }
            for (int device = 0; device < 2; device++) {
                ckm_cost_model model = CKM_COST_MODEL_INIT;
                ckm_dataflow *df = NULL;
                model.kind = device ? CKM_COST_MODEL_DEVICE : CKM_COST_MODEL_FLOPS;
                model.device = ckm_device_at(0);
                assert_int_equal(ckm_cost_apply(training, &model, &df, &err), CKM_OK);
                assert_true(ckm_dataflow_total_cost(df) > 0);
                ckm_dataflow_free(df);
            }
            ckm_training_free(training);
        }
        ckm_graph_free(g);
    }
}

// Every class, so that a new one that takes any number of inputs cannot read past its view either.
static void every_class_keeps_to_its_view(void **state)
{
    (void)state;
    enum { WIDE = 300 };
#define GROUP(group) ckm_i_ops_##group,
    const ckm_i_op_class *const groups[] = {CKM_I_OP_GROUPS(GROUP)};
#undef GROUP
    const ckm_shape shape = {3, {2, 3, 4}};
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    int32_t inputs[WIDE];
    int checked = 0;
    assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_FIRST, 2, &g, &err), CKM_OK);
    for (int32_t i = 0; i < WIDE; i++) {
        assert_int_equal(ckm_i_graph_add_tensor(g, "t", CKM_ROLE_INPUT, CKM_F32, &shape, &inputs[i], &err), CKM_OK);
    }
    for (size_t k = 0; k < sizeof groups / sizeof groups[0]; k++) {
        for (const ckm_i_op_class *c = groups[k]; c->kind != NULL; c++) {
            int32_t y;
            int64_t macs;
            ckm_i_op_view view;
            if (c->max_inputs >= 0) {
                assert_true(c->max_inputs <= CKM_I_VIEW_INPUTS);
                continue;
            }
            checked++;
            if (ckm_i_graph_add_op(
                    g, &(ckm_i_new_op){.kind = c->kind, .name = "wide", .inputs = {inputs, WIDE}, .n_outputs = 1}, &y,
                    &err) != CKM_OK) {
                fail_msg("%s: %s", c->kind, err.message);
            }
            assert_int_equal(ckm_i_op_view_init(g, ckm_graph_op_count(g) - 1, &view, &err), CKM_OK);
            if (c->macs != NULL) {
                assert_int_equal(c->macs(&view, &macs, &err), CKM_OK);
            }
        }
    }
    assert_true(checked >= 6);
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_inputs_give_the_shape),     cmocka_unit_test(a_misfit_behind_the_view_is_named),
        cmocka_unit_test(operands_left_out_are_refused), cmocka_unit_test(training_graphs_and_costs),
        cmocka_unit_test(every_class_keeps_to_its_view),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
