// SPDX-License-Identifier: Apache-2.0
// stage-program: with binaries the relaxation by stages proves at least what it proves without.
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
    strategy_check_random("stage-program", 30, NULL);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("stage-program", false);
}

static void proves_no_less_than_the_relaxation(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    for (int64_t budget = 5; budget <= 10; budget++) {
        ckm_solve_result relaxed = strategy_solve(df, "stage-bound", budget);
        ckm_solve_result program = strategy_solve(df, "stage-program", budget);
        assert_non_null(program.schedule);
        assert_true(program.bound_cost >= relaxed.bound_cost - 1e-6 || program.gap <= 1e-4);
        ckm_solve_result_dispose(&program);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(proves_no_less_than_the_relaxation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
