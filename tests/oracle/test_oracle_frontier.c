// SPDX-License-Identifier: Apache-2.0
// Several budgets as one search against brute force: bounds are bounds, verdicts hold, schedules fit, and nothing is worse than
// what a smaller budget has.
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"

enum { n_budgets = 9 };

static oracle_class class_of(ckm_bound_class covers)
{
    return covers == CKM_BOUND_ANY ? ORACLE_ANY : covers == CKM_BOUND_ORDER ? ORACLE_ORDER : ORACLE_FRONTIER;
}

static void check(const oracle_graph *g, const ckm_solve_result *r, int64_t *optimal)
{
    int64_t cost = -1;
    int64_t peak = -1;
    int64_t optimum = r->bound_covers != CKM_BOUND_NONE ? oracle_optimum(g, class_of(r->bound_covers), r->budget_bytes)
                                                        : -1;
    if (r->schedule != NULL) {
        assert_true(oracle_replay(g, r->schedule, &cost, &peak, NULL));
        assert_int_equal(cost, r->cost);
        assert_int_equal(peak, r->peak_bytes);
        assert_true(peak <= r->budget_bytes);
    }
    if (r->status == CKM_SOLVE_INFEASIBLE) {
        assert_int_equal(optimum, -1);
        assert_null(r->schedule);
    } else if (optimum >= 0 && r->bound_cost > (double)optimum * (1.0 + 1e-9)) {
        fail_msg("budget %lld: bound %.17g, optimum %lld\n%s", (long long)r->budget_bytes, r->bound_cost,
                 (long long)optimum, oracle_describe(g, r->schedule));
    }
    *optimal += r->status == CKM_SOLVE_OPTIMAL;
}

static void budgets_share_what_is_true(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 19};
    int64_t optimal = 0;
    int64_t cases = 0;
    int64_t rounds = oracle_scaled(40);
    for (int64_t round = 0; round < rounds; round++) {
        oracle_graph g;
        int64_t budgets[n_budgets];
        ckm_solve_result results[n_budgets];
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_error err = CKM_ERROR_INIT;
        oracle_random_graph(&rng, 4, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ANY);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        // In no order, one below what fits, one twice.
        for (int i = 0; i < n_budgets; i++) {
            budgets[i] = low + (high - low) * ((i * 4) % n_budgets) / n_budgets - (i == 0);
        }
        budgets[n_budgets - 1] = budgets[1];
        options.time_limit_seconds = 1.0;
        options.threads = 1 + (int)(round % 2);
        if (ckm_solve_frontier(df, &options, budgets, n_budgets, results, &err) != CKM_OK) {
            fail_msg("%s", err.message);
        }
        for (int i = 0; i < n_budgets; i++) {
            assert_int_equal(results[i].budget_bytes, budgets[i]);
            check(&g, &results[i], &optimal);
            for (int k = 0; k < n_budgets; k++) {
                bool smaller = budgets[k] <= budgets[i] && results[k].schedule != NULL;
                assert_true(!smaller || (results[i].schedule != NULL && results[i].cost <= results[k].cost));
            }
            cases++;
        }
        for (int i = 0; i < n_budgets; i++) {
            ckm_solve_result_dispose(&results[i]);
        }
        ckm_dataflow_free(df);
    }
    printf("%lld of %lld optimal\n", (long long)optimal, (long long)cases);
    assert_true(optimal * 2 > cases);
}

static bool stop_at_once(void *user)
{
    (void)user;
    return true;
}

static void a_stopped_search_fills_all_results(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 5};
    oracle_graph g;
    ckm_solve_result results[2];
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    oracle_random_graph(&rng, 6, 7, 9, &g);
    ckm_dataflow *df = oracle_build(&g);
    options.stop = stop_at_once;
    const int64_t budgets[2] = {oracle_least_peak(&g, ORACLE_ANY), oracle_least_peak(&g, ORACLE_ANY) / 2};
    assert_int_equal(ckm_solve_frontier(df, &options, budgets, 2, results, NULL), CKM_OK);
    assert_int_equal(results[0].status, CKM_SOLVE_UNKNOWN);
    assert_int_equal(results[1].status, CKM_SOLVE_INFEASIBLE);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(results[i].budget_bytes, budgets[i]);
        assert_true(results[i].bound_cost == (double)ckm_dataflow_total_cost(df));
        assert_int_equal(results[i].cost, -1);
        ckm_solve_result_dispose(&results[i]);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(budgets_share_what_is_true),
                                       cmocka_unit_test(a_stopped_search_fills_all_results)};
    return cmocka_run_group_tests_name("frontier", tests, NULL, NULL);
}
