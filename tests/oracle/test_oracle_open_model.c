// SPDX-License-Identifier: Apache-2.0
// The open relaxation with any chain of cuts, its path cuts and its integer form against brute force over all schedules,
// in whatever order: never above the optimum, never infeasible where something fits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "oracle_window.h"
#include "solve/bounds/sepa.h"

// A random chain: each operator can be reached from the one before.
static int32_t choose_cuts(ckm_i_rng *rng, const ckm_dataflow *df, int32_t *cuts)
{
    bool before[16];
    bool after[16];
    ckm_i_open_reach reach = {before, after};
    int32_t n = 0;
    int32_t first = (int32_t)ckm_i_rng_below(rng, (uint32_t)df->n_ops);
    for (int32_t v = first; v < df->n_ops; v++) {
        if (n == 0 || (after[v] && ckm_i_rng_below(rng, 3) > 0)) {
            cuts[n++] = v;
            ckm_i_open_find_reach(df, v, &reach);
        }
    }
    return n;
}

// Cuts hold whatever point they are made for.
static void cut_at_random(ckm_i_rng *rng, ckm_i_window_model *model, int64_t n_cuts[2])
{
    ckm_i_milp *m = &model->milp;
    int32_t before = m->n_rows;
    double *x = calloc((size_t)m->n_cols + 1, sizeof *x);
    assert_non_null(x);
    for (int32_t j = 0; j < m->n_cols; j++) {
        x[j] = ckm_i_rng_below(rng, 3) == 0 ? ckm_i_rng_unit(rng) : 0.0;
    }
    ckm_i_sepa_paths(model, x, m);
    n_cuts[0] += m->n_rows - before;
    before = m->n_rows;
    for (int32_t j = 0; j < m->n_cols; j++) {
        x[j] = (double)ckm_i_rng_below(rng, 2);
    }
    ckm_i_sepa_covers(model, x, m);
    n_cuts[1] += m->n_rows - before;
    free(x);
}

typedef struct tally {
    int64_t tight, above_total, refuted, n_cuts[2];
} tally;

static void check(const oracle_graph *g, ckm_i_window_model *model, int64_t budget, int64_t optimum, tally *t)
{
    double bounds[2];
    bool refuted = false;
    for (int integer = 0; integer < 2; integer++) {
        ckm_i_milp_result result = {0};
        bounds[integer] = oracle_solve_window(model, integer, &result);
        bool infeasible = result.proven == INFINITY || result.status == CKM_I_MILP_INFEASIBLE;
        if (optimum >= 0 && (infeasible || bounds[integer] > (double)optimum * (1.0 + 1e-9) + 1e-6)) {
            fail_msg("budget %lld, %d cuts, integer %d: bound %.9f above the optimum %lld\n%s", (long long)budget,
                     model->n_cuts, integer, bounds[integer], (long long)optimum, oracle_describe(g, NULL));
        }
        refuted = refuted || infeasible;
        ckm_i_milp_result_dispose(&result);
    }
    double total = (double)model->df->total_cost;
    t->tight += optimum >= 0 && bounds[1] > (double)optimum - 1e-6;
    t->above_total += optimum >= 0 && bounds[0] > total + 1e-3;
    t->refuted += optimum < 0 && refuted;
}

static void any_chain_of_cuts_gives_a_bound(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 75};
    tally t = {0};
    int64_t rounds = oracle_scaled(600);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        ckm_i_window_model model;
        int32_t cuts[16];
        oracle_random_graph(&rng, 3, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ANY);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        int64_t budget = low + (int64_t)ckm_i_rng_below(&rng, (uint32_t)(high - low + 1)) / 2;
        budget = round % 3 == 0 ? low : budget;
        budget -= round % 8 == 0 && budget > 0;
        int32_t n = choose_cuts(&rng, df, cuts);
        assert_int_equal(ckm_i_window_model_build(df, budget, true, cuts, n, &model, NULL), CKM_OK);
        cut_at_random(&rng, &model, t.n_cuts);
        check(&g, &model, budget, oracle_optimum(&g, ORACLE_ANY, budget), &t);
        ckm_i_window_model_dispose(&model);
        ckm_dataflow_free(df);
    }
    printf(
        "%lld of %lld integer programs reach the optimum; %lld relaxations prove more than the sum of costs, %lld that "
        "nothing fits; %lld path, %lld cover cuts\n",
        (long long)t.tight, (long long)rounds, (long long)t.above_total, (long long)t.refuted, (long long)t.n_cuts[0],
        (long long)t.n_cuts[1]);
    // Bounds that say nothing would pass all the rest.
    assert_true(t.tight * 2 > rounds && t.above_total * 80 > rounds);
    assert_true(rounds < 200 || t.refuted * 100 > rounds);  // of a few rounds there may be none
    assert_true(t.n_cuts[0] > rounds / 2 && t.n_cuts[1] > rounds / 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_chain_of_cuts_gives_a_bound)};
    return cmocka_run_group_tests_name("open model", tests, NULL, NULL);
}
