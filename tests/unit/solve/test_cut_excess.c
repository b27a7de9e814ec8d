// SPDX-License-Identifier: Apache-2.0
// What a point of the stage relaxation holds between the cuts: worked out by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include <checkmate/dataflow.h>

#include "solve/bounds/window_model.h"

typedef struct op {
    int64_t bytes;
    int32_t alias_of, reads[2], n_reads;
} op;

// Operator v makes tensor v.
static ckm_dataflow *make_graph(const op ops[4], const int32_t *results, int n_results)
{
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("four", CKM_COST_FLOPS, 0, &df, NULL), CKM_OK);
    for (int32_t v = 0; v < 4; v++) {
        ckm_dataflow_tensor tensor = {
            .bytes = ops[v].bytes, .alias_of = ops[v].alias_of, .is_view = ops[v].alias_of >= 0};
        int32_t made = -1;
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &made, NULL), CKM_OK);
        ckm_dataflow_op added = {
            .cost = 1, .inputs = ops[v].reads, .n_inputs = ops[v].n_reads, .outputs = &made, .n_outputs = 1};
        assert_int_equal(ckm_dataflow_add_op(df, &added, NULL, NULL), CKM_OK);
    }
    for (int i = 0; i < n_results; i++) {
        assert_int_equal(ckm_dataflow_add_result(df, results[i], NULL), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, NULL), CKM_OK);
    return df;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

// One cut after `cut`, where so much of the first tensor is live, and so much made again after it.
static void expect(const ckm_dataflow *df, int32_t cut, double live, double again, const double *wanted, double slack)
{
    ckm_i_window_model model;
    double excess[4] = {NAN, NAN, NAN, NAN};
    assert_int_equal(ckm_i_window_model_build(df, 10, false, &cut, 1, &model, NULL), CKM_OK);
    double *x = calloc((size_t)model.milp.n_cols, sizeof *x);
    assert_non_null(x);
    x[model.s_col[0]] = live;
    x[ckm_i_window_r(&model, 0)[0]] = again;
    assert_true(ckm_i_cut_excess(&model, x, excess));
    for (int i = 0; i < 4; i++) {
        assert_true(near(excess[i], wanted[i]));
    }
    assert_true(near(ckm_i_cut_slack(&model, x, 0), slack));
    free(x);
    ckm_i_window_model_dispose(&model);
}

static void by_hand(void **state)
{
    (void)state;
    // The second reads the first's 4 bytes, the third the second's 2, the last the first's and the third's 1.
    const op ops[4] = {{4, -1, {0}, 0}, {2, -1, {0}, 1}, {1, -1, {1}, 1}, {1, -1, {0, 2}, 2}};
    ckm_dataflow *df = make_graph(ops, (const int32_t[]){3}, 1);
    // While they run, they take 4, 6, 3 and 6 of 10 bytes; during the third, half of the first tensor is held.
    expect(df, 2, 0.5, 0.5, (const double[]){-0.6, -0.4, -0.5, -0.4}, 0.5);
    expect(df, 2, 1.0, 0.0, (const double[]){-0.6, -0.4, -0.3, -0.4}, 0.3);
    // It is read by the second, so from then on both parts are there.
    expect(df, 0, 0.25, 0.5, (const double[]){-0.6, -0.4, -0.4, -0.4}, 0.6);
    // The operator before the cut touches it, so the row there does not count it.
    expect(df, 1, 0.5, 0.25, (const double[]){-0.6, -0.4, -0.5, -0.4}, 0.4);
    ckm_dataflow_free(df);
}

// The result is a view of the first's 4 bytes: they stay while the last two run, which nothing else of them says.
static void keeps_what_results_are_views_of(void **state)
{
    (void)state;
    const op ops[4] = {{4, -1, {0}, 0}, {0, 0, {0}, 1}, {2, -1, {0}, 0}, {1, -1, {2}, 1}};
    ckm_dataflow *df = make_graph(ops, (const int32_t[]){1, 3}, 2);
    expect(df, 1, 1.0, 0.0, (const double[]){-0.6, -0.6, -0.4, -0.3}, 0.6);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(keeps_what_results_are_views_of)};
    return cmocka_run_group_tests_name("stage excess", tests, NULL, NULL);
}
