// SPDX-License-Identifier: Apache-2.0
// checkpoint-all-ap: articulation points are kept; what lies between two of them is computed again.
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
    strategy_check_random("checkpoint-all-ap", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("checkpoint-all-ap", false);
}

static void on_a_chain_every_operator_is_one(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(12);
    for (int64_t budget = 4; budget <= 14; budget++) {
        assert_int_equal(strategy_cost(df, "checkpoint-all-ap", budget), strategy_cost(df, "checkpoint-all", budget));
    }
    ckm_dataflow_free(df);
}

// Two parallel layers: neither is an articulation point, so that both are computed again.
static void branches_are_computed_again(void **state)
{
    (void)state;
    static const layer_spec layers[] = {
        {1, 1, 0, {0}}, {8, 4, 1, {0}}, {8, 4, 1, {0}}, {1, 1, 2, {1, 2}}, {1, 1, 1, {3}}, {1, 1, 1, {4}},
    };
    ckm_dataflow *df = layer_graph_build(layers, 6, 0, 1, true);
    int64_t all = strategy_cost(df, "checkpoint-all", INT64_MAX);
    int64_t some = strategy_cost(df, "checkpoint-all-ap", INT64_MAX);
    assert_int_equal(some - all, 16);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(on_a_chain_every_operator_is_one),
        cmocka_unit_test(branches_are_computed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
