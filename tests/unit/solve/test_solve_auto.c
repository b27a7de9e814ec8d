// SPDX-License-Identifier: Apache-2.0
// auto: the optimum of small graphs, and nothing dearer than the heuristics that it could have asked.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

// It may find one of another class that is cheaper still.
static void is_no_dearer_than_a_frontier(const ckm_solve_result *result, const strategy_truth *truth)
{
    if (truth->frontier_cost >= 0) {
        assert_non_null(result->schedule);
        assert_true(result->cost <= truth->frontier_cost);
    }
}

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("auto", 40, is_no_dearer_than_a_frontier);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("auto", false);
}

static void no_heuristic_is_cheaper_on_a_chain(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    assert_int_equal(strategy_cost(df, "auto", 4), 38);  // the least that fits, by hand: see tests/cli/min_budget.sh
    for (int64_t budget = 4; budget <= 10; budget++) {
        int64_t cost = strategy_cost(df, "auto", budget);
        for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
            int64_t other = ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED)
                                ? strategy_cost(df, ckm_solve_strategy_name(i), budget)
                                : -1;
            assert_true(other < 0 || cost <= other);
        }
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(no_heuristic_is_cheaper_on_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
