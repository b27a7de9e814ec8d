// SPDX-License-Identifier: Apache-2.0
// Rounded points of the stage relaxation: the point of a schedule gives that schedule or a cheaper one, whatever the
// cuts; mixtures give something legal; many equal blocks come out in the proportion that the point has.
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_random.h"
#include "solve/bounds/window_run.h"

static int32_t choose_cuts(ckm_i_rng *rng, int32_t n_ops, bool all, int32_t *cuts)
{
    int32_t n = 0;
    for (int32_t v = 0; v < n_ops; v++) {
        if (all || ckm_i_rng_below(rng, 3) == 0) {
            cuts[n++] = v;
        }
    }
    if (n == 0) {
        cuts[n++] = (int32_t)ckm_i_rng_below(rng, (uint32_t)n_ops);
    }
    return n;
}

// Random matrices, completed.
static ckm_i_stages *random_stages(ckm_i_rng *rng, const ckm_dataflow *df)
{
    ckm_i_stages *st = NULL;
    assert_int_equal(ckm_i_stages_create(df, &st, NULL), CKM_OK);
    for (int32_t t = 0; t <= st->n_ops; t++) {
        for (int32_t x = 0; x < st->n_tensors; x++) {
            if (ckm_i_rng_below(rng, 2) == 0) {
                ckm_i_bits_set(ckm_i_stages_s(st, t), x);
            }
        }
    }
    assert_int_equal(ckm_i_stages_complete(st, NULL), CKM_OK);
    return st;
}

// Adds `weight` times the matrices' point to x.
static void add_point(const ckm_i_window_model *model, const ckm_i_stages *st, double weight, double *x)
{
    const ckm_dataflow *df = model->df;
    for (int32_t k = 0; k < model->n_cuts; k++) {
        int32_t to = k + 1 < model->n_cuts ? model->cuts[k + 1] : df->n_ops - 1;
        for (int32_t i = 0; i < df->n_tensors; i++) {
            int32_t col = model->s_col[(int64_t)k * df->n_tensors + i];
            if (col >= 0 && ckm_i_bits_get(ckm_i_stages_s(st, model->cuts[k] + 1), i)) {
                x[col] += weight;
            }
        }
        for (int32_t v = 0; v <= model->cuts[k]; v++) {
            int32_t col = ckm_i_window_r(model, k)[v];
            bool runs = false;
            for (int32_t t = model->cuts[k] + 1; t <= to; t++) {
                runs = runs || ckm_i_bits_get(ckm_i_stages_r(st, t), v);
            }
            if (col >= 0 && runs) {
                x[col] += weight;
            }
        }
    }
}

// The cost of what the point is rounded to; what is written out is verified.
static int64_t round_point(const ckm_i_window_model *model, const double *x)
{
    ckm_i_spans *spans = NULL;
    ckm_i_search *s = NULL;
    ckm_schedule *schedule = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_stage_round(model, x, &spans, &err), CKM_OK);
    assert_int_equal(ckm_i_search_create(model->df, INT64_MAX / 2, &s, &err), CKM_OK);
    assert_int_equal(ckm_i_search_take(s, spans, &err), CKM_OK);
    assert_int_equal(ckm_i_search_emit(s, &schedule, &err), CKM_OK);
    int64_t cost = s->total_cost;
    ckm_verdict verdict;
    if (ckm_schedule_verify(model->df, schedule, -1, &verdict, &err) != CKM_OK || !verdict.ok) {
        fail_msg("%s", verdict.why);
    }
    assert_int_equal(verdict.cost, cost);
    ckm_schedule_free(schedule);
    ckm_i_search_free(s);
    ckm_i_spans_free(spans, model->df->n_tensors);
    return cost;
}

static void schedules_come_back(void **state)
{
    (void)state;
    ckm_i_rng rng = {5};
    int64_t cheaper = 0;
    for (int64_t i = 0; i < oracle_scaled(3000); i++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_stages *one = random_stages(&rng, df);
        ckm_i_stages *two = random_stages(&rng, df);
        ckm_i_window_model model;
        int32_t cuts[ORACLE_MAX_OPS];
        bool all = i % 2 == 0;
        int32_t n = choose_cuts(&rng, df->n_ops, all, cuts);
        assert_int_equal(ckm_i_window_model_build(df, INT64_MAX / 2, false, cuts, n, &model, NULL), CKM_OK);
        double *x = calloc((size_t)model.milp.n_cols + 1, sizeof *x);
        assert_non_null(x);
        add_point(&model, one, 1.0, x);
        int64_t cost = round_point(&model, x);
        int64_t before = ckm_i_stages_cost(one);
        if (cost > before) {
            char *text = oracle_describe(&g, NULL);
            fail_msg("rounded to %lld, was %lld\n%s", (long long)cost, (long long)before, text);
        }
        cheaper += cost < before;
        // Half of each.
        for (int32_t j = 0; j < model.milp.n_cols; j++) {
            x[j] *= 0.5;
        }
        add_point(&model, two, 0.5, x);
        int64_t mixed = round_point(&model, x);
        // An engine's halves are a little off, and are halves all the same.
        for (int32_t j = 0; j < model.milp.n_cols; j++) {
            x[j] += (ckm_i_rng_unit(&rng) - 0.5) * 2e-9;
        }
        assert_int_equal(round_point(&model, x), mixed);
        free(x);
        ckm_i_window_model_dispose(&model);
        ckm_i_stages_free(one);
        ckm_i_stages_free(two);
        ckm_dataflow_free(df);
    }
    assert_true(cheaper > 0);
}

// n blocks: a makes x (10 bytes), b makes y of x; later, in reverse, each y is read.
static ckm_dataflow *equal_blocks(int32_t n)
{
    ckm_dataflow *df = NULL;
    ckm_error err = CKM_ERROR_INIT;
    int32_t input = -1;
    assert_int_equal(ckm_dataflow_create("blocks", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_tensor(df, &(ckm_dataflow_tensor){.bytes = 1, .alias_of = -1}, &input, &err),
                     CKM_OK);
    for (int32_t v = 0; v < 3 * n; v++) {
        int32_t read = v >= 2 * n ? 2 * (3 * n - 1 - v) + 2 : v % 2 == 0 ? input : v;
        int32_t made = -1;
        ckm_dataflow_tensor tensor = {.bytes = v >= 2 * n ? 1 : 10, .alias_of = -1};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &made, &err), CKM_OK);
        ckm_dataflow_op op = {.cost = 5,
                              .n_inputs = 1,
                              .inputs = &read,
                              .n_outputs = 1,
                              .outputs = &made,
                              .kind = v < 2 * n ? CKM_OP_FORWARD : CKM_OP_BACKWARD};
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

// 60 % of every y is held at the cut, 30 % is made again from an x that is held, 10 % from one that is not.
static void blocks_keep_their_proportion(void **state)
{
    (void)state;
    enum { n = 100 };
    ckm_dataflow *df = equal_blocks(n);
    ckm_i_window_model model;
    int32_t cut = 2 * n - 1;
    assert_int_equal(ckm_i_window_model_build(df, INT64_MAX / 2, false, &cut, 1, &model, NULL), CKM_OK);
    double *x = calloc((size_t)model.milp.n_cols + 1, sizeof *x);
    assert_non_null(x);
    for (int32_t b = 0; b < n; b++) {
        x[model.s_col[2 * b + 2]] = 0.6;
        x[ckm_i_window_r(&model, 0)[2 * b + 1]] = 0.4;
        x[model.s_col[2 * b + 1]] = 0.3;
        x[ckm_i_window_r(&model, 0)[2 * b]] = 0.1;
    }
    int64_t again = round_point(&model, x) - df->total_cost;
    assert_in_range(again, 5 * (40 + 10 - 4), 5 * (40 + 10 + 4));
    free(x);
    ckm_i_window_model_dispose(&model);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_come_back),
        cmocka_unit_test(blocks_keep_their_proportion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
