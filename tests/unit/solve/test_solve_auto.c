// SPDX-License-Identifier: Apache-2.0
// auto: the optimum of small graphs, and nothing dearer than the heuristics that it could have asked.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "strategy_check.h"

// It may find one of another class that is cheaper still.
static void is_no_dearer_than_a_frontier(const ckm_solve_result *result, const strategy_truth *truth)
{
    if (truth->frontier_cost >= 0) {
        assert_non_null(result->schedule);
        assert_true(result->cost <= truth->frontier_cost);
    }
}

static void agrees_with_brute_force(void **state)
{
    (void)state;
    strategy_check_random("auto", 40, is_no_dearer_than_a_frontier);
}

static void edges(void **state)
{
    (void)state;
    strategy_check_edges("auto", false);
}

static void no_heuristic_is_cheaper_on_a_chain(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    assert_int_equal(strategy_cost(df, "auto", 4), 38);  // the least that fits, by hand: see tests/cli/min_budget.sh
    for (int64_t budget = 4; budget <= 10; budget++) {
        int64_t cost = strategy_cost(df, "auto", budget);
        for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
            int64_t other = ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED)
                                ? strategy_cost(df, ckm_solve_strategy_name(i), budget)
                                : -1;
            assert_true(other < 0 || cost <= other);
        }
    }
    ckm_dataflow_free(df);
}

static const char *const quick[] = {"checkpoint-all", "checkpoint-all-ap", "checkpoint-last",
                                    "chen-sqrt",      "chen-sqrt-ap",      "chen-greedy",
                                    "chen-greedy-ap", "griewank",          "dtr"};
enum { N_QUICK = sizeof quick / sizeof quick[0], MOST_LAYERS = 240 };

static bool stops_at_once(void *user)
{
    (void)user;
    return true;
}

// Stopped before it begins, it has the results of the strategies that take no time, even with an expensive schedule to start from.
static void expect_no_dearer(const ckm_dataflow *df, int64_t budget_bytes)
{
    ckm_solve_result found[N_QUICK];
    const ckm_solve_result *best = NULL;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    int64_t dearest = -1;
    for (int i = 0; i < N_QUICK; i++) {
        found[i] = strategy_solve(df, quick[i], budget_bytes);
        if (found[i].schedule != NULL && found[i].cost > dearest) {
            dearest = found[i].cost;
            options.start = found[i].schedule;
        }
        if (found[i].schedule != NULL && (best == NULL || found[i].cost < best->cost)) {
            best = &found[i];
        }
    }
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 1e-6;
    options.stop = stops_at_once;
    assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
    if (best != NULL && (result.schedule == NULL || result.cost > best->cost)) {
        fail_msg("%s, %lld bytes: auto costs %lld, %s %lld", ckm_dataflow_name(df), (long long)budget_bytes,
                 (long long)result.cost, best->strategy, (long long)best->cost);
    }
    ckm_solve_result_dispose(&result);
    for (int i = 0; i < N_QUICK; i++) {
        ckm_solve_result_dispose(&found[i]);
    }
}

// Layers of all sizes, every third of which reads an earlier one as well.
static ckm_dataflow *uneven_network(int32_t n)
{
    layer_spec layers[MOST_LAYERS] = {0};
    for (int32_t i = 0; i < n; i++) {
        layers[i] = (layer_spec){
            .cost = 1 + i * 7 % 11, .bytes = 1 + i * 5 % 13, .n_operands = i > 0, .operands = {i - 1}};
        if (i >= 6 && i % 3 == 0) {
            layers[i].operands[layers[i].n_operands++] = i - 2 - i % 4;
        }
    }
    return layer_graph_build(layers, n, 0, 1, true);
}

static void no_strategy_without_time_is_cheaper(void **state)
{
    (void)state;
    ckm_dataflow *graphs[] = {layer_graph_unit_chain(60), layer_graph_vgg19(), uneven_network(60),
                              uneven_network(MOST_LAYERS)};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        ckm_solve_result plain = strategy_solve(graphs[i], "checkpoint-all", INT64_MAX / 2);
        int64_t low = plain.floor_bytes;
        for (int k = 1; k < 5; k++) {
            expect_no_dearer(graphs[i], low + (plain.baseline_peak_bytes - low) / 5 * k);
        }
        ckm_solve_result_dispose(&plain);
        ckm_dataflow_free(graphs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(edges),
        cmocka_unit_test(no_heuristic_is_cheaper_on_a_chain),
        cmocka_unit_test(no_strategy_without_time_is_cheaper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
