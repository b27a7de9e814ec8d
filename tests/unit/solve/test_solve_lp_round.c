// SPDX-License-Identifier: Apache-2.0
// lp-round: thresholds of the relaxation give legal schedules, the same each time, and with them a bound.
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
    strategy_check_random("lp-round", 60, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("lp-round", true);
}

static void vgg19_repeats(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_vgg19();
    ckm_solve_result roomy = strategy_solve(df, "auto", INT64_MAX);
    int64_t budget = roomy.baseline_peak_bytes - (roomy.baseline_peak_bytes - roomy.floor_bytes) / 4;
    ckm_solve_result first = strategy_solve(df, "lp-round", budget);
    ckm_solve_result second = strategy_solve(df, "lp-round", budget);
    assert_non_null(first.schedule);
    assert_string_equal(first.strategy, "lp-round");
    assert_int_equal(first.cost, second.cost);
    assert_true(first.bound_cost <= (double)first.cost && first.cost < 2 * first.baseline_cost);
    ckm_solve_result_dispose(&roomy);
    ckm_solve_result_dispose(&first);
    ckm_solve_result_dispose(&second);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(vgg19_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
