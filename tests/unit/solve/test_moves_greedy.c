// SPDX-License-Identifier: Apache-2.0
// Moving alone: legal schedules within the budget that compute everything once, down to where nothing that rests is held.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dataflow/dataflow.h"
#include "oracle_random.h"
#include "quoted.h"
#include "solve/moves/moves_graph.h"
#include "solve/moves/moves_expand.h"
#include "solve/moves/moves_greedy.h"
#include "solve/moves/moves_lift.h"

static ckm_schedule *greedy(const ckm_dataflow *df, int64_t budget, bool *moved, ckm_schedule **lowered)
{
    ckm_schedule *s = NULL;
    ckm_error err = CKM_ERROR_INIT;
    bool *can = calloc((size_t)df->n_tensors, sizeof *can);
    assert_non_null(can);
    ckm_i_moves_which(df, can);
    if (ckm_i_moves_greedy(df, can, budget, moved, &s, lowered, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    free(can);
    return s;
}

// a (100) -> b (10) -> c (80) -> d (10), which reads a again: a rests while c is made, and goes, as nothing less does.
static void what_rests_goes(void **state)
{
    (void)state;
    static const char text[] =
        "{'format': 'checkmate-graph', 'version': 2, 'cost_unit': 'ns',"
        " 'second_memory': {'out_bytes_per_second': 1000000000, 'in_bytes_per_second': 500000000},"
        " 'tensors': [{'bytes': 100}, {'bytes': 10}, {'bytes': 80}, {'bytes': 10}, {'bytes': 10}],"
        " 'ops': [{'cost': 7, 'inputs': [], 'outputs': [0]}, {'cost': 7, 'inputs': [0], 'outputs': [1]},"
        "         {'cost': 7, 'inputs': [1], 'outputs': [2]}, {'cost': 7, 'inputs': [2], 'outputs': [3]},"
        "         {'cost': 7, 'inputs': [3, 0], 'outputs': [4]}], 'results': [4]}";
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = quoted_graph(text, &err);
    assert_non_null(df);
    bool moved[5];
    ckm_schedule *held = greedy(df, 190, moved, NULL);
    assert_non_null(held);
    assert_int_equal(ckm_schedule_transfer_count(held), 0);
    ckm_schedule *s = greedy(df, 120, moved, NULL);
    assert_non_null(s);
    assert_true(moved[0] && !moved[1] && !moved[2] && !moved[3]);
    assert_int_equal(ckm_schedule_transfer_count(s), 4);
    ckm_verdict verdict;
    assert_int_equal(ckm_schedule_verify(df, s, 120, &verdict, &err), CKM_OK);
    assert_string_equal(verdict.why, "");
    assert_int_equal(verdict.cost, 5 * 7 + 100 + 200);  // waited for at once: a byte takes 1 ns there and 2 back
    ckm_schedule_free(s);
    assert_null(greedy(df, 119, moved, NULL));  // the last operator's operands
    ckm_schedule_free(held);
    ckm_dataflow_free(df);
}

// With reads instead of transfers it is a schedule of the stand-in where what moves is chosen, and from there one with transfers again.
static bool begins_a_search(const ckm_dataflow *df, int64_t budget, const bool *moved, const ckm_schedule *lowered)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_moves_graph m = {.df = NULL};
    ckm_schedule *start = NULL;
    ckm_schedule *back = NULL;
    ckm_simulation facts;
    int64_t price[ORACLE_MAX_TENSORS];
    for (int32_t x = 0; x < df->n_tensors; x++) {
        price[x] = moved[x] ? 1 : -1;
    }
    assert_int_equal(ckm_i_moves_graph_make(df, price, &m, &err), CKM_OK);
    assert_int_equal(ckm_i_moves_lift(&m, lowered, &start, &err), CKM_OK);
    assert_non_null(start);
    bool begins = ckm_schedule_simulate(m.stand_in, start, NULL, &facts, NULL) == CKM_OK;
    if (begins) {
        assert_int_equal(ckm_i_moves_expand(&m, start, budget, &back, &err), CKM_OK);
        begins = ckm_schedule_simulate(df, back, NULL, &facts, NULL) == CKM_OK;
    }
    ckm_schedule_free(start);
    ckm_schedule_free(back);
    ckm_i_moves_graph_dispose(&m);
    return begins;
}

static void schedules_are_legal_and_within(void **state)
{
    (void)state;
    static const ckm_second_memory second = {"disk", -1, 100000000, 50000000, 5};
    ckm_i_rng rng = {20261};
    int64_t n_moving = 0;
    int64_t n_beginning = 0;
    for (int64_t round = 0; round < oracle_scaled(4000); round++) {
        oracle_graph g;
        ckm_error err = CKM_ERROR_INIT;
        ckm_verdict verdict;
        ckm_schedule *plain = NULL;
        ckm_simulation facts;
        bool moved[ORACLE_MAX_TENSORS];
        oracle_random_graph(&rng, 3, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build_with(&g, &second);
        assert_int_equal(ckm_schedule_baseline(df, &plain, &err), CKM_OK);
        assert_int_equal(ckm_schedule_simulate(df, plain, NULL, &facts, &err), CKM_OK);
        int64_t least = ckm_dataflow_memory_floor(df);
        int64_t budget = least + (int64_t)(ckm_i_rng_unit(&rng) * (double)(facts.peak_bytes - least + 1));
        ckm_schedule *lowered = NULL;
        ckm_schedule *s = greedy(df, budget, moved, &lowered);
        assert_true(s != NULL || budget < facts.peak_bytes);
        if (s != NULL) {
            char *text = oracle_describe(&g, s);
            assert_int_equal(ckm_schedule_verify(df, s, budget, &verdict, &err), CKM_OK);
            if (!verdict.ok) {
                fail_msg("budget %lld: %s\n%s", (long long)budget, verdict.why, text);
            }
            free(text);
            int64_t computed = 0;
            for (int64_t at = 0; at < ckm_schedule_step_count(s); at++) {
                computed += ckm_schedule_get_step(s, at).kind == CKM_STEP_COMPUTE;
            }
            assert_int_equal(computed, df->n_ops);
            n_moving += ckm_schedule_transfer_count(s) > 0;
            n_beginning += ckm_schedule_transfer_count(s) > 0 && begins_a_search(df, budget, moved, lowered);
        }
        ckm_schedule_free(lowered);
        ckm_schedule_free(s);
        ckm_schedule_free(plain);
        ckm_dataflow_free(df);
    }
    print_message("%lld moving, %lld begin a search\n", (long long)n_moving, (long long)n_beginning);
    assert_true(n_moving > oracle_scaled(4000) / 40);
    assert_true(n_beginning >
                3 * n_moving / 4);  // the others remake a view whose maker needs more than what it is a view of
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_rests_goes),
        cmocka_unit_test(schedules_are_legal_and_within),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
