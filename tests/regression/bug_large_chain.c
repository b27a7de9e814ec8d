// SPDX-License-Identifier: Apache-2.0
// A chain of two million operators at a time limit of a second: the searches were set up in time quadratic in the
// operators, without a look at the clock, and nothing was found, although checkpoints at every sqrt(n)-th layer always are
// a schedule. Were that so again, the test would run into ctest's time limit.
#include <checkmate/dataflow.h>
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(ckm_dataflow *df, ckm_op_kind kind, const int32_t *inputs, int32_t n_inputs)
{
    ckm_error err = CKM_ERROR_INIT;
    int32_t x = -1;
    const ckm_dataflow_tensor tensor = {.bytes = 1, .alias_of = -1};
    if (ckm_dataflow_add_tensor(df, &tensor, &x, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    const ckm_dataflow_op op = {
        .kind = kind, .cost = 1, .n_inputs = n_inputs, .inputs = inputs, .n_outputs = 1, .outputs = &x};
    if (ckm_dataflow_add_op(df, &op, NULL, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
}

// n layers, the loss, and n backward operators, each of which reads its layer and the gradient before it.
static ckm_dataflow *make_chain(int32_t n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    if (ckm_dataflow_create("chain", CKM_COST_FLOPS, 0, &df, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    for (int32_t i = 0; i < n; i++) {
        const int32_t inputs[1] = {i - 1};
        add(df, CKM_OP_FORWARD, inputs, i > 0);
    }
    const int32_t last[1] = {n - 1};
    add(df, CKM_OP_LOSS, last, 1);
    for (int32_t i = n - 1; i >= 0; i--) {
        const int32_t inputs[2] = {2 * n - i - 1, i};
        add(df, CKM_OP_BACKWARD, inputs, 2);
    }
    if (ckm_dataflow_add_result(df, 2 * n, &err) != CKM_OK || ckm_dataflow_finish(df, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return df;
}

static void expect_schedule(const ckm_dataflow *df, const char *strategy, double most)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_result result;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.strategy = strategy;
    options.time_limit_seconds = 1.0;
    options.budget_bytes = ckm_dataflow_op_count(df) / 4;  // half of the peak
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s: %s", strategy, err.message);
    }
    if (result.schedule == NULL) {
        fail_msg("%s finds no schedule", strategy);
    }
    assert_true((double)result.cost <= most * (double)ckm_dataflow_op_count(df));
    ckm_solve_result_dispose(&result);
}

static void a_chain_of_two_million_operators(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain(1000000);
    expect_schedule(df, "auto", 1.5);
    ckm_dataflow_free(df);
}

// The published heuristics answer without matrices, and with what they are known for.
static void a_chain_of_fifty_thousand_by_name(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain(25000);
    expect_schedule(df, "auto", 1.5);
    expect_schedule(df, "chen-sqrt", 1.5);
    ckm_dataflow_free(df);
}

// Close to the least memory a chain needs many more runs than operators.
static void a_chain_close_to_the_floor(void **state)
{
    (void)state;
    ckm_dataflow *df = make_chain(5000);
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = "griewank";
    options.budget_bytes = ckm_dataflow_memory_floor(df) + 2;
    options.time_limit_seconds = CKM_NONE;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    assert_non_null(result.schedule);
    assert_true(result.cost > 8 * result.baseline_cost);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_of_fifty_thousand_by_name),
        cmocka_unit_test(a_chain_of_two_million_operators),
        cmocka_unit_test(a_chain_close_to_the_floor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
