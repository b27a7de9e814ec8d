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

// Twelve blocks of a wide layer and two that are joined: what is kept of a block may be its first output or all that is read again,
// and only with both is there anything cheap. Binomial checkpointing knows the first way alone.
static void blocks_are_kept_in_part_or_whole(void **state)
{
    (void)state;
    enum { N = 36 };
    layer_spec layers[N] = {0};
    for (int32_t i = 0; i < N; i++) {
        layers[i] = (layer_spec){
            .cost = 1 + i % 5, .bytes = i % 3 == 1 ? 9 : 2 + i % 4, .n_operands = i > 0, .operands = {i - 1}};
        if (i % 3 == 2) {
            layers[i].operands[layers[i].n_operands++] = i - 2;
        }
    }
    ckm_dataflow *df = layer_graph_build(layers, N, 0, 1, true);
    ckm_solve_result plain = strategy_solve(df, "checkpoint-all", INT64_MAX / 2);
    for (int percent = 50; percent <= 80; percent += 10) {
        int64_t budget = plain.baseline_peak_bytes * percent / 100;
        int64_t cost = strategy_cost(df, "chain", budget);
        int64_t binomial = strategy_cost(df, "griewank", budget);
        assert_true(cost > 0 && binomial > 0 && cost < binomial);
    }
    ckm_solve_result_dispose(&plain);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(proves_chains),
        cmocka_unit_test(blocks_are_kept_in_part_or_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
