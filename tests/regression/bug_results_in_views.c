// SPDX-License-Identifier: Apache-2.0
// A result that is a view has no bytes of its own, and keeps the storage of its owner all the same: search on sequences took such
// results for small ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "solve/core/solve_options.h"
#include "solve/core/solver.h"
#include "solve/runs/runs.h"

static char told[4096];

static void listen(ckm_log_level level, const char *line, void *user)
{
    (void)level;
    (void)user;
    size_t n = strlen(told);
    snprintf(told + n, sizeof told - n, "%s\n", line);
}

// Three operators: one that is read twice, one whose output of 100 bytes is a result by a view, and one that reads the first.
static ckm_dataflow *graph(void)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("views", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    const int64_t bytes[] = {100, 100, 0, 10};
    for (int32_t i = 0; i < 4; i++) {
        ckm_dataflow_tensor tensor = {.bytes = bytes[i], .is_view = i == 2, .alias_of = i == 2 ? 1 : 0};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    }
    const int32_t inputs[][1] = {{0}, {0}, {0}};
    const int32_t outputs[][2] = {{0, -1}, {1, 2}, {3, -1}};
    for (int32_t v = 0; v < 3; v++) {
        ckm_dataflow_op op = {
            .cost = 1, .n_inputs = v > 0, .inputs = inputs[v], .n_outputs = v == 1 ? 2 : 1, .outputs = outputs[v]};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, 2, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_result(df, 3, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

static void views_keep_their_storage(void **state)
{
    (void)state;
    ckm_dataflow *df = graph();
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_solver solver;
    options.log = listen;
    ckm_i_solver_init(&solver, df, &options, 220);
    ckm_i_runs_options search = {.keeps_order = true, .seconds = 5.0, .states = 500};
    assert_int_equal(ckm_i_runs_search(&solver, &search, &err), CKM_OK);
    assert_non_null(strstr(told, "a first annealing, results not held"));
    ckm_i_solver_dispose(&solver);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(views_keep_their_storage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
