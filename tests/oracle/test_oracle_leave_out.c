// SPDX-License-Identifier: Apache-2.0
// Computations left out of random legal schedules: what comes out is legal, fits, and costs no more; with memory without
// end nothing is computed twice.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle_random.h"
#include "schedule/schedule.h"
#include "solve/core/solve_options.h"
#include "solve/runs/leave_out.h"

enum { GRAPHS = 20000 };

static const int64_t without_end = INT64_MAX / 4;

static void offer_copy(ckm_i_solver *solver, const ckm_schedule *s)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *copy = NULL;
    assert_int_equal(ckm_i_schedule_copy(s, &copy, &err), CKM_OK);
    assert_int_equal(ckm_i_solver_offer_schedule(solver, &copy, "random", NULL, &err), CKM_OK);
}

// The cost of what is left by a profile of memory alone.
static int64_t left_by_profile(const ckm_dataflow *df, const ckm_schedule *s, int64_t budget_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_solver solver;
    options.budget_bytes = budget_bytes;
    ckm_i_solver_init(&solver, df, &options, budget_bytes);
    offer_copy(&solver, s);
    if (ckm_i_leave_out_of(&solver, s, "random", &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    int64_t cost = solver.best_cost;
    ckm_i_solver_dispose(&solver);
    return cost;
}

// The cost of what is left of a schedule within a budget, -1 for schedules that searches work on. *before: its own.
static int64_t left(const ckm_dataflow *df, const ckm_schedule *s, int64_t budget_bytes, int64_t *before)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_solver solver;
    options.budget_bytes = budget_bytes;
    ckm_i_solver_init(&solver, df, &options, budget_bytes);
    solver.bound_cost = 0.0;
    offer_copy(&solver, s);
    assert_non_null(solver.best_schedule);
    *before = solver.best_cost;
    int64_t cost = -1;
    if (solver.best_class != CKM_BOUND_FRONTIER) {
        if (ckm_i_leave_out(&solver, &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
        ckm_verdict verdict;
        assert_int_equal(ckm_schedule_verify(df, solver.best_schedule, budget_bytes, &verdict, &err), CKM_OK);
        assert_true(verdict.ok);
        assert_int_equal(verdict.cost, solver.best_cost);
        assert_string_equal(solver.best_source, "random");
        cost = solver.best_cost;
    }
    ckm_i_solver_dispose(&solver);
    return cost;
}

static void random_schedules(void **state)
{
    (void)state;
    int64_t looked_at = 0;
    int64_t cheaper = 0;
    int64_t n_by_profile = 0;
    for (int64_t i = 0; i < oracle_scaled(GRAPHS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 1};
        oracle_graph g;
        oracle_random_graph(&rng, 3, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_schedule *s = oracle_random_schedule(&rng, &g);
        ckm_simulation own;
        int64_t before = 0;
        assert_int_equal(ckm_schedule_simulate(df, s, NULL, &own, NULL), CKM_OK);
        int64_t cost = left(df, s, own.peak_bytes, &before);
        int64_t by_profile = left_by_profile(df, s, own.peak_bytes);
        assert_true(by_profile <= before);
        assert_int_equal(left_by_profile(df, s, without_end), ckm_dataflow_total_cost(df));
        n_by_profile += by_profile < before;
        if (cost >= 0) {
            looked_at++;
            cheaper += cost < before;
            assert_true(cost <= before);
            assert_int_equal(left(df, s, without_end, &before), ckm_dataflow_total_cost(df));
        }
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(looked_at > oracle_scaled(GRAPHS) / 4);
    assert_true(n_by_profile > oracle_scaled(GRAPHS) / 20);
    assert_true(cheaper > oracle_scaled(GRAPHS) / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
