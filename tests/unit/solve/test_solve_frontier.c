// SPDX-License-Identifier: Apache-2.0
// Several budgets as one search: at last a second look, as at one budget alone, where the rounds have found nothing.
#include <checkmate/min_budget.h>
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layer_graph.h"

// What finds schedules in the rounds.
#define IN_ROUNDS                                                                                                    \
    "quick,chain,chain-blocks,local-search,rounding,recombination,crossing,neighbourhood,runs,relaxations,programs," \
    "ilp,"                                                                                                           \
    "published,pebbling,leave-out,leave-out-singly,exact"

static int64_t calls_of(const ckm_solve_result *result, const char *name)
{
    for (int32_t i = 0; i < result->n_components; i++) {
        if (strcmp(result->components[i].name, name) == 0) {
            return result->components[i].calls;
        }
    }
    fail_msg("no component is called %s", name);
    return -1;
}

static void solve(const ckm_dataflow *df, const char *without, const int64_t budgets[2], ckm_solve_result results[2])
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.without = without;
    options.time_limit_seconds = 2.0;
    if (ckm_solve_frontier(df, &options, budgets, 2, results, &err) != CKM_OK) {
        fail_msg("without %s: %s", without, err.message);
    }
}

// Budgets near the least are those where nothing may be found.
static void second_look_finds_what_the_rounds_have_not(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(12);
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_result results[2];
    int64_t floor = 0;
    assert_int_equal(ckm_min_budget_floor(df, &floor, &err), CKM_OK);
    const int64_t budgets[2] = {floor, floor + 1};
    solve(df, IN_ROUNDS ",least-peak", budgets, results);
    for (int i = 0; i < 2; i++) {
        assert_null(results[i].schedule);
        assert_int_equal(results[i].status, CKM_SOLVE_UNKNOWN);
        ckm_solve_result_dispose(&results[i]);
    }
    solve(df, IN_ROUNDS, budgets, results);
    assert_true(calls_of(&results[1], "least-peak") > 0);
    for (int i = 0; i < 2; i++) {
        assert_non_null(results[i].schedule);
        assert_true(results[i].peak_bytes <= budgets[i]);
        assert_true(results[i].least_peak_bytes >= floor);
        ckm_solve_result_dispose(&results[i]);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(second_look_finds_what_the_rounds_have_not)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
