// SPDX-License-Identifier: Apache-2.0
// chen-greedy-ap: the rule of chen-greedy among articulation points, which on a chain are all operators.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("chen-greedy-ap", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("chen-greedy-ap", true);
}

// More memory never costs more: of the sweep the cheapest that fits counts. At most one more forward pass.
static void follows_the_budget(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(25);
    int64_t before = INT64_MAX;
    int32_t different = 0;
    for (int64_t budget = 4; budget <= 30; budget++) {
        int64_t cost = strategy_cost(df, "chen-greedy-ap", budget);
        assert_true(cost < 0 ? before == INT64_MAX : cost <= before && cost <= 3 * 25 + 1);
        different += cost >= 0 && cost < before;
        before = cost < 0 ? before : cost;
    }
    assert_int_equal(before, 51);
    assert_true(different >= 4);
    ckm_dataflow_free(df);
}

static void the_same_on_a_chain(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(20);
    for (int64_t budget = 4; budget <= 24; budget++) {
        assert_int_equal(strategy_cost(df, "chen-greedy-ap", budget), strategy_cost(df, "chen-greedy", budget));
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(follows_the_budget),
        cmocka_unit_test(the_same_on_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
