// SPDX-License-Identifier: Apache-2.0
// The network graph: building it, what it refuses, what it answers.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/op_registry.h"

static ckm_graph *new_graph(ckm_layout layout, int64_t batch)
{
    ckm_graph *g = NULL;
    assert_int_equal(ckm_i_graph_create("net", layout, batch, &g, NULL), CKM_OK);
    return g;
}

static int32_t add_input(ckm_graph *g, ckm_shape shape)
{
    int32_t index = -1;
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &shape, &index, NULL), CKM_OK);
    return index;
}

static void graph_reads_back_what_was_added(void **state)
{
    (void)state;
    ckm_graph *g = new_graph(CKM_CHANNELS_LAST, 2);
    int32_t x = add_input(g, (ckm_shape){4, {2, 8, 6, 3}});
    ckm_shape bias = {1, {5}};
    ckm_shape weight = {4, {3, 3, 3, 5}};
    int32_t in[3] = {x, -1, -1};
    assert_int_equal(ckm_i_graph_add_tensor(g, "w", CKM_ROLE_PARAMETER, CKM_F32, &weight, &in[1], NULL), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "b", CKM_ROLE_PARAMETER, CKM_F32, &bias, &in[2], NULL), CKM_OK);
    int32_t y = -1;
    ckm_i_attr padding = ckm_i_attr_word("padding", "same");
    assert_int_equal(
        ckm_i_graph_add_op(
            g, &(ckm_i_new_op){.kind = "conv", .name = "c", .inputs = {in, 3}, .attrs = {&padding, 1}, .n_outputs = 1},
            &y, NULL),
        CKM_OK);
    int32_t pooled[2] = {-1, -1};
    int64_t two[2] = {2, 2};
    ckm_i_attr pool[2] = {ckm_i_attr_ints("kernel", two, 2), ckm_i_attr_ints("strides", two, 2)};
    assert_int_equal(
        ckm_i_graph_add_op(
            g, &(ckm_i_new_op){.kind = "max_pool", .name = "p", .inputs = {&y, 1}, .attrs = {pool, 2}, .n_outputs = 2},
            pooled, NULL),
        CKM_OK);

    assert_string_equal(ckm_graph_name(g), "net");
    assert_int_equal(ckm_graph_layout(g), CKM_CHANNELS_LAST);
    assert_int_equal(ckm_graph_batch(g), 2);
    assert_int_equal(ckm_graph_op_count(g), 2);
    assert_int_equal(ckm_graph_tensor_count(g), 6);
    ckm_graph_op_info c = ckm_graph_get_op(g, 0);
    assert_string_equal(c.name, "c");
    assert_string_equal(c.kind, "conv");
    assert_int_equal(c.n_inputs, 3);
    assert_int_equal(c.inputs[2], in[2]);
    assert_int_equal(c.outputs[0], y);
    ckm_graph_tensor_info t = ckm_graph_get_tensor(g, y);
    assert_string_equal(t.name, "c");
    assert_int_equal(t.role, CKM_ROLE_ACTIVATION);
    assert_int_equal(t.producer, 0);
    assert_int_equal(t.shape.rank, 4);
    assert_int_equal(t.shape.dims[1], 8);
    assert_int_equal(t.shape.dims[2], 6);
    assert_int_equal(t.shape.dims[3], 5);
    ckm_graph_tensor_info indices = ckm_graph_get_tensor(g, pooled[1]);
    assert_string_equal(indices.name, "p:1");
    assert_int_equal(indices.dtype, CKM_I64);
    assert_int_equal(indices.shape.dims[1], 4);
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_PARAMETER), 3 * 3 * 3 * 5 + 5);
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_STATE), 0);
    ckm_graph_free(g);
    ckm_graph_free(NULL);
}

// Every refusal leaves the graph as it was and names what is wrong.
static void bad_tensors_are_refused(void **state)
{
    (void)state;
    static const struct {
        ckm_tensor_role role;
        ckm_dtype dtype;
        ckm_shape shape;
        ckm_status status;
        const char *word;
    } cases[] = {
        {CKM_ROLE_INPUT, CKM_F32, {2, {2, 0}}, CKM_ERR_FORMAT, "dimension 1 is 0"},
        {CKM_ROLE_PARAMETER, CKM_F32, {2, {-3, 2}}, CKM_ERR_FORMAT, "dimension 0 is -3"},
        {CKM_ROLE_CONSTANT, CKM_F32, {1, {-1}}, CKM_ERR_FORMAT, "dimension 0 is -1"},
        {CKM_ROLE_INPUT, CKM_F32, {9, {1, 1, 1, 1, 1, 1, 1, 1}}, CKM_ERR_FORMAT, "9 dimensions"},
        {CKM_ROLE_INPUT, CKM_F32, {-1, {0}}, CKM_ERR_FORMAT, "-1 dimensions"},
        {CKM_ROLE_INPUT, CKM_F32, {2, {INT64_C(1) << 62, 2}}, CKM_ERR_OVERFLOW, "63 bits"},
        {CKM_ROLE_INPUT, CKM_F32, {1, {INT64_C(1) << 61}}, CKM_ERR_OVERFLOW, "63 bits"},
        {CKM_ROLE_INPUT, (ckm_dtype)99, {1, {1}}, CKM_ERR_ARGUMENT, "element type"},
        {CKM_ROLE_ACTIVATION, CKM_F32, {1, {1}}, CKM_ERR_ARGUMENT, "activations"},
    };
    ckm_graph *g = new_graph(CKM_CHANNELS_LAST, 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        int32_t index = 77;
        ckm_status status = ckm_i_graph_add_tensor(g, "bad-one", cases[i].role, cases[i].dtype, &cases[i].shape, &index,
                                                   &err);
        assert_int_equal(status, cases[i].status);
        assert_int_equal(err.code, cases[i].status);
        assert_non_null(strstr(err.message, cases[i].word));
        assert_non_null(strstr(err.message, "bad-one"));
        assert_int_equal(index, 77);
        assert_int_equal(ckm_graph_tensor_count(g), 0);
    }
    ckm_shape empty = {1, {0}};
    int32_t index;
    assert_int_equal(ckm_i_graph_add_tensor(g, "", CKM_ROLE_CONSTANT, CKM_F32, &empty, &index, NULL), CKM_OK);
    ckm_graph_free(g);
}

static void bad_operators_are_refused(void **state)
{
    (void)state;
    ckm_graph *g = new_graph(CKM_CHANNELS_LAST, 1);
    int32_t x = add_input(g, (ckm_shape){4, {1, 4, 4, 2}});
    static const struct {
        const char *kind;
        int32_t n_inputs, inputs[3], n_outputs;
        ckm_status status;
        const char *word;
    } cases[] = {
        {"warp", 1, {0}, 1, CKM_ERR_UNSUPPORTED, "\"warp\" is not known"},
        {"relu", 0, {0}, 1, CKM_ERR_FORMAT, "has 0 inputs; it takes 1 to 1"},
        {"relu", 2, {0, 0}, 1, CKM_ERR_FORMAT, "has 2 inputs"},
        {"add", 1, {0}, 1, CKM_ERR_FORMAT, "it takes 2 to any number"},
        {"relu", 1, {1}, 1, CKM_ERR_FORMAT, "input 0 names tensor 1 of 1"},
        {"relu", 1, {-2}, 1, CKM_ERR_FORMAT, "input 0 names tensor -2 of 1"},
        {"relu", 1, {-1}, 1, CKM_ERR_FORMAT, "input 0 is missing"},
        {"relu", 1, {0}, 0, CKM_ERR_FORMAT, "has 0 outputs"},
        {"relu", 1, {0}, 2, CKM_ERR_FORMAT, "has 2 outputs"},
        {"add", 3, {0, 0, -1}, 1, CKM_ERR_FORMAT, "operand 2 is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        int32_t out[2] = {55, 55};
        ckm_status status = ckm_i_graph_add_op(g,
                                               &(ckm_i_new_op){.kind = cases[i].kind,
                                                               .name = "bad-op",
                                                               .inputs = {cases[i].inputs, cases[i].n_inputs},
                                                               .n_outputs = cases[i].n_outputs},
                                               out, &err);
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr(err.message, cases[i].word));
        assert_non_null(strstr(err.message, "bad-op"));
        assert_int_equal(out[0], 55);
        assert_int_equal(ckm_graph_op_count(g), 0);
        assert_int_equal(ckm_graph_tensor_count(g), 1);
    }
    assert_int_equal(x, 0);
    ckm_graph_free(g);

    ckm_graph *none = NULL;
    assert_int_equal(ckm_i_graph_create("n", CKM_CHANNELS_LAST, 0, &none, NULL), CKM_ERR_ARGUMENT);
    assert_int_equal(ckm_i_graph_create("n", CKM_CHANNELS_LAST, -5, &none, NULL), CKM_ERR_ARGUMENT);
    assert_null(none);
}

static void an_operator_may_have_more_inputs_than_the_view(void **state)
{
    (void)state;
    ckm_graph *g = new_graph(CKM_CHANNELS_LAST, 1);
    int32_t x = add_input(g, (ckm_shape){4, {1, 2, 2, 3}});
    int32_t many[100];
    for (int i = 0; i < 100; i++) {
        many[i] = x;
    }
    int32_t y;
    assert_int_equal(
        ckm_i_graph_add_op(g, &(ckm_i_new_op){.kind = "concat", .name = "c", .inputs = {many, 100}, .n_outputs = 1}, &y,
                           NULL),
        CKM_OK);
    assert_int_equal(ckm_graph_get_tensor(g, y).shape.dims[3], 300);
    many[99] = -1;
    assert_int_equal(
        ckm_i_graph_add_op(g, &(ckm_i_new_op){.kind = "concat", .name = "c", .inputs = {many, 100}, .n_outputs = 1}, &y,
                           NULL),
        CKM_ERR_FORMAT);
    ckm_graph_free(g);
}

static void attributes_are_found_and_cut_to_size(void **state)
{
    (void)state;
    int64_t many[CKM_I_ATTR_MAX + 4] = {7, 8};
    ckm_i_attr attrs[3] = {ckm_i_attr_ints("a", many, CKM_I_ATTR_MAX + 4), ckm_i_attr_real("b", 0.5),
                           ckm_i_attr_word("c", "a word that is much longer than there is room for")};
    ckm_i_graph_op op = {.n_attrs = 3, .attrs = attrs};
    assert_int_equal(ckm_i_op_attr(&op, "a")->n, CKM_I_ATTR_MAX);
    assert_int_equal(ckm_i_op_attr_int(&op, "a", 1, -1), 8);
    assert_int_equal(ckm_i_op_attr_int(&op, "a", CKM_I_ATTR_MAX, -1), -1);
    assert_int_equal(ckm_i_op_attr_int(&op, "b", 0, -1), -1);
    assert_true(ckm_i_op_attr_double(&op, "b", 0.0) == 0.5);
    assert_true(ckm_i_op_attr_double(&op, "a", 2.0) == 2.0);
    assert_int_equal(strlen(ckm_i_op_attr_text(&op, "c", "")), 31);
    assert_string_equal(ckm_i_op_attr_text(&op, "d", "none"), "none");
    assert_null(ckm_i_op_attr(&op, "d"));
}

static void shapes_print_and_count(void **state)
{
    (void)state;
    char text[64];
    ckm_shape scalar = {0};
    ckm_shape image = {4, {32, 224, 224, 3}};
    assert_string_equal(ckm_i_shape_text(&scalar, text, sizeof text), "scalar");
    assert_string_equal(ckm_i_shape_text(&image, text, sizeof text), "32x224x224x3");
    assert_int_equal(strlen(ckm_i_shape_text(&image, text, 5)), 4);
    int64_t elements = -1;
    assert_int_equal(ckm_i_shape_elements(&scalar, &elements, NULL), CKM_OK);
    assert_int_equal(elements, 1);
    assert_int_equal(ckm_i_shape_elements(&image, &elements, NULL), CKM_OK);
    assert_int_equal(elements, 4816896);
    assert_int_equal(ckm_i_dtype_bytes(CKM_F32), 4);
    assert_int_equal(ckm_i_dtype_bytes(CKM_BF16), 2);
    assert_int_equal(ckm_i_dtype_bytes(CKM_F64), 8);
    assert_int_equal(ckm_i_dtype_bytes(CKM_BOOL), 1);
}

#define COLLECT(group) ckm_i_ops_##group,
static void kinds_are_unique_and_found(void **state)
{
    (void)state;
    const ckm_i_op_class *const groups[] = {CKM_I_OP_GROUPS(COLLECT)};
    int n = 0;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (const ckm_i_op_class *c = groups[i]; c->kind != NULL; c++) {
            // A kind listed twice would be found at its first place only.
            assert_ptr_equal(ckm_i_op_class_find(c->kind), c);
            assert_non_null(c->infer);
            assert_true(c->min_inputs <= 64);
            n++;
        }
    }
    assert_true(n >= 45);
    assert_null(ckm_i_op_class_find(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graph_reads_back_what_was_added),
        cmocka_unit_test(bad_tensors_are_refused),
        cmocka_unit_test(bad_operators_are_refused),
        cmocka_unit_test(an_operator_may_have_more_inputs_than_the_view),
        cmocka_unit_test(attributes_are_found_and_cut_to_size),
        cmocka_unit_test(shapes_print_and_count),
        cmocka_unit_test(kinds_are_unique_and_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
