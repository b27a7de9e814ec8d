// SPDX-License-Identifier: Apache-2.0
// The layer-level training graph: operators, edges, bytes, on networks small enough to write down.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/zoo.h>

#include "graph/training.h"

static void assert_op(const ckm_training *t, int32_t op, const char *name, ckm_i_phase phase, int32_t source,
                      const int32_t *inputs, int32_t n)
{
    const ckm_i_training_op *o = &t->ops[op];
    assert_string_equal(o->name, name);
    assert_int_equal(o->phase, phase);
    assert_int_equal(o->source, source);
    assert_int_equal(o->n_inputs, n);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(o->inputs[i], inputs[i]);
    }
    assert_int_equal(o->n_outputs, 1);
    assert_int_equal(o->outputs[0], op);
}

#define VALUES(...) (const int32_t[]){__VA_ARGS__}, (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

// in_conv 0, conv1 1, conv2 2, addc1c2 3, flatten 4, predictions 5; loss 6; gradients 7 to 12.
static void a_network_with_a_branch(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_zoo_build("test", 3, NULL, &g, &err), CKM_OK);
    assert_int_equal(ckm_autodiff_layer_graph(g, &t, &err), CKM_OK);
    assert_string_equal(t->name, "test");
    assert_int_equal(t->n_ops, 13);
    assert_int_equal(t->n_values, 13);
    assert_op(t, 0, "in_conv", CKM_I_FORWARD, 0, NULL, 0);
    assert_op(t, 1, "conv1", CKM_I_FORWARD, 1, VALUES(0));
    assert_op(t, 2, "conv2", CKM_I_FORWARD, 2, VALUES(0));
    assert_op(t, 3, "addc1c2", CKM_I_FORWARD, 3, VALUES(1, 2));
    assert_op(t, 4, "flatten", CKM_I_FORWARD, 4, VALUES(3));
    assert_op(t, 5, "predictions", CKM_I_FORWARD, 5, VALUES(4));
    assert_op(t, 6, "loss", CKM_I_LOSS, -1, VALUES(5));
    assert_op(t, 7, "predictions_grad", CKM_I_BACKWARD, 5, VALUES(5, 6));
    assert_op(t, 8, "flatten_grad", CKM_I_BACKWARD, 4, VALUES(4, 5, 7));
    assert_op(t, 9, "addc1c2_grad", CKM_I_BACKWARD, 3, VALUES(3, 4, 8));
    assert_op(t, 10, "conv2_grad", CKM_I_BACKWARD, 2, VALUES(2, 3, 9));
    assert_op(t, 11, "conv1_grad", CKM_I_BACKWARD, 1, VALUES(1, 3, 9));
    assert_op(t, 12, "in_conv_grad", CKM_I_BACKWARD, 0, VALUES(0, 1, 2, 10, 11));
    static const int64_t elements[] = {222 * 222 * 64, 222 * 222 * 128, 222 * 222 * 128, 222 * 222 * 128, 128, 1000};
    for (int32_t i = 0; i < 6; i++) {
        assert_int_equal(t->values[i].bytes, 3 * 4 * elements[i]);
        assert_int_equal(t->values[12 - i].bytes, 3 * 4 * elements[i]);
    }
    assert_int_equal(t->values[6].bytes, 3 * 4);
    assert_int_equal(t->fixed_bytes, 2 * 4 * 147432);
    ckm_training_free(t);
    ckm_graph_free(g);
    ckm_training_free(NULL);
}

static int32_t add(ckm_graph *g, const char *kind, const char *name, const int32_t *in, int32_t n_in, int32_t n_out)
{
    int32_t out[2] = {-1, -1};
    int64_t two[2] = {2, 2};
    ckm_i_attr kernel = ckm_i_attr_ints("kernel", two, 2);
    assert_int_equal(
        ckm_i_graph_add_op(
            g,
            &(ckm_i_new_op){
                .kind = kind, .name = name, .inputs = {in, n_in}, .attrs = {&kernel, 1}, .n_outputs = n_out},
            out, NULL),
        CKM_OK);
    return out[0];
}

// Several outputs of one operator, an operand given twice, a state, an input read late, two results.
static void an_imported_kind_of_network(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    ckm_shape image = {4, {2, 3, 5, 5}};
    ckm_shape channels = {1, {3}};
    int32_t x;
    int32_t mean;
    int32_t half;
    assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_FIRST, 2, &g, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &image, &x, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "m", CKM_ROLE_STATE, CKM_F64, &channels, &mean, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "h", CKM_ROLE_CONSTANT, CKM_F32, &channels, &half, &err), CKM_OK);
    int32_t norm = add(g, "batch_norm", "norm", (const int32_t[]){x, -1, -1, mean}, 4, 1);
    int32_t pool = add(g, "max_pool", "pool", &norm, 1, 2);
    int32_t twice = add(g, "add", "twice", (const int32_t[]){pool, pool}, 2, 1);
    int32_t aside = add(g, "relu", "aside", &x, 1, 1);
    int32_t last = add(g, "concat", "last", (const int32_t[]){twice, pool}, 2, 1);
    assert_true(aside >= 0 && last >= 0);
    assert_int_equal(ckm_autodiff_layer_graph(g, &t, &err), CKM_OK);
    assert_int_equal(t->n_ops, 11);
    assert_op(t, 0, "norm", CKM_I_FORWARD, 0, NULL, 0);
    assert_op(t, 1, "pool", CKM_I_FORWARD, 1, VALUES(0));
    assert_op(t, 2, "twice", CKM_I_FORWARD, 2, VALUES(1));
    assert_op(t, 3, "aside", CKM_I_FORWARD, 3, NULL, 0);
    assert_op(t, 4, "last", CKM_I_FORWARD, 4, VALUES(2, 1));
    assert_op(t, 5, "loss", CKM_I_LOSS, -1, VALUES(3, 4));
    assert_op(t, 6, "last_grad", CKM_I_BACKWARD, 4, VALUES(4, 5));
    assert_op(t, 7, "aside_grad", CKM_I_BACKWARD, 3, VALUES(3, 5));
    assert_op(t, 8, "twice_grad", CKM_I_BACKWARD, 2, VALUES(2, 4, 6));
    assert_op(t, 9, "pool_grad", CKM_I_BACKWARD, 1, VALUES(1, 2, 4, 6, 8));
    assert_op(t, 10, "norm_grad", CKM_I_BACKWARD, 0, VALUES(0, 1, 9));
    assert_int_equal(t->values[1].bytes, 2 * 3 * 4 * 4 * (4 + 8));
    assert_int_equal(t->values[9].bytes, t->values[1].bytes);
    assert_int_equal(t->values[5].bytes, 8);
    // The state counts, the constant does not.
    assert_int_equal(t->fixed_bytes, 2 * 8 * 3);
    ckm_training_free(t);
    ckm_graph_free(g);
}

static void what_cannot_be_trained(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_graph_create("empty", CKM_CHANNELS_FIRST, 2, &g, &err), CKM_OK);
    assert_int_equal(ckm_autodiff_layer_graph(g, &t, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"empty\" has no operators"));
    ckm_graph_free(g);

    // Each parameter fits, twice their sum does not.
    ckm_shape huge = {1, {INT64_C(1) << 60}};
    int32_t in[2];
    int32_t y;
    assert_int_equal(ckm_i_graph_create("huge", CKM_CHANNELS_FIRST, 1, &g, &err), CKM_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ckm_i_graph_add_tensor(g, "p", CKM_ROLE_PARAMETER, CKM_F32, &huge, &in[i], &err), CKM_OK);
    }
    assert_int_equal(ckm_i_graph_add_op(
                         g, &(ckm_i_new_op){.kind = "add", .name = "sum", .inputs = {in, 2}, .n_outputs = 1}, &y, &err),
                     CKM_OK);
    assert_int_equal(ckm_autodiff_layer_graph(g, &t, &err), CKM_ERR_OVERFLOW);
    assert_non_null(strstr(err.message, "parameters"));
    assert_null(t);
    ckm_graph_free(g);
}

static void training_graphs_check_their_parts(void **state)
{
    (void)state;
    ckm_graph *g = NULL;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    int32_t v = -1;
    assert_int_equal(ckm_zoo_build("linear0", 1, NULL, &g, &err), CKM_OK);
    assert_int_equal(ckm_i_training_create(g, "t", &t, &err), CKM_OK);
    assert_int_equal(ckm_i_training_add_value(t, "v", -1, -1, &v, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_i_training_add_value(t, "v", 4, 0, &v, &err), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_i_training_add_value(t, "v", 4, -1, &v, &err), CKM_OK);
    assert_int_equal(v, 0);
    int32_t none = 1;
    assert_int_equal(
        ckm_i_training_add_op(
            t,
            &(ckm_i_new_training_op){
                .name = "o", .phase = CKM_I_FORWARD, .source = 0, .inputs = {&none, 1}, .outputs = {&v, 1}},
            &err),
        CKM_ERR_ARGUMENT);
    assert_int_equal(
        ckm_i_training_add_op(
            t, &(ckm_i_new_training_op){.name = "o", .phase = CKM_I_FORWARD, .source = 0, .outputs = {&none, 1}}, &err),
        CKM_ERR_ARGUMENT);
    assert_int_equal(
        ckm_i_training_add_op(
            t, &(ckm_i_new_training_op){.name = "o", .phase = CKM_I_FORWARD, .source = 2, .outputs = {&v, 1}}, &err),
        CKM_ERR_ARGUMENT);
    assert_int_equal(t->n_ops, 0);
    ckm_training_free(t);
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_network_with_a_branch),
        cmocka_unit_test(an_imported_kind_of_network),
        cmocka_unit_test(what_cannot_be_trained),
        cmocka_unit_test(training_graphs_check_their_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
