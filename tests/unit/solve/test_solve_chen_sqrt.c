// SPDX-License-Identifier: Apache-2.0
// chen-sqrt: memory in the square root of a chain's length for at most one more forward pass (Chen et al. 2016).
#include <math.h>
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
    strategy_check_random("chen-sqrt", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("chen-sqrt", true);
}

// Checkpoints, a segment and its gradients come to about 3 sqrt(n), and each layer runs at most once more.
static void square_root_of_memory_for_one_more_forward_pass(void **state)
{
    (void)state;
    for (int32_t n = 9; n <= 225; n += 24) {
        ckm_dataflow *df = layer_graph_unit_chain(n);
        ckm_solve_result result = strategy_solve(df, "chen-sqrt", INT64_MAX);
        assert_true(result.cost <= 3 * n + 1);
        assert_true((double)result.least_peak_bytes <= 3.0 * sqrt(n) + 5.0);
        ckm_solve_result_dispose(&result);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(square_root_of_memory_for_one_more_forward_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
