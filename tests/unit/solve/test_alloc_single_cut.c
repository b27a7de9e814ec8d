// SPDX-License-Identifier: Apache-2.0
// Every allocation fails in turn in the bound of single cuts and the schedule that comes of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "layer_graph.h"
#include "solve/bounds/single_cut.h"

static ckm_status begin(void *user, ckm_error *err)
{
    static const ckm_solve_options options = {.budget_bytes = 6, .cost_limit = -1};
    ckm_i_solver solver;
    ckm_i_spans *rounded = NULL;
    ckm_i_solver_init(&solver, user, &options, options.budget_bytes);
    ckm_status status = ckm_i_first_bound(&solver, 10.0, &rounded, err);
    if (status == CKM_OK && rounded != NULL) {
        status = ckm_i_first_schedule(&solver, rounded, 10.0, err);
    }
    ckm_i_spans_free(rounded, solver.df->n_tensors);
    ckm_i_solver_dispose(&solver);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(6);
    alloc_sweep(begin, df);
    ckm_dataflow_free(df);
}

// What it is for: a bound, and a schedule that fits.
static void a_bound_and_a_schedule(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(40);
    static const ckm_solve_options options = {.budget_bytes = 37, .cost_limit = -1, .gap = 1e-4};
    ckm_i_solver solver;
    ckm_i_spans *rounded = NULL;
    ckm_i_solver_init(&solver, df, &options, options.budget_bytes);
    assert_int_equal(ckm_i_first_bound(&solver, 10.0, &rounded, NULL), CKM_OK);
    assert_true(solver.bound_cost >= (double)ckm_dataflow_total_cost(df) + 3);
    assert_non_null(rounded);
    assert_int_equal(ckm_i_first_schedule(&solver, rounded, 10.0, NULL), CKM_OK);
    assert_non_null(solver.best_schedule);
    assert_true(solver.best_peak_bytes <= options.budget_bytes);
    assert_true(solver.best_cost >= (int64_t)solver.bound_cost);
    ckm_i_spans_free(rounded, df->n_tensors);
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail),
                                       cmocka_unit_test(a_bound_and_a_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
