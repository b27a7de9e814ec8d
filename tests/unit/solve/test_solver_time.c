// SPDX-License-Identifier: Apache-2.0
// The clock of a solve has one owner, and whatever runs ends at most a second after the limit. Here a clock stands for the library's that
// goes on by a fixed step whenever it is asked, so that what counts is how often it is asked after the limit, and no machine is too slow.
#include <checkmate/solve.h>
#include <math.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "layer_graph.h"
#include "solve/core/solver.h"

static double now, step;

double ckm_i_clock_seconds(void)
{
    now += step;
    return now;
}

static ckm_status nothing(ckm_i_solver *solver, ckm_error *err)
{
    (void)err;
    assert_true(solver->deadline_seconds <= solver->latest_seconds);
    return CKM_OK;
}

static ckm_status to_the_end(ckm_i_solver *solver, ckm_error *err)
{
    assert_true(solver->deadline_seconds == solver->latest_seconds);
    return ckm_i_solver_run_until(solver, 1e9, nothing, err);
}

static ckm_status without_end(ckm_i_solver *solver, ckm_error *err)
{
    (void)err;
    assert_true(isinf(solver->deadline_seconds));
    return CKM_OK;
}

static void slices(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_i_solver outer;
    ckm_i_solver inner;
    now = 100.0;
    step = 0.0;
    ckm_i_solver_init(&outer, df, &options, 100);
    assert_true(isinf(outer.deadline_seconds) && isinf(outer.latest_seconds));
    ckm_i_solver_set_limit(&outer, 5.0);
    assert_true(outer.start_seconds == 100.0 && outer.deadline_seconds == 105.0 && outer.latest_seconds == 105.8);
    // A slice holds from begin to end, and none is later than the latest.
    ckm_i_limits before = ckm_i_solver_begin_slice(&outer, 103.0, 102.0);
    assert_true(outer.deadline_seconds == 103.0 && outer.give_up_seconds == 102.0);
    ckm_i_limits slice = ckm_i_solver_begin_slice(&outer, INFINITY, INFINITY);
    assert_true(outer.deadline_seconds == 105.8);
    now = 105.5;
    assert_true(ckm_i_solver_late_until(&outer, 5.0) == 105.8);
    ckm_i_solver_end_slice(&outer, slice);
    assert_true(outer.deadline_seconds == 103.0 && outer.give_up_seconds == 102.0);
    ckm_i_solver_end_slice(&outer, before);
    assert_true(outer.deadline_seconds == 105.0 && isinf(outer.give_up_seconds));
    assert_int_equal(ckm_i_solver_run_until(&outer, INFINITY, to_the_end, NULL), CKM_OK);
    // But for an answer where there is none.
    assert_int_equal(ckm_i_solver_run_to_end(&outer, without_end, NULL), CKM_OK);
    assert_true(outer.latest_seconds == 105.8 && outer.deadline_seconds == 105.0);
    assert_int_equal(ckm_i_solver_offer_plain(&outer, NULL, NULL), CKM_OK);
    assert_int_equal(ckm_i_solver_run_to_end(&outer, to_the_end, NULL), CKM_OK);
    // An inner solve's is a part of the outer one's.
    ckm_i_solver_init(&inner, df, &options, 100);
    ckm_i_solver_set_slice(&inner, &outer, 104.0);
    assert_true(inner.start_seconds == 100.0 && inner.deadline_seconds == 104.0 && inner.latest_seconds == 105.8);
    ckm_i_solver_set_slice(&inner, &outer, INFINITY);
    assert_true(inner.deadline_seconds == 105.8);
    assert_int_equal(ckm_i_solver_run_until(&inner, INFINITY, to_the_end, NULL), CKM_OK);
    now = 105.0;
    assert_true(ckm_i_solver_should_stop(&outer));
    ckm_i_solver_dispose(&inner);
    ckm_i_solver_dispose(&outer);
    ckm_dataflow_free(df);
}

// How often something that waits for an engine asks depends on the machine.
static bool waits_for_an_engine(const char *strategy)
{
    return strncmp(strategy, "lp-", 3) == 0 || strncmp(strategy, "stage-", 6) == 0 || strcmp(strategy, "ilp") == 0;
}

// Solves with such a clock, without what waits for an engine; returns how much later than the limit it was asked last.
static double late_by(const ckm_dataflow *df, const char *strategy, int64_t budget, double limit, double a_step)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget;
    options.strategy = strategy;
    options.without = "relaxations,branching,programs,ilp,neighbourhood";
    options.threads = 1;
    options.time_limit_seconds = limit;
    options.gap = 0.0;
    now = 0.0;
    step = a_step;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s: %s", strategy, err.message);
    }
    ckm_solve_result_dispose(&result);
    return now - limit;
}

static void no_strategy_is_late(void **state)
{
    (void)state;
    static const double limits[] = {0.01, 2.0};
    static const int64_t budgets[] = {9, 24, 60};
    ckm_dataflow *df = layer_graph_unit_chain(100);
    for (int32_t i = 0; ckm_solve_strategy_name(i) != NULL; i++) {
        const char *name = ckm_solve_strategy_name(i);
        for (size_t k = 0; k < 6 && !waits_for_an_engine(name); k++) {
            double late = late_by(df, name, budgets[k / 2], limits[k % 2], 0.005);
            if (!(late <= 1.0)) {
                fail_msg("%s, %d bytes: %g s after a limit of %g s", name, (int)budgets[k / 2], late, limits[k % 2]);
            }
        }
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices),
        cmocka_unit_test(no_strategy_is_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
