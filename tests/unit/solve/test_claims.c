// SPDX-License-Identifier: Apache-2.0
// Bounds and schedules: one above the cost of a schedule of its class is never told, in whichever order they come.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "schedule/schedule_order.h"
#include "solve/core/solver.h"

static const ckm_solve_options plain_options = {.budget_bytes = 100, .cost_limit = -1};

static ckm_i_solver begin(const ckm_dataflow *df)
{
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, df, &plain_options, 100);
    ckm_i_solver_bound(&solver, 9.0, CKM_BOUND_ANY, "sum");
    return solver;
}

static void offer(ckm_i_solver *solver, const int32_t *order, int64_t n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *schedule = NULL;
    if (ckm_i_schedule_from_order(solver->df, order, n, &schedule, &err) != CKM_OK ||
        ckm_i_solver_offer_schedule(solver, &schedule, "test", NULL, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    ckm_schedule_free(schedule);
}

// Four layers: operators 0..3, loss 4, backward 5..8. Costs 9; with operator 0 again, 10; with it twice in a stage, 11.
static const int32_t once[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
static const int32_t again[] = {0, 1, 2, 3, 4, 5, 6, 0, 7, 8};
static const int32_t unordered[] = {0, 1, 2, 3, 4, 5, 6, 1, 0, 7, 8};

static void a_bound_above_the_cost_of_a_schedule_is_dropped(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (int first = 0; first < 2; first++) {
        ckm_i_solver solver = begin(df);
        if (first == 0) {
            offer(&solver, again, 10);
        }
        ckm_i_solver_bound(&solver, 10.5, CKM_BOUND_FRONTIER, "wrong");
        assert_true(first == 0 ? solver.bound_cost == 9.0 : solver.bound_cost == 10.5);
        if (first == 1) {
            offer(&solver, again, 10);
        }
        assert_true(solver.bound_cost == 9.0);
        assert_int_equal(solver.bound_covers, CKM_BOUND_ANY);
        ckm_i_solver_dispose(&solver);
    }
    ckm_dataflow_free(df);
}

static void a_bound_for_a_narrower_class_stays(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(4);
    ckm_i_solver solver = begin(df);
    offer(&solver, unordered, 11);
    assert_int_equal(solver.best_class, CKM_BOUND_ORDER);
    ckm_i_solver_bound(&solver, 12.0, CKM_BOUND_FRONTIER, "proof");
    assert_true(solver.bound_cost == 12.0);
    assert_true(ckm_i_solver_told_bound(&solver) == 11.0);  // never above the cost
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

static void classes_of_schedules(void **state)
{
    (void)state;
    static const int32_t other[] = {0, 1, 2, 3, 4, 5, 7, 6, 8};  // not legal, but classes are about the order alone
    static const int32_t late[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 0};
    const struct {
        const int32_t *order;
        int64_t n;
        ckm_bound_class belongs;
    } cases[] = {{once, 9, CKM_BOUND_FRONTIER},
                 {again, 10, CKM_BOUND_FRONTIER},
                 {unordered, 11, CKM_BOUND_ORDER},
                 {late, 10, CKM_BOUND_ORDER},
                 {other, 9, CKM_BOUND_ANY}};
    ckm_dataflow *df = layer_graph_unit_chain(4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_schedule *schedule = NULL;
        assert_int_equal(ckm_i_schedule_from_order(df, cases[i].order, cases[i].n, &schedule, &err), CKM_OK);
        assert_int_equal(ckm_i_schedule_class(df, schedule), cases[i].belongs);
        ckm_schedule_free(schedule);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_above_the_cost_of_a_schedule_is_dropped),
        cmocka_unit_test(a_bound_for_a_narrower_class_stays),
        cmocka_unit_test(classes_of_schedules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
