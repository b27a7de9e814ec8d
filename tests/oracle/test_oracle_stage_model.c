// SPDX-License-Identifier: Apache-2.0
// The stage relaxation with any choice of cuts, its cutting planes and its integer form against brute force over all
// schedules that keep the order: never above the optimum, never infeasible where something fits.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "oracle_window.h"
#include "solve/bounds/sepa.h"

static int32_t choose_cuts(ckm_i_rng *rng, int32_t n_ops, int32_t *cuts)
{
    int32_t n = 0;
    for (int32_t v = 0; v < n_ops; v++) {
        if (ckm_i_rng_below(rng, 2) == 0) {
            cuts[n++] = v;
        }
    }
    if (n == 0) {
        cuts[n++] = (int32_t)ckm_i_rng_below(rng, (uint32_t)n_ops);
    }
    return n;
}

// Engines leave columns a little outside their bounds.
static void stray(ckm_i_rng *rng, const ckm_i_milp *m, double *x)
{
    for (int32_t j = 0; j < m->n_cols; j++) {
        x[j] += (ckm_i_rng_unit(rng) - 0.5) * 1e-4;
    }
}

// Cuts hold whatever point they are made for. Counts path cuts, peak cuts, cover cuts and rounding cuts.
static void cut_at_random(ckm_i_rng *rng, ckm_i_window_model *model, int64_t n_cuts[4])
{
    ckm_i_milp *m = &model->milp;
    int32_t before = m->n_rows;
    double *x = calloc((size_t)m->n_cols + 1, sizeof *x);
    assert_non_null(x);
    for (int32_t j = 0; j < m->n_cols; j++) {
        x[j] = ckm_i_rng_below(rng, 3) == 0 ? ckm_i_rng_unit(rng) : 0.0;
    }
    stray(rng, m, x);
    ckm_i_sepa_paths(model, x, m);
    n_cuts[0] += m->n_rows - before;
    before = m->n_rows;
    for (int32_t j = 0; j < m->n_cols; j++) {
        x[j] = (double)ckm_i_rng_below(rng, 2);
    }
    stray(rng, m, x);
    ckm_i_sepa_peaks(model, x, m);
    n_cuts[1] += m->n_rows - before;
    before = m->n_rows;
    ckm_i_sepa_covers(model, x, m);
    n_cuts[2] += m->n_rows - before;
    for (int32_t j = 0; j < m->n_cols; j++) {
        x[j] = ckm_i_rng_below(rng, 4) == 0 ? ckm_i_rng_unit(rng) : (double)ckm_i_rng_below(rng, 2);
    }
    before = m->n_rows;
    ckm_i_sepa_roundings(model, x, m);
    n_cuts[3] += m->n_rows - before;
    free(x);
    for (int64_t e = 0; e < m->n_entries; e++) {
        assert_in_range(m->entry_col[e], 0, m->n_cols - 1);
    }
}

// The relaxation with its rows branched on until that is above the optimum, which it never may be. Graphs as small as these
// leave little to it after cutting planes; so the relaxation has none, and the branches have them in a quarter of the cases.
static double branch(ckm_i_window_model *model, bool separate, int64_t optimum, int64_t *raised)
{
    double total = (double)model->df->total_cost;
    ckm_i_milp_result relaxed = {0};
    ckm_i_milp_result branched = {0};
    ckm_i_milp_options options = {.relax = true, .seconds = 60.0, .cutoff = INFINITY, .threads = 1, .enough = INFINITY};
    assert_int_equal(ckm_i_milp_solve(&model->milp, &options, &relaxed, NULL), CKM_OK);
    assert_int_equal(ckm_i_window_add_whole(model, optimum % 3 == 0, NULL), CKM_OK);
    options.first_whole = model->first_whole;
    options.n_whole = model->n_whole;
    options.separate = separate ? ckm_i_sepa_all : NULL;
    options.context = model;
    options.known = relaxed.proven;
    options.enough = ((double)optimum + 1.0 - total) / model->cost_scale;
    assert_int_equal(ckm_i_milp_solve(&model->milp, &options, &branched, NULL), CKM_OK);
    double bound = branched.proven;
    assert_true(bound > relaxed.proven - 1e-9);
    *raised += !separate && bound > relaxed.proven + 1e-6;
    ckm_i_milp_result_dispose(&relaxed);
    ckm_i_milp_result_dispose(&branched);
    return total + bound * model->cost_scale;
}

static void check(const oracle_graph *g, ckm_i_window_model *model, int64_t budget, int64_t optimum, int64_t *tight)
{
    double bounds[2];
    for (int integer = 0; integer < 2; integer++) {
        ckm_i_milp_result result = {0};
        bounds[integer] = oracle_solve_window(model, integer, &result);
        bool infeasible = result.proven == INFINITY || result.status == CKM_I_MILP_INFEASIBLE;
        if (optimum >= 0 && (infeasible || bounds[integer] > (double)optimum * (1.0 + 1e-9) + 1e-6)) {
            fail_msg("budget %lld, %d cuts, integer %d: bound %.9f above the optimum %lld\n%s", (long long)budget,
                     model->n_cuts, integer, bounds[integer], (long long)optimum, oracle_describe(g, NULL));
        }
        ckm_i_milp_result_dispose(&result);
    }
    *tight += optimum >= 0 && bounds[1] > (double)optimum - 1e-6;
}

static void check_branched(const oracle_graph *g, ckm_i_window_model *model, int64_t budget, int64_t optimum,
                           int64_t *raised)
{
    double bound = branch(model, optimum % 4 == 0, optimum, raised);
    if (bound > (double)optimum * (1.0 + 1e-9) + 1e-6) {
        fail_msg("budget %lld, %d cuts, branched: bound %.9f above the optimum %lld\n%s", (long long)budget,
                 model->n_cuts, bound, (long long)optimum, oracle_describe(g, NULL));
    }
}

// What the multipliers for one budget prove for all others; with every kind of cutting plane in the program.
static void lines_are_bounds_for_other_budgets(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 77};
    int64_t above[2] = {0, 0};
    int64_t rounds = oracle_scaled(400);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        ckm_i_window_model model;
        ckm_i_milp_result result = {0};
        int32_t cuts[16];
        oracle_random_graph(&rng, 3, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ORDER);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        int64_t budget = low + (high - low) / 3;
        int32_t n = choose_cuts(&rng, df->n_ops, cuts);
        assert_int_equal(ckm_i_window_model_build(df, budget, false, cuts, n, &model, NULL), CKM_OK);
        (void)oracle_solve_window(&model, false, &result);
        for (int64_t other = low; result.has_line && other <= high; other += 1 + (high - low) / 12) {
            const ckm_i_milp_line *l = &result.line;
            double d = (double)(other - budget);
            double value = d <= 0.0 ? l->down - l->down_slope * d : l->up - l->up_slope * d;
            double bound = (double)df->total_cost + value * model.cost_scale;
            int64_t optimum = oracle_optimum(&g, ORACLE_ORDER, other);
            if (bound > (double)optimum * (1.0 + 1e-9) + 1e-6) {
                fail_msg("multipliers for %lld at %lld: bound %.9f, optimum %lld\n%s", (long long)budget,
                         (long long)other, bound, (long long)optimum, oracle_describe(&g, NULL));
            }
            above[d > 0.0] += d != 0.0 && bound > (double)df->total_cost + 0.5;
        }
        ckm_i_milp_result_dispose(&result);
        ckm_i_window_model_dispose(&model);
        ckm_dataflow_free(df);
    }
    printf("%lld and %lld bounds above the sum of all costs for smaller and larger budgets\n", (long long)above[0],
           (long long)above[1]);
    assert_true(above[0] * 16 > rounds && above[1] * 40 > rounds);
}

static void any_cuts_give_a_bound(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 57};
    int64_t tight = 0;
    int64_t raised = 0;
    int64_t n_cuts[4] = {0, 0, 0, 0};
    int64_t rounds = oracle_scaled(600);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        ckm_i_window_model model;
        int32_t cuts[16];
        oracle_random_graph(&rng, 3, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ORDER);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        int64_t budget = low + (int64_t)ckm_i_rng_below(&rng, (uint32_t)(high - low + 1)) / 2;
        budget -= round % 8 == 0 && budget > 0;
        int32_t n = choose_cuts(&rng, df->n_ops, cuts);
        assert_int_equal(ckm_i_window_model_build(df, budget, false, cuts, n, &model, NULL), CKM_OK);
        cut_at_random(&rng, &model, n_cuts);
        int64_t optimum = oracle_optimum(&g, ORACLE_ORDER, budget);
        check(&g, &model, budget, optimum, &tight);
        ckm_i_window_model_dispose(&model);
        if (optimum >= 0) {
            assert_int_equal(ckm_i_window_model_build(df, budget, false, cuts, n, &model, NULL), CKM_OK);
            check_branched(&g, &model, budget, optimum, &raised);
            ckm_i_window_model_dispose(&model);
        }
        ckm_dataflow_free(df);
    }
    printf("%lld of %lld integer programs reach the optimum, branching raises %lld bounds; "
           "%lld path, %lld peak, %lld cover, %lld rounding cuts\n",
           (long long)tight, (long long)rounds, (long long)raised, (long long)n_cuts[0], (long long)n_cuts[1],
           (long long)n_cuts[2], (long long)n_cuts[3]);
    // Bounds that say nothing would pass all the rest.
    assert_true(tight * 2 > rounds && raised * 100 > rounds);
    assert_true(n_cuts[0] > rounds && n_cuts[1] * 20 > rounds && n_cuts[2] > rounds / 6);
    assert_true(n_cuts[3] > rounds / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_cuts_give_a_bound),
                                       cmocka_unit_test(lines_are_bounds_for_other_budgets)};
    return cmocka_run_group_tests_name("stage model", tests, NULL, NULL);
}
