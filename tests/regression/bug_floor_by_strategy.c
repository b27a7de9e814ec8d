// SPDX-License-Identifier: Apache-2.0
// Strategies that prove nothing left the memory floor at what one operator needs, so that a budget below the proven floor
// was "unknown" to callers of the library, and the program and the Python package each repaired the answer. Two
// branches, each with a wide middle: one operator at a time needs 8 + 3 bytes, the reverse pebble game proves 14.
#include <checkmate/min_budget.h>
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ONE_OPERATOR = 11, PROVEN = 14, PLAIN_PEAK = 19 };

static void good(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static ckm_dataflow *branches(void)
{
    static const int64_t sizes[] = {8, 8, 3, 3, 1};
    static const int32_t operands[][2] = {{0}, {0}, {0}, {1}, {2, 3}};
    static const int32_t counts[] = {0, 0, 1, 1, 2};
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    good(ckm_dataflow_create("branches", CKM_COST_FLOPS, 0, &df, &err), &err);
    for (int32_t v = 0; v < 5; v++) {
        ckm_dataflow_tensor tensor = {.bytes = sizes[v], .alias_of = -1};
        ckm_dataflow_op op = {.kind = CKM_OP_FORWARD,
                              .cost = 1,
                              .n_inputs = counts[v],
                              .n_outputs = 1,
                              .inputs = operands[v],
                              .outputs = &v};
        good(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), &err);
        good(ckm_dataflow_add_op(df, &op, NULL, &err), &err);
    }
    good(ckm_dataflow_add_result(df, 4, &err), &err);
    good(ckm_dataflow_finish(df, &err), &err);
    return df;
}

static ckm_solve_result solve(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes, double seconds)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = strategy;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = seconds;
    options.iteration_limit = 2000;
    good(ckm_solve(df, &options, &result, &err), &err);
    return result;
}

static void a_budget_below_the_floor_is_infeasible_to_every_strategy(void **state)
{
    (void)state;
    ckm_dataflow *df = branches();
    assert_int_equal(ckm_dataflow_memory_floor(df), ONE_OPERATOR);
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        for (int64_t budget = 0; budget < PROVEN; budget++) {
            ckm_solve_result below = solve(df, ckm_solve_strategy_name(i), budget, 0.2);
            if (below.status != CKM_SOLVE_INFEASIBLE || below.bound_covers != CKM_BOUND_ANY) {
                fail_msg("%s at %d bytes: status %d of class %d", ckm_solve_strategy_name(i), (int)budget,
                         (int)below.status, (int)below.bound_covers);
            }
            assert_null(below.schedule);
            assert_int_equal(below.floor_bytes, PROVEN);
            assert_true(below.least_peak_bytes >= PROVEN ||
                        below.least_peak_bytes == -1);  // -1: nothing was looked for
        }
    }
    ckm_dataflow_free(df);
}

// With room for everything, and where there is no time for anything else.
static void every_strategy_tells_the_same_floor(void **state)
{
    (void)state;
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        ckm_dataflow *df = branches();
        ckm_solve_result roomy = solve(df, ckm_solve_strategy_name(i), 100, 1e-6);
        int64_t told = 0;
        assert_int_equal(ckm_min_budget_floor(df, &told, NULL), CKM_OK);
        assert_int_equal(told, PROVEN);
        assert_int_equal(roomy.floor_bytes, told);
        assert_int_equal(roomy.baseline_peak_bytes, PLAIN_PEAK);
        assert_int_equal(roomy.bound_covers, CKM_BOUND_ANY);
        assert_true(roomy.bound_cost >= 5.0);
        ckm_solve_result_dispose(&roomy);
        ckm_dataflow_free(df);
    }
}

// What a heuristic meets on its way is known to fit, also where its budget is refuted.
static void a_refuted_heuristic_still_says_what_fits(void **state)
{
    (void)state;
    ckm_dataflow *df = branches();
    ckm_solve_result below = solve(df, "checkpoint-last", PROVEN - 1, 1.0);
    assert_true(below.least_peak_bytes >= PROVEN && below.least_peak_bytes < PLAIN_PEAK);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_budget_below_the_floor_is_infeasible_to_every_strategy),
        cmocka_unit_test(every_strategy_tells_the_same_floor),
        cmocka_unit_test(a_refuted_heuristic_still_says_what_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
