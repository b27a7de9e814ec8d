// SPDX-License-Identifier: Apache-2.0
// lp-bound: the relaxation of the paper's program gives bounds and no schedules, and bounds that say more than the sum of all costs.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

static void gives_no_schedule(const ckm_solve_result *result, const strategy_truth *truth)
{
    (void)truth;
    assert_null(result->schedule);
}

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("lp-bound", 80, gives_no_schedule);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("lp-bound", false);
}

static void proves_more_than_the_sum(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    ckm_solve_result result = strategy_solve(df, "lp-bound", 6);
    assert_int_equal(result.bound_covers, CKM_BOUND_FRONTIER);
    assert_true(result.bound_cost > (double)ckm_dataflow_total_cost(df));
    assert_true(result.bound_cost <= (double)strategy_cost(df, "ilp", 6));
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(proves_more_than_the_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
