// SPDX-License-Identifier: Apache-2.0
// The step graph while it is made: attributes, unique names, what an operator is marked with, views.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "autodiff/step.h"

static void attributes_are_put_replaced_and_removed(void **state)
{
    (void)state;
    ckm_i_attrs attrs = {0};
    ckm_shape shape = {3, {4, 5, 6}};
    ckm_i_attrs_put_int(&attrs, "a", 1);
    ckm_i_attrs_put_int(&attrs, "b", 2);
    ckm_i_attrs_put_shape(&attrs, "c", &shape);
    ckm_i_attrs_put_int(&attrs, "b", 7);
    assert_int_equal(attrs.n, 3);
    assert_string_equal(attrs.items[1].key, "b");
    assert_int_equal(attrs.items[1].n, 1);
    assert_int_equal(attrs.items[1].ints[0], 7);
    assert_int_equal(attrs.items[2].n, 3);
    assert_int_equal(attrs.items[2].ints[2], 6);
    ckm_i_attrs_remove(&attrs, "z");
    assert_int_equal(attrs.n, 3);
    ckm_i_attrs_remove(&attrs, "a");
    assert_int_equal(attrs.n, 2);
    assert_string_equal(attrs.items[0].key, "b");
    assert_string_equal(attrs.items[1].key, "c");
    // There is room for 24; one more is left out, and known ones can still be replaced.
    static char names[CKM_I_ATTRS_ROOM][4];
    for (int32_t i = 2; i < CKM_I_ATTRS_ROOM; i++) {
        snprintf(names[i], sizeof names[i], "k%d", (int)i);
        ckm_i_attrs_put_int(&attrs, names[i], i);
    }
    assert_int_equal(attrs.n, CKM_I_ATTRS_ROOM);
    ckm_i_attrs_put_int(&attrs, "over", 1);
    ckm_i_attrs_put_int(&attrs, names[CKM_I_ATTRS_ROOM - 1], 99);
    assert_int_equal(attrs.n, CKM_I_ATTRS_ROOM);
    assert_int_equal(attrs.items[CKM_I_ATTRS_ROOM - 1].ints[0], 99);
    // A copy begins anew.
    ckm_i_attr given = attrs.items[0];
    ckm_i_graph_op op = {.n_attrs = 1, .attrs = &given};
    ckm_i_attrs_copy(&attrs, &op);
    assert_int_equal(attrs.n, 1);
    assert_string_equal(attrs.items[0].key, "b");
}

// Enough operators of one name for the table of names to grow several times.
static void names_are_unique(void **state)
{
    (void)state;
    enum { N = 700 };
    ckm_graph *network = NULL;
    ckm_i_step s;
    ckm_error err = CKM_ERROR_INIT;
    ckm_shape shape = {2, {2, 3}};
    int32_t x = -1;
    assert_int_equal(ckm_i_graph_create("net", CKM_CHANNELS_LAST, 2, &network, &err), CKM_OK);
    assert_int_equal(ckm_i_step_init(&s, network, &err), CKM_OK);
    assert_true(s.output == -1 && s.class_axis == -1 && s.loss == -1 && s.correct == -1 && s.labels == -1);
    assert_int_equal(ckm_i_graph_add_tensor(s.graph, "x", CKM_ROLE_INPUT, CKM_F32, &shape, &x, &err), CKM_OK);
    for (int32_t i = 0; i < N; i++) {
        // Two names in turn, one with a suffix; both times the second one in the table needs a number.
        s.now = (ckm_i_step_mark){i % 3 == 0 ? CKM_I_BACKWARD : CKM_I_FORWARD, i};
        assert_int_equal(ckm_i_step_add(&s,
                                        &(ckm_i_step_op){.kind = "tanh",
                                                         .name = i % 2 == 0 ? "one" : "two",
                                                         .suffix = i % 2 == 0 ? NULL : ":more",
                                                         .inputs = {&x, 1},
                                                         .n_outputs = 1},
                                        &x, &err),
                         CKM_OK);
    }
    assert_int_equal(s.graph->n_ops, N);
    assert_int_equal(s.n_marks, N);
    for (int32_t i = 0; i < N; i++) {
        char expected[40];
        const char *base = i % 2 == 0 ? "one" : "two:more";
        snprintf(expected, sizeof expected, "%s#%d", base, (int)(i / 2 + 1));
        assert_string_equal(s.graph->ops[i].name, i < 2 ? base : expected);
        assert_int_equal(s.marks[i].source, i);
        assert_int_equal(s.marks[i].phase, i % 3 == 0 ? CKM_I_BACKWARD : CKM_I_FORWARD);
    }
    // At least half of the table is empty, or looking up takes long.
    assert_true(s.name_room >= 2 * N);
    assert_int_equal(s.name_room & (s.name_room - 1), 0);
    ckm_i_step_dispose(&s);
    assert_null(s.graph);
    ckm_graph_free(network);
}

static void kinds_of_numbers(void **state)
{
    (void)state;
    assert_true(ckm_i_dtype_is_float(CKM_F32));
    assert_true(ckm_i_dtype_is_float(CKM_F16));
    assert_true(ckm_i_dtype_is_float(CKM_BF16));
    assert_true(ckm_i_dtype_is_float(CKM_F64));
    assert_false(ckm_i_dtype_is_float(CKM_I32));
    assert_false(ckm_i_dtype_is_float(CKM_I64));
    assert_false(ckm_i_dtype_is_float(CKM_U8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attributes_are_put_replaced_and_removed),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(kinds_of_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
