// SPDX-License-Identifier: Apache-2.0
// local-search: finds the optimum of a chain, and the same again with the same seed and number of moves.
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
    strategy_check_random("local-search", 100, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("local-search", false);
}

static void optimum_of_a_chain(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    for (int64_t budget = 5; budget <= 10; budget++) {
        assert_int_equal(strategy_cost(df, "local-search", budget), strategy_cost(df, "ilp", budget));
        assert_int_equal(strategy_cost(df, "local-search", budget), strategy_cost(df, "local-search", budget));
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(optimum_of_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
