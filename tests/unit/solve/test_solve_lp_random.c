// SPDX-License-Identifier: Apache-2.0
// lp-random: samples of the relaxation are legal, and the same for the same seed.
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
    strategy_check_random("lp-random", 40, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("lp-random", true);
}

static int64_t cost_of_seed(const ckm_dataflow *df, uint64_t seed)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = "lp-random";
    options.budget_bytes = 6;
    options.iteration_limit = 50;
    options.seed = seed;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    ckm_solve_result_dispose(&result);
    return result.cost;
}

static void repeats_and_differs_by_seed(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    bool differs = false;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        assert_int_equal(cost_of_seed(df, seed), cost_of_seed(df, seed));
        differs = differs || cost_of_seed(df, seed) != cost_of_seed(df, 1);
    }
    assert_true(differs);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(repeats_and_differs_by_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
