// SPDX-License-Identifier: Apache-2.0
// One stage of a frontier-advancing schedule, by hand: what it computes, what that costs, what it holds.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "quoted.h"
#include "schedule/stages.h"

// A chain of four; the second runs only once.
static const char graph[] = "'fixed_bytes': 1000, 'tensors': [{'bytes': 3}, {'bytes': 4}, {'bytes': 8}, {'bytes': 16}],"
                            "'ops': [{'cost': 5, 'inputs': [], 'outputs': [0]},"
                            "{'cost': 7, 'inputs': [0], 'outputs': [1], 'recomputable': false},"
                            "{'cost': 11, 'inputs': [1], 'outputs': [2]},"
                            "{'cost': 13, 'inputs': [0, 2], 'outputs': [3]}], 'results': [3]";

typedef struct stage_case {
    int32_t t;
    uint64_t held, held_next;       // sets of tensors
    uint64_t computed, held_after;  // operators; what is held once the stage is closed
    int64_t cost, held_bytes, peak;
} stage_case;

static void a_stage_is_closed_at_the_least_cost(void **state)
{
    (void)state;
    static const stage_case cases[] = {
        {0, 0, 0, 1, 0, 5, 0, 1003},
        {0, 0, 1, 1, 0, 5, 0, 1003},
        {1, 0, 0, 3, 0, 12, 0, 1007},
        {1, 1, 2, 2, 1, 7, 3, 1007},
        // Operator 1 has run: what it gave must have been held.
        {2, 0, 0, 4, 2, 11, 4, 1012},
        {2, 3, 5, 4, 3, 11, 7, 1015},
        {3, 0, 8, 13, 2, 29, 4, 1027},
        {3, 5, 8, 8, 5, 13, 11, 1027},
        {3, 4, 8, 9, 4, 18, 8, 1027},
    };
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_walk *walk = NULL;
    ckm_dataflow *df = quoted_graph_of(graph);
    assert_int_equal(ckm_i_walk_create(df, &walk, &err), CKM_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const stage_case *c = &cases[i];
        uint64_t held = c->held;
        uint64_t computed = 0;
        assert_int_equal(ckm_i_walk_close(walk, c->t, &held, &c->held_next, &computed), c->cost);
        assert_int_equal(computed, c->computed);
        assert_int_equal(held, c->held_after);
        assert_int_equal(ckm_i_walk_held(walk, &held), c->held_bytes);
        if (ckm_i_walk_peak(walk, c->t, c->held_bytes, &held, &c->held_next, &computed) != c->peak) {
            fail_msg("case %zu: peak %lld", i,
                     (long long)ckm_i_walk_peak(walk, c->t, c->held_bytes, &held, &c->held_next, &computed));
        }
        // What neither the stage nor the next row needs is freed: here tensor 1 when no operator of the stage reads it.
        uint64_t needed = held | (c->t == 3 && (computed & 4U) == 0 ? 2U : 0U);
        ckm_i_walk_trim(walk, c->t, &needed, &c->held_next, &computed);
        assert_int_equal(needed, held);
    }
    ckm_i_walk_free(walk);
    ckm_i_walk_free(NULL);
    ckm_dataflow_free(df);
}

// A pair whose output is a view is declared here and must not be used.
static void views_take_nothing_over(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *st = NULL;
    ckm_schedule *s = NULL;
    ckm_verdict verdict;
    int64_t peak = -1;
    ckm_dataflow *df = quoted_graph_of(
        "'tensors': [{'bytes': 9}, {'bytes': 6}, {'bytes': 5, 'alias_of': 0}],"
        "'ops': [{'cost': 1, 'inputs': [], 'outputs': [1]}, {'cost': 1, 'inputs': [], 'outputs': [0]},"
        "        {'cost': 1, 'inputs': [1], 'outputs': [2], 'inplace': [[1, 2]]}], 'results': [2]");
    assert_int_equal(ckm_i_stages_create(df, &st, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_complete(st, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_peak(st, &peak, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_emit(st, &s, &err), CKM_OK);
    assert_int_equal(ckm_schedule_verify(df, s, peak, &verdict, &err), CKM_OK);
    assert_string_equal(verdict.why, "");
    assert_int_equal(verdict.peak_bytes, 15);
    assert_int_equal(peak, 15);
    ckm_schedule_free(s);
    ckm_i_stages_free(st);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stage_is_closed_at_the_least_cost),
        cmocka_unit_test(views_take_nothing_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
