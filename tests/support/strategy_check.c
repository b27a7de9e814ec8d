// SPDX-License-Identifier: Apache-2.0
#include "strategy_check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "oracle_brute.h"
#include "schedule/schedule_order.h"

ckm_solve_result strategy_solve(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = strategy;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 5.0;
    options.iteration_limit = 2000;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s at %lld bytes: %s", strategy, (long long)budget_bytes, err.message);
    }
    return result;
}

int64_t strategy_cost(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes)
{
    ckm_solve_result result = strategy_solve(df, strategy, budget_bytes);
    int64_t cost = result.cost;
    ckm_solve_result_dispose(&result);
    return cost;
}

static int64_t optimum_of(const strategy_truth *t, ckm_bound_class covers)
{
    return covers == CKM_BOUND_FRONTIER ? t->frontier_cost : covers == CKM_BOUND_ORDER ? t->order_cost : t->any_cost;
}

static void check_result(const oracle_graph *g, const char *strategy, const ckm_solve_result *r,
                         const strategy_truth *t)
{
    const char *what = NULL;
    int64_t cost = -1;
    int64_t peak = -1;
    if (r->schedule != NULL && !oracle_replay(g, r->schedule, &cost, &peak, NULL)) {
        what = "the schedule is illegal";
    } else if (r->schedule != NULL && (cost != r->cost || peak != r->peak_bytes || peak > t->budget_bytes)) {
        what = "cost or peak are wrong, or the budget is exceeded";
    } else if (r->schedule != NULL && (t->any_cost < 0 || cost < t->any_cost)) {
        what = "cheaper than brute force";
    } else if (!isnan(r->bound_cost) && optimum_of(t, r->bound_covers) >= 0 &&
               r->bound_cost > (double)optimum_of(t, r->bound_covers)) {
        what = "the bound is above the optimum of its class";
    } else if (r->status == CKM_SOLVE_INFEASIBLE && optimum_of(t, r->bound_covers) >= 0) {
        what = "infeasible is wrong";
    }
    if (what != NULL) {
        fail_msg("%s at %lld bytes: %s (cost %lld, bound %f of class %d, optima %lld %lld %lld)\n%s", strategy,
                 (long long)t->budget_bytes, what, (long long)r->cost, r->bound_cost, (int)r->bound_covers,
                 (long long)t->frontier_cost, (long long)t->order_cost, (long long)t->any_cost,
                 oracle_describe(g, r->schedule));
    }
}

void strategy_check_random(const char *strategy, int64_t n_graphs, strategy_check_fn *check)
{
    ckm_i_rng rng = {.state = 77};
    for (int64_t round = oracle_scaled(n_graphs); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, 6, 8, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t low = oracle_least_peak(&g, ORACLE_ANY);
        int64_t high = oracle_least_peak(&g, ORACLE_ONCE);
        const int64_t budgets[] = {low > 0 ? low - 1 : 0, low,
                                   low + (int64_t)ckm_i_rng_below(&rng, (uint32_t)(high - low + 1)), high};
        for (size_t b = 0; b < sizeof budgets / sizeof budgets[0]; b++) {
            strategy_truth truth = {
                .budget_bytes = budgets[b],
                .frontier_cost = oracle_optimum(&g, ORACLE_FRONTIER, budgets[b]),
                .order_cost = oracle_optimum(&g, ORACLE_ORDER, budgets[b]),
                .any_cost = oracle_optimum(&g, ORACLE_ANY, budgets[b]),
            };
            ckm_solve_result result = strategy_solve(df, strategy, budgets[b]);
            check_result(&g, strategy, &result, &truth);
            assert_true(result.schedule == NULL || ckm_i_schedule_class(df, result.schedule) >= CKM_BOUND_ORDER);
            if (check != NULL) {
                check(&result, &truth);
            }
            ckm_solve_result_dispose(&result);
        }
        ckm_dataflow_free(df);
    }
}

static bool gives_schedules(const char *strategy)
{
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        if (strcmp(ckm_solve_strategy_name(i), strategy) == 0) {
            return !ckm_solve_strategy_has(i, CKM_STRATEGY_ONLY_BOUNDS);
        }
    }
    fail_msg("no strategy is called %s", strategy);
    return false;
}

void strategy_check_edges(const char *strategy, bool recomputes)
{
    for (int32_t n = 1; n <= 8; n += 7) {
        ckm_dataflow *df = layer_graph_unit_chain(n);
        ckm_solve_result roomy = strategy_solve(df, strategy, INT64_MAX);
        assert_int_equal(roomy.schedule != NULL, gives_schedules(strategy));
        if (roomy.schedule != NULL && !recomputes) {
            assert_int_equal(roomy.cost, ckm_dataflow_total_cost(df));
            assert_int_equal(roomy.status, CKM_SOLVE_OPTIMAL);
        }
        assert_true(roomy.bound_cost >= (double)ckm_dataflow_total_cost(df));
        ckm_solve_result below = strategy_solve(df, strategy, roomy.floor_bytes - 1);
        assert_int_equal(below.status, CKM_SOLVE_INFEASIBLE);
        assert_int_equal(below.bound_covers, CKM_BOUND_ANY);
        ckm_solve_result_dispose(&roomy);
        ckm_dataflow_free(df);
    }
}

void strategy_gives_no_schedule(const ckm_solve_result *result, const strategy_truth *truth)
{
    (void)truth;
    assert_null(result->schedule);
}

void strategy_check_bound(const char *strategy, ckm_bound_class covers)
{
    ckm_dataflow *df = layer_graph_unit_chain(8);
    ckm_solve_result result = strategy_solve(df, strategy, 6);
    assert_int_equal(result.bound_covers, covers);
    assert_true(result.bound_cost > (double)ckm_dataflow_total_cost(df));
    assert_true(result.bound_cost <= (double)strategy_cost(df, "ilp", 6));
    ckm_dataflow_free(df);
}
