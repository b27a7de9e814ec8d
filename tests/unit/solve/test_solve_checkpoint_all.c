// SPDX-License-Identifier: Apache-2.0
// checkpoint-all: nothing is computed twice, whatever the budget.
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
    strategy_check_random("checkpoint-all", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("checkpoint-all", false);
}

static void nothing_twice(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_vgg19();
    // The artifact's peak, and a byte less.
    assert_int_equal(strategy_cost(df, "checkpoint-all", 1231061216), ckm_dataflow_total_cost(df));
    assert_int_equal(strategy_cost(df, "checkpoint-all", 1231061215), -1);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(nothing_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
