// SPDX-License-Identifier: Apache-2.0
// Every allocation fails in turn in the exact search.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "layer_graph.h"
#include "solve/runs/exact.h"

static ckm_status search(void *user, ckm_error *err)
{
    static const ckm_solve_options options = {.budget_bytes = 5, .cost_limit = -1, .seed = 1};
    ckm_i_exact_result result;
    ckm_i_solver solver;
    ckm_i_solver_init(&solver, user, &options, options.budget_bytes);
    solver.bound_cost = 0.0;
    ckm_status status = ckm_i_exact_run(&solver, 1 << 24, &result, err);
    ckm_i_solver_dispose(&solver);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(6);
    alloc_sweep(search, df);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
