// SPDX-License-Identifier: Apache-2.0
// chain: the dynamic program is optimal on chains, and says so (Beaumont et al. 2019).
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
    strategy_check_random("chain", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("chain", false);
}

static void proves_chains(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    for (int64_t budget = 4; budget <= 10; budget++) {
        ckm_solve_result result = strategy_solve(df, "chain", budget);
        assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
        assert_int_equal(result.cost, strategy_cost(df, "ilp", budget));
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(proves_chains),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
