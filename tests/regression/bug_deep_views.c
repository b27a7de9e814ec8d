// SPDX-License-Identifier: Apache-2.0
// How many rows a look-up's positions may name was found by a function that called itself for every operator between
// the data and the look-up: a file with many of them overran the stack.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "graph/graph.h"
#include "run/session/session.h"

static void limits_come_through_any_number_of_views(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    ckm_error err = CKM_ERROR_INIT;
    ckm_graph *g = NULL;
    const ckm_shape tokens = {1, {4}};
    const ckm_shape tables[2] = {{2, {70, 3}}, {2, {50, 3}}};
    int32_t first;
    int32_t other;
    int32_t table;
    int32_t y;
    assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_LAST, 4, &g, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "tokens", CKM_ROLE_INPUT, CKM_I64, &tokens, &first, &err), CKM_OK);
    assert_int_equal(ckm_i_graph_add_tensor(g, "unread", CKM_ROLE_INPUT, CKM_I64, &tokens, &other, &err), CKM_OK);
    int32_t at = first;
    for (int k = 0; k < 2; k++) {  // one table near the data, a smaller one far away
        assert_int_equal(ckm_i_graph_add_tensor(g, "table", CKM_ROLE_PARAMETER, CKM_F32, &tables[k], &table, &err),
                         CKM_OK);
        assert_int_equal(ckm_i_graph_add_op(g,
                                            &(ckm_i_new_op){.kind = "gather",
                                                            .name = "look_up",
                                                            .inputs = {(const int32_t[]){table, at}, 2},
                                                            .n_outputs = 1},
                                            &y, &err),
                         CKM_OK);
        assert_int_equal(ckm_i_session_value_limit(g, first), tables[k].dims[0]);
        for (int i = 0; k == 0 && i < DEPTH; i++) {
            assert_int_equal(
                ckm_i_graph_add_op(
                    g, &(ckm_i_new_op){.kind = "identity", .name = "view", .inputs = {&at, 1}, .n_outputs = 1}, &at,
                    &err),
                CKM_OK);
        }
    }
    assert_int_equal(ckm_i_session_value_limit(g, other), 0);
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_come_through_any_number_of_views),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
