// SPDX-License-Identifier: Apache-2.0
// Every allocation of the heuristic strategies fails in turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <checkmate/solve.h>

#include "alloc_sweep.h"
#include "layer_graph.h"

typedef struct problem {
    const ckm_dataflow *df;
    const char *strategy;
} problem;

static ckm_status run(void *user, ckm_error *err)
{
    const problem *p = user;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result = {.cost = -7};
    options.strategy = p->strategy;
    options.budget_bytes = 1000;
    ckm_status status = ckm_solve(p->df, &options, &result, err);
    if (status == CKM_OK) {
        assert_non_null(result.schedule);
        ckm_solve_result_dispose(&result);
    } else {
        assert_int_equal(result.cost, -7);
    }
    return status;
}

static void strategies(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(5);
    int32_t n = 0;
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        if (ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED)) {
            problem p = {.df = df, .strategy = ckm_solve_strategy_name(i)};
            assert_true(alloc_sweep(run, &p) > 20);
            n++;
        }
    }
    assert_true(n >= 8);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strategies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
