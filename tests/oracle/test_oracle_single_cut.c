// SPDX-License-Identifier: Apache-2.0
// The bound of a single cut by flows: never above the optimum by brute force over all schedules that keep the order, for any
// place and any sequence of budgets; and that of the same linear program by Clp, where no view has a say.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "solve/bounds/single_cut.h"
#include "solve/bounds/window_model.h"
#include "solve/core/structure.h"

enum { plenty = 1000000 };

// What the best choice of projects earns, by trying all.
static int64_t best_choice(int32_t n_projects, const int32_t *start, const int32_t *tools, const int64_t *profit,
                           const int64_t *price, uint32_t *smallest)
{
    int64_t best = 0;
    *smallest = 0;
    for (uint32_t set = 1; set < 1U << n_projects; set++) {
        int64_t sum = 0;
        uint32_t used = 0;
        for (int32_t p = 0; p < n_projects; p++) {
            for (int32_t a = start[p]; (set >> p & 1U) && a < start[p + 1]; a++) {
                sum -= used >> tools[a] & 1U ? 0 : price[tools[a]];
                used |= 1U << tools[a];
            }
            sum += set >> p & 1U ? profit[p] : 0;
        }
        *smallest = sum > best || (sum == best && best > 0 && (set & *smallest) == set) ? set : *smallest;
        best = sum > best ? sum : best;
    }
    return best;
}

static void flows_find_the_best_choice(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 41};
    int64_t earning = 0;
    int64_t rounds = oracle_scaled(20000);
    for (int64_t round = 0; round < rounds; round++) {
        int32_t n = 1 + (int32_t)ckm_i_rng_below(&rng, 7);
        int32_t n_tools = 1 + (int32_t)ckm_i_rng_below(&rng, 6);
        int32_t start[9] = {0};
        int32_t tools[64];
        int64_t profit[8];
        int64_t price[8];
        bool chosen[8];
        for (int32_t p = 0; p < n; p++) {
            start[p + 1] = start[p];
            for (int32_t x = 0; x < n_tools; x++) {
                if (ckm_i_rng_below(&rng, 3) == 0) {
                    tools[start[p + 1]++] = x;
                }
            }
            profit[p] = (int64_t)ckm_i_rng_below(&rng, 12) - 2;
        }
        for (int32_t x = 0; x < n_tools; x++) {
            price[x] = (int64_t)ckm_i_rng_below(&rng, 9);
        }
        ckm_i_closure *c = NULL;
        assert_int_equal(ckm_i_closure_create(n, n_tools, start, tools, &c, NULL), CKM_OK);
        for (int repeat = 0; repeat < 2; repeat++) {
            uint32_t smallest;
            uint32_t set = 0;
            int64_t most;
            int64_t work = plenty;
            int64_t best = best_choice(n, start, tools, profit, price, &smallest);
            assert_true(ckm_i_closure_solve(c, profit, price, &work, &most, chosen));
            for (int32_t p = 0; p < n; p++) {
                set |= chosen[p] ? 1U << p : 0;
            }
            assert_int_equal(most, best);
            assert_int_equal(set, smallest);
            earning += best > 0;
            // With hardly any work it is still not less.
            work = 1;
            (void)ckm_i_closure_solve(c, profit, price, &work, &most, chosen);
            assert_true(most >= best);
            price[0]++;
        }
        ckm_i_closure_free(c);
    }
    assert_true(earning > rounds / 2);
}

// The value of the relaxation without its cutting planes.
static double by_clp(const ckm_dataflow *df, int32_t cut, int64_t budget)
{
    ckm_i_window_model model;
    ckm_i_milp_result result = {0};
    ckm_i_milp_options options = {.relax = true, .seconds = 60.0, .cutoff = INFINITY, .threads = 1, .enough = INFINITY};
    assert_int_equal(ckm_i_window_model_build(df, budget, false, &cut, 1, &model, NULL), CKM_OK);
    assert_int_equal(ckm_i_milp_solve(&model.milp, &options, &result, NULL), CKM_OK);
    double cost = result.status == CKM_I_MILP_OPTIMAL ? (double)df->total_cost + result.objective * model.cost_scale
                                                      : INFINITY;
    ckm_i_milp_result_dispose(&result);
    ckm_i_window_model_dispose(&model);
    return cost;
}

typedef struct counts {
    int64_t above, compared, equal;
} counts;

// Three budgets one after the other: each uses what has been solved for those before.
static void check_cut(ckm_i_rng *rng, const oracle_graph *g, const ckm_dataflow *df, int32_t cut,
                      const int64_t range[2], counts *n)
{
    int32_t last_need[16];
    ckm_i_single_cut *c = NULL;
    ckm_i_last_need(df, last_need);
    assert_int_equal(ckm_i_single_cut_create(df, last_need, cut, &c, NULL), CKM_OK);
    for (int i = 0; i < 3; i++) {
        int64_t budget = range[0] + (int64_t)(ckm_i_rng_unit(rng) * (double)(range[1] - range[0]) * 0.5);
        int64_t optimum = oracle_optimum(g, ORACLE_ORDER, budget);
        int64_t bound = -1;
        assert_int_equal(ckm_i_single_cut_bound(c, budget, plenty, &bound, NULL), CKM_OK);
        if (bound > optimum || bound < df->total_cost) {
            fail_msg("cut %d, budget %lld: bound %lld, optimum %lld\n%s", cut, (long long)budget, (long long)bound,
                     (long long)optimum, oracle_describe(g, NULL));
        }
        n->above += bound > df->total_cost;
        double clp = by_clp(df, cut, budget);
        if (clp > (double)df->total_cost * (1.0 + 1e-6) + 0.5) {
            n->compared++;
            n->equal += (double)bound >= clp - clp * 1e-6 && (double)bound <= clp + clp * 1e-6 + 1.0;
        }
        // With hardly any work it is a bound as well.
        ckm_i_single_cut *brief = NULL;
        assert_int_equal(ckm_i_single_cut_create(df, last_need, cut, &brief, NULL), CKM_OK);
        assert_int_equal(ckm_i_single_cut_bound(brief, budget, 3, &bound, NULL), CKM_OK);
        assert_true(bound <= optimum);
        ckm_i_single_cut_free(brief);
    }
    ckm_i_single_cut_free(c);
}

// At least such a share of n, but for chance where n is small: two standard deviations.
static void assert_share(int64_t k, int64_t n, double share)
{
    assert_true((double)k >= share * (double)n - 2.0 * sqrt(share * (1.0 - share) * (double)n));
}

static void every_cut_gives_a_bound(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 93};
    counts n = {0};
    int64_t rounds = oracle_scaled(250);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 3, 7, 9, &g);
        if (round % 4 == 3) {
            oracle_near_ties(&rng, &g);
        }
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ORDER);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        for (int32_t cut = 0; cut < df->n_ops; cut++) {
            check_cut(&rng, &g, df, cut, (int64_t[2]){low, high}, &n);
        }
        ckm_dataflow_free(df);
    }
    printf("%lld of %lld bounds are those of Clp; %lld above the sum of all costs\n", (long long)n.equal,
           (long long)n.compared, (long long)n.above);
    assert_share(n.above, rounds, 1.0 / 8.0);
    assert_share(n.equal, n.compared, 0.8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_find_the_best_choice),
        cmocka_unit_test(every_cut_gives_a_bound),
    };
    return cmocka_run_group_tests_name("single cut", tests, NULL, NULL);
}
