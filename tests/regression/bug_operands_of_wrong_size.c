// SPDX-License-Identifier: Apache-2.0
// Operands whose size only the kernels relied on: training read past an empty operand of Einsum and past an empty limit of
// Clip, and took the first number of several for a limit.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

typedef struct misfit {
    const char *kind;
    const char *equation;  // NULL: no attribute
    ckm_dtype dtype;       // of the second operand
    ckm_shape x, second;
    const char *word;
} misfit;

static const misfit misfits[] = {
    {"einsum", "abc,cd->abd", CKM_F32, {3, {1, 4, 6}}, {2, {0, 5}}, "operand 1 of shape 0x5"},
    {"einsum", "cd,abc->abd", CKM_F32, {2, {0, 5}}, {3, {1, 4, 6}}, "operand 0 of shape 0x5"},
    {"clip", NULL, CKM_F32, {2, {2, 3}}, {1, {0}}, "operand 1 must be one number"},
    {"clip", NULL, CKM_F32, {2, {2, 3}}, {1, {3}}, "operand 1 must be one number"},
    {"clip", NULL, CKM_I64, {2, {2, 3}}, {0, {0}}, "operand 1 must be one number"},
    {"prelu", NULL, CKM_F32, {3, {2, 3, 1}}, {3, {1, 3, 4}}, "slope of shape 1x3x4"},
    {"layer_norm", NULL, CKM_F32, {2, {4, 1}}, {1, {5}}, "scale or bias of shape 5"},
};

static ckm_status add(const misfit *m, ckm_error *err)
{
    ckm_graph *g = NULL;
    int32_t in[2];
    int32_t y;
    ckm_i_attr attr = ckm_i_attr_word("equation", m->equation != NULL ? m->equation : "");
    assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_FIRST, 1, &g, err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_CONSTANT, CKM_F32, &m->x, &in[0], err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "s", CKM_ROLE_CONSTANT, m->dtype, &m->second, &in[1], err), CKM_OK);
    ckm_status status = ckm_i_graph_add_op(
        g,
        &(ckm_i_new_op){
            .kind = m->kind, .name = "op", .inputs = {in, 2}, .attrs = {&attr, m->equation != NULL}, .n_outputs = 1},
        &y, err);
    ckm_graph_free(g);
    return status;
}

static void misfits_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        assert_int_equal(add(&misfits[i], &err), CKM_ERR_FORMAT);
        if (strstr(err.message, misfits[i].word) == NULL) {
            fail_msg("%d: expected \"%s\", got %s", (int)i, misfits[i].word, err.message);
        }
    }
}

static void what_fits_is_taken(void **state)
{
    (void)state;
    static const misfit fits[] = {
        {"einsum", "abc,cd->abd", CKM_F32, {3, {1, 4, 6}}, {2, {1, 5}}, NULL},
        {"clip", NULL, CKM_F32, {2, {2, 3}}, {0, {0}}, NULL},
        {"clip", NULL, CKM_F32, {2, {2, 3}}, {2, {1, 1}}, NULL},
        {"prelu", NULL, CKM_F32, {3, {2, 3, 4}}, {2, {3, 1}}, NULL},
        {"prelu", NULL, CKM_F32, {3, {2, 3, 4}}, {1, {3}}, NULL},
        {"layer_norm", NULL, CKM_F32, {3, {2, 3, 4}}, {1, {4}}, NULL},
        {"layer_norm", NULL, CKM_F32, {3, {2, 3, 4}}, {2, {3, 4}}, NULL},
    };
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        if (add(&fits[i], &err) != CKM_OK) {
            fail_msg("%d: %s", (int)i, err.message);
        }
    }
}

// Kinds that look at the last two axes, or at the channels, of what has none.
static void operands_of_few_dimensions_are_refused(void **state)
{
    (void)state;
    static const char *const kinds[] = {"triangle", "local_response_norm"};
    const ckm_shape scalar = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = NULL;
        int32_t x;
        int32_t y;
        assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_FIRST, 1, &g, &err), CKM_OK);
        assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &scalar, &x, &err), CKM_OK);
        assert_int_equal(
            ckm_i_graph_add_op(g, &(ckm_i_new_op){.kind = kinds[i], .name = "op", .inputs = {&x, 1}, .n_outputs = 1},
                               &y, &err),
            CKM_ERR_FORMAT);
        ckm_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_refused),
        cmocka_unit_test(what_fits_is_taken),
        cmocka_unit_test(operands_of_few_dimensions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
