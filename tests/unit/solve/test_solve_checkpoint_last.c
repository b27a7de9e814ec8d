// SPDX-License-Identifier: Apache-2.0
// checkpoint-last: a chain in next to no memory, at a cost in the square of its length.
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
    strategy_check_random("checkpoint-last", 150, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("checkpoint-last", true);
}

static void quadratic_on_a_chain(void **state)
{
    (void)state;
    // In addition to 2n + 1: the last gradient reads the last layer, for which all n run again, and that of layer j < n reads j and
    // j + 1, for which j + 1 do.
    for (int32_t n = 2; n <= 64; n *= 2) {
        ckm_dataflow *df = layer_graph_unit_chain(n);
        ckm_solve_result result = strategy_solve(df, "checkpoint-last", INT64_MAX);
        assert_int_equal(result.cost - (2 * n + 1), n + (n - 1) * (n + 2) / 2);
        assert_true(result.peak_bytes <= 5);
        ckm_solve_result_dispose(&result);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(quadratic_on_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
