// SPDX-License-Identifier: Apache-2.0
// The least peak that is reported when nothing fits the budget: the lowest of any schedule found; none without a search.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "layer_graph.h"
#include "schedule/schedule_order.h"
#include "solve/presolve/presolve.h"
#include "solve/runs/runs.h"

// Of a chain of any length the floor is 4 bytes.
enum { FLOOR = 4 };

static int64_t verified_peak(const ckm_dataflow *df, const ckm_schedule *schedule)
{
    ckm_verdict verdict;
    assert_non_null(schedule);
    assert_int_equal(ckm_schedule_verify(df, schedule, -1, &verdict, NULL), CKM_OK);
    assert_true(verdict.ok);
    return verdict.peak_bytes;
}

static void search_on_runs_hands_in_what_is_nearest(void **state)
{
    (void)state;
    const ckm_solve_options options = {.budget_bytes = FLOOR - 1, .cost_limit = -1, .seed = 1};
    const ckm_i_runs_options limits = {.keeps_order = true, .seconds = 1e3, .states = 20000};
    ckm_dataflow *df = layer_graph_unit_chain(12);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, options.budget_bytes);
    assert_int_equal(ckm_i_runs_search(&solver, &limits, NULL), CKM_OK);
    assert_null(solver.best_schedule);
    assert_int_equal(verified_peak(df, solver.least_schedule), solver.least_peak_bytes);
    assert_true(solver.least_peak_bytes >= FLOOR && solver.least_peak_bytes < 14);  // without rematerialization
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void search_on_runs_comes_down_to_the_floor(void **state)
{
    (void)state;
    const ckm_solve_options options = {.budget_bytes = FLOOR - 1, .cost_limit = -1, .seed = 1};
    const ckm_i_runs_options limits = {.keeps_order = true, .seconds = 1e3, .least_bytes = FLOOR};
    ckm_dataflow *df = layer_graph_unit_chain(12);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, options.budget_bytes);
    assert_int_equal(ckm_i_runs_search(&solver, &limits, NULL), CKM_OK);
    assert_int_equal(verified_peak(df, solver.least_schedule), FLOOR);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

// A schedule over the budget that is handed in for the problem that presolve makes is known to fit the problem itself.
static ckm_status offer_in_order(ckm_i_solver *solver, ckm_error *err)
{
    int32_t order[64];
    int32_t n = 0;
    ckm_schedule *schedule = NULL;
    for (int32_t v = 0; v < solver->df->n_ops; v++) {
        order[n++] = v;
    }
    assert_non_null(solver->given.df);
    CKM_I_CHECK(ckm_i_schedule_from_order(solver->df, order, n, &schedule, err));
    return ckm_i_solver_offer_schedule(solver, &schedule, "test", NULL, err);
}

static void presolve_hands_on_what_is_over_the_budget(void **state)
{
    (void)state;
    static const ckm_i_strategy in_order = {.name = "test", .run = offer_in_order, .wants_reduced = true};
    ckm_dataflow *df = layer_graph_vgg19();
    const ckm_solve_options options = {.budget_bytes = ckm_dataflow_memory_floor(df), .cost_limit = -1};
    ckm_schedule *baseline = NULL;
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, options.budget_bytes);
    assert_int_equal(ckm_i_presolve_run(&solver, &in_order, NULL), CKM_OK);
    assert_int_equal(ckm_schedule_baseline(df, &baseline, NULL), CKM_OK);
    assert_int_equal(verified_peak(df, solver.least_schedule), verified_peak(df, baseline));
    assert_int_equal(solver.least_schedule_peak_bytes, solver.least_peak_bytes);
    ckm_schedule_free(baseline);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static int64_t told(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = strategy;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 60;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    assert_null(result.schedule);
    return result.least_peak_bytes;
}

// The run without rematerialization is no discovery. A strategy that never runs has looked for nothing, one that looks for others
// when nothing fits has.
// Time kept for what would fit is the search's as soon as it has a schedule.
static void kept_time_is_given_back(void **state)
{
    (void)state;
    const ckm_solve_options options = {.budget_bytes = INT64_MAX, .cost_limit = -1, .gap = -1.0};
    ckm_dataflow *df = layer_graph_unit_chain(12);
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &options, options.budget_bytes);
    assert_false(ckm_i_solver_should_stop(&solver));
    solver.give_up_seconds = -INFINITY;
    assert_true(ckm_i_solver_should_stop(&solver));
    assert_int_equal(ckm_i_solver_offer_plain(&solver, NULL, NULL), CKM_OK);
    assert_false(ckm_i_solver_should_stop(&solver));
    solver.deadline_seconds = -INFINITY;
    assert_true(ckm_i_solver_should_stop(&solver));
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void only_what_was_looked_for_is_told(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(12);
    assert_int_equal(told(df, "checkpoint-all", FLOOR - 2), -1);
    assert_int_equal(told(df, "lp-bound", FLOOR + 1), -1);
    assert_int_equal(told(df, "auto", FLOOR - 1), FLOOR);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_on_runs_hands_in_what_is_nearest),
        cmocka_unit_test(search_on_runs_comes_down_to_the_floor),
        cmocka_unit_test(presolve_hands_on_what_is_over_the_budget),
        cmocka_unit_test(kept_time_is_given_back),
        cmocka_unit_test(only_what_was_looked_for_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
