// SPDX-License-Identifier: Apache-2.0
// ilp: the paper's program finds and proves the frontier optimum, or that there is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

static void is_exact(const ckm_solve_result *result, const strategy_truth *truth)
{
    if (truth->frontier_cost >= 0) {
        assert_int_equal(result->cost, truth->frontier_cost);
        assert_int_equal(result->status, CKM_SOLVE_OPTIMAL);
    } else {
        assert_int_equal(result->status, CKM_SOLVE_INFEASIBLE);
    }
}

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("ilp", 60, is_exact);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("ilp", false);
}

static void unit_chain(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    ckm_solve_result result = strategy_solve(df, "ilp", 4);
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    assert_int_equal(result.cost, 38);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(unit_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
