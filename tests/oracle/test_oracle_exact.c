// SPDX-License-Identifier: Apache-2.0
// The exact search against brute force over all schedules that keep the order: the same optimum at every budget, "infeasible" where
// there is none, and bounds that hold where it is given too little memory to end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "solve/core/solve_options.h"
#include "solve/runs/exact.h"

enum { GRAPHS = 3000, SHORT = 1000, USUAL_BYTES = 1 << 26 };

typedef struct outcome {
    ckm_i_exact_result result;
    int64_t cost;  // -1: none
    bool infeasible;
} outcome;

static outcome search(const oracle_graph *g, const ckm_dataflow *df, int64_t budget_bytes, int64_t most_bytes,
                      bool begins_plain)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_solver solver;
    outcome o;
    options.budget_bytes = budget_bytes;
    ckm_i_solver_init(&solver, df, &options, budget_bytes);
    if ((begins_plain && ckm_i_solver_offer_plain(&solver, NULL, &err) != CKM_OK) ||
        ckm_i_exact_run(&solver, most_bytes, &o.result, &err) != CKM_OK) {
        fail_msg("budget %lld: %s\n%s", (long long)budget_bytes, err.message, oracle_describe(g, NULL));
    }
    o.cost = solver.best_schedule != NULL ? solver.best_cost : -1;
    o.infeasible = solver.infeasible;
    assert_true(o.cost < 0 || solver.best_class >= CKM_BOUND_ORDER);
    assert_true(o.cost < 0 || solver.best_peak_bytes <= budget_bytes);
    assert_true(o.infeasible || solver.bound_covers == CKM_BOUND_ORDER);
    assert_true(!o.infeasible || solver.infeasible_covers == CKM_BOUND_ORDER);
    ckm_i_solver_dispose(&solver);
    return o;
}

static void compare(const oracle_graph *g, const ckm_dataflow *df, int64_t budget_bytes, bool begins_plain)
{
    int64_t optimum = oracle_optimum(g, ORACLE_ORDER, budget_bytes);
    outcome o = search(g, df, budget_bytes, USUAL_BYTES, begins_plain);
    int64_t bound = optimum >= 0 ? optimum : INT64_MAX;
    if (!o.result.is_done || o.cost != optimum || o.infeasible != (optimum < 0) || o.result.bound_cost != bound) {
        fail_msg("budget %lld: cost %lld, bound %lld, %s; the optimum is %lld\n%s", (long long)budget_bytes,
                 (long long)o.cost, (long long)o.result.bound_cost, o.infeasible ? "infeasible" : "feasible",
                 (long long)optimum, oracle_describe(g, NULL));
    }
}

static void optima(void **state)
{
    (void)state;
    int64_t n_above_once = 0;
    int64_t n_not_frontier = 0;
    for (int64_t i = 0; i < oracle_scaled(GRAPHS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 23};
        oracle_graph g;
        oracle_random_graph(&rng, 3, 7, ORACLE_MAX_PRODUCED, &g);
        if (i % 5 == 4) {
            oracle_near_ties(&rng, &g);
        }
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_ORDER);
        int64_t most = oracle_least_peak(&g, ORACLE_ONCE);
        int64_t between = least + (int64_t)ckm_i_rng_below(&rng, 1000) * ((most - least) / 999);
        int64_t budgets[] = {least - 1, least, between, most - 1, most};
        for (size_t k = 0; k < sizeof budgets / sizeof budgets[0]; k++) {
            if (budgets[k] >= 0) {
                compare(&g, df, budgets[k], i % 2 == 0);
            }
        }
        int64_t optimum = oracle_optimum(&g, ORACLE_ORDER, least);
        n_above_once += optimum > df->total_cost;
        int64_t frontier = oracle_optimum(&g, ORACLE_FRONTIER, least);
        n_not_frontier += frontier < 0 || frontier > optimum;
        ckm_dataflow_free(df);
    }
    printf("%lld graphs: at the least peak, %lld recompute, %lld not in stages\n", (long long)oracle_scaled(GRAPHS),
           (long long)n_above_once, (long long)n_not_frontier);
    assert_true(n_above_once > oracle_scaled(GRAPHS) / 10);
    assert_true(n_not_frontier > oracle_scaled(GRAPHS) / 200);
}

static void little_memory_leaves_a_bound(void **state)
{
    (void)state;
    int64_t n_short = 0;
    int64_t n_raised = 0;
    for (int64_t i = 0; i < oracle_scaled(SHORT); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 29};
        oracle_graph g;
        oracle_random_graph(&rng, 5, 7, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t budget = oracle_least_peak(&g, ORACLE_ORDER) + (int64_t)ckm_i_rng_below(&rng, 3);
        int64_t optimum = oracle_optimum(&g, ORACLE_ORDER, budget);
        for (int64_t bytes = 1; bytes < 20000; bytes = bytes < 500 ? 500 : 2 * bytes) {
            outcome o = search(&g, df, budget, bytes, false);
            n_short += !o.result.is_done;
            n_raised += !o.result.is_done && o.result.bound_cost > df->total_cost;
            if (o.result.bound_cost > optimum || o.infeasible || (o.result.is_done && o.cost != optimum)) {
                fail_msg("budget %lld, %lld bytes: cost %lld, bound %lld; the optimum is %lld\n%s", (long long)budget,
                         (long long)bytes, (long long)o.cost, (long long)o.result.bound_cost, (long long)optimum,
                         oracle_describe(&g, NULL));
            }
        }
        ckm_dataflow_free(df);
    }
    assert_true(n_short > oracle_scaled(SHORT) / 2);
    assert_true(n_raised > oracle_scaled(SHORT) / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optima),
        cmocka_unit_test(little_memory_leaves_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
