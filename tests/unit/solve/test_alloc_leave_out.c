// SPDX-License-Identifier: Apache-2.0
// Every allocation fails in turn where computations are left out of a schedule.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "layer_graph.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"
#include "solve/runs/leave_out.h"

typedef struct problem {
    const ckm_dataflow *df;
    const ckm_schedule *schedule;
} problem;

static ckm_status leave_out(void *user, ckm_error *err)
{
    const problem *p = user;
    static const ckm_solve_options options = {.budget_bytes = INT64_MAX / 4, .cost_limit = -1};
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, p->df, &options, options.budget_bytes);
    solver.bound_cost = 0.0;
    ckm_schedule *start = NULL;
    ckm_status status = ckm_i_schedule_copy(p->schedule, &start, err);
    if (status == CKM_OK) {
        status = ckm_i_solver_offer_schedule(&solver, &start, "start", NULL, err);
    }
    if (status == CKM_OK) {
        status = ckm_i_leave_out(&solver, err);
    }
    ckm_i_solver_dispose(&solver);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static const int32_t unordered[] = {0, 1, 2, 3, 4, 5, 6, 1, 0, 7, 0, 1, 8};
    ckm_dataflow *df = layer_graph_unit_chain(4);
    ckm_schedule *s = NULL;
    assert_int_equal(
        ckm_i_schedule_from_order(df, unordered, (int64_t)(sizeof unordered / sizeof unordered[0]), &s, NULL), CKM_OK);
    problem p = {df, s};
    alloc_sweep(leave_out, &p);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
