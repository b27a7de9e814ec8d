// SPDX-License-Identifier: Apache-2.0
// Solving with the order left open, against brute force over all legal schedules: never cheaper than possible,
// every claim true for all of them, and at least as good as with the order given.
#include <checkmate/solve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_brute.h"

typedef struct strategy_case {
    const char *strategy;
    int64_t n_graphs;
    bool at_least_as_good;  // its runs do not depend on the clock
} strategy_case;

static strategy_case cases[] = {
    {"local-search", 300, true},
    {"chen-greedy", 500, true},
    {"checkpoint-all", 500, true},
    {"auto", 60, false},
};

typedef struct counts {
    int64_t solves, optima, cheaper, fit_only_reordered;
} counts;

static void solve(const ckm_dataflow *df, const char *strategy, int64_t budget, bool reorder, ckm_solve_result *result)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = budget;
    options.strategy = strategy;
    options.time_limit_seconds = strcmp(strategy, "auto") == 0 ? 0.5 : 60.0;
    options.seed = 5;
    options.iteration_limit = 1024;
    options.reorder = reorder;
    if (ckm_solve(df, &options, result, &err) != CKM_OK) {
        fail_msg("%s fails: %s", strategy, err.message);
    }
}

static void complain(const oracle_graph *g, const ckm_solve_result *r, int64_t optimum, const char *what)
{
    fail_msg("budget %lld: %s. Status %d, cost %lld, peak %lld, bound %.3f covering %d, optimum %lld\n%s",
             (long long)r->budget_bytes, what, (int)r->status, (long long)r->cost, (long long)r->peak_bytes,
             r->bound_cost, (int)r->bound_covers, (long long)optimum, oracle_describe(g, r->schedule));
}

static void check(const oracle_graph *g, int64_t optimum, const ckm_solve_result *r)
{
    int64_t cost = -1;
    int64_t peak = -1;
    if (r->bound_covers != CKM_BOUND_ANY) {
        complain(g, r, optimum, "the bound does not cover every order");
    }
    if (optimum >= 0 && r->bound_cost > (double)optimum * (1.0 + 1e-9)) {
        complain(g, r, optimum, "the bound is above the optimum");
    }
    if (r->status == CKM_SOLVE_INFEASIBLE && optimum >= 0) {
        complain(g, r, optimum, "infeasibility is claimed wrongly");
    }
    if (r->schedule == NULL) {
        return;
    }
    if (!oracle_replay(g, r->schedule, &cost, &peak, NULL) || cost != r->cost || peak != r->peak_bytes) {
        complain(g, r, optimum, "the schedule is illegal or not what was reported");
    }
    if (peak > r->budget_bytes || optimum < 0 || cost < optimum) {
        complain(g, r, optimum, "the schedule is over budget or brute force missed it");
    }
    if (r->status == CKM_SOLVE_OPTIMAL && cost != optimum) {
        complain(g, r, optimum, "not optimal");
    }
}

static void reordered_agrees_with_brute_force(void **state)
{
    const strategy_case *c = *state;
    ckm_i_rng rng = {.state = 77};
    counts n = {0};
    for (int64_t round = oracle_scaled(c->n_graphs); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 3, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ANY);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        int64_t budgets[2] = {low + (int64_t)ckm_i_rng_below(&rng, (uint32_t)(high - low + 1)), low};
        for (int b = 0; b < 2; b++) {
            ckm_solve_result open;
            ckm_solve_result given;
            int64_t optimum = oracle_optimum(&g, ORACLE_ANY, budgets[b]);
            solve(df, c->strategy, budgets[b], true, &open);
            solve(df, c->strategy, budgets[b], false, &given);
            check(&g, optimum, &open);
            if (c->at_least_as_good && given.schedule != NULL && (open.schedule == NULL || open.cost > given.cost)) {
                complain(&g, &open, optimum, "without reordering it is cheaper");
            }
            n.solves++;
            n.optima += open.cost == optimum;
            n.cheaper += given.schedule != NULL && open.cost < given.cost;
            n.fit_only_reordered += given.schedule == NULL && open.schedule != NULL;
            ckm_solve_result_dispose(&open);
            ckm_solve_result_dispose(&given);
        }
        ckm_dataflow_free(df);
    }
    printf("%s: %lld solves, %lld at the optimum of all orders, %lld cheaper than in the given order, %lld fit only "
           "reordered\n",
           c->strategy, (long long)n.solves, (long long)n.optima, (long long)n.cheaper,
           (long long)n.fit_only_reordered);
    assert_true(n.fit_only_reordered > 0);
}

int main(void)
{
    enum { n_cases = sizeof cases / sizeof cases[0] };
    struct CMUnitTest tests[n_cases];
    for (int i = 0; i < n_cases; i++) {
        tests[i] = (struct CMUnitTest){cases[i].strategy, reordered_agrees_with_brute_force, NULL, NULL, &cases[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
