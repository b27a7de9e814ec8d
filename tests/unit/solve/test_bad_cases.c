// SPDX-License-Identifier: Apache-2.0
// Solving at the edges: budgets around what is possible, graphs without cost, bytes, edges or size, huge
// numbers, and hardly any time. Each time the status is right and the claims hold.
#include <checkmate/solve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "layer_graph.h"

// Those that search or prove; the others are tested by what they build.
static const char *const strategies[] = {"auto",        "local-search",   "ilp",           "lp-bound",
                                         "lp-round",    "stage-bound",    "stage-program", "griewank",
                                         "chen-greedy", "checkpoint-all", "chain"};
enum { n_strategies = sizeof strategies / sizeof strategies[0] };

static ckm_solve_result solve(const ckm_dataflow *df, const char *strategy, int64_t budget, double seconds)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget;
    options.strategy = strategy;
    options.time_limit_seconds = seconds;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s at %lld: %s", strategy, (long long)budget, err.message);
    }
    return result;
}

// What must hold whatever the strategy, and what the schedule says of itself.
static void check_claims(const ckm_dataflow *df, const ckm_solve_result *result, int64_t budget)
{
    assert_int_equal(result->budget_bytes, budget);
    assert_int_equal(result->schedule != NULL,
                     result->status == CKM_SOLVE_OPTIMAL || result->status == CKM_SOLVE_FEASIBLE);
    assert_int_equal(result->schedule != NULL, result->cost >= 0);
    if (budget < result->floor_bytes) {
        assert_int_equal(result->status, CKM_SOLVE_INFEASIBLE);
        assert_int_equal(result->bound_covers, CKM_BOUND_ANY);
    }
    if (budget >= result->baseline_peak_bytes) {
        assert_int_not_equal(result->status, CKM_SOLVE_INFEASIBLE);
    }
    if (!isnan(result->bound_cost)) {
        assert_true(result->bound_cost >= 0.0);
    }
    if (result->schedule == NULL) {
        return;
    }
    ckm_error err = CKM_ERROR_INIT;
    ckm_verdict verdict;
    assert_int_equal(ckm_schedule_verify(df, result->schedule, budget, &verdict, &err), CKM_OK);
    assert_true(verdict.ok);
    assert_int_equal(verdict.cost, result->cost);
    assert_int_equal(verdict.peak_bytes, result->peak_bytes);
    assert_true(result->peak_bytes <= budget);
    assert_true(result->peak_bytes >= result->floor_bytes);
    assert_true(result->cost >= ckm_dataflow_total_cost(df));
    if (!isnan(result->bound_cost)) {
        assert_true(result->bound_cost <= (double)result->cost);
    }
    if (result->status == CKM_SOLVE_OPTIMAL) {
        assert_true((double)result->cost <= result->bound_cost * (1.0 + 1.0001e-4));
    }
}

// All strategies at one budget, each within `seconds`. Returns auto's status; proofs and schedules of different
// strategies must not contradict each other.
static ckm_solve_status try_all(const ckm_dataflow *df, int64_t budget, double seconds)
{
    ckm_solve_status status = CKM_SOLVE_UNKNOWN;
    int64_t least = INT64_MAX;           // of all schedules
    int64_t least_frontier = INT64_MAX;  // of those that advance the frontier, for which bounds of all classes hold
    double bound = 0.0;
    double bound_any = 0.0;
    bool found = false;
    bool refuted = false;
    for (int i = 0; i < n_strategies; i++) {
        // Local search alone proves nothing and goes on to its limit.
        double limit = strcmp(strategies[i], "local-search") == 0 ? 0.05 : seconds;
        ckm_solve_result result = solve(df, strategies[i], budget, limit);
        check_claims(df, &result, budget);
        status = i == 0 ? result.status : status;
        if (result.schedule != NULL) {
            found = true;
            least = result.cost < least ? result.cost : least;
            bool advances = strcmp(result.strategy, "pebbling") != 0;
            least_frontier = advances && result.cost < least_frontier ? result.cost : least_frontier;
        }
        refuted = refuted || result.status == CKM_SOLVE_INFEASIBLE;
        if (!isnan(result.bound_cost)) {
            bound = fmax(bound, result.bound_cost);
            bound_any = result.bound_covers == CKM_BOUND_ANY ? fmax(bound_any, result.bound_cost) : bound_any;
        }
        ckm_solve_result_dispose(&result);
    }
    assert_false(found && refuted);
    if (found) {
        assert_true(bound_any <= (double)least);
        assert_true(bound <= (double)least_frontier);
    }
    return status;
}

// The smallest feasible budget of the unit chain is its floor, 4: at it there is one schedule cost, below it nothing.
static void around_the_floor(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(6);
    int64_t floor_bytes = ckm_dataflow_memory_floor(df);
    assert_int_equal(floor_bytes, 4);
    assert_int_equal(try_all(df, floor_bytes, 10.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, floor_bytes + 1, 10.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, floor_bytes - 1, 10.0), CKM_SOLVE_INFEASIBLE);
    assert_int_equal(try_all(df, 0, 10.0), CKM_SOLVE_INFEASIBLE);
    ckm_dataflow_free(df);
}

// A graph by hand: sizes, costs and edges as lists of numbers; every operator makes one tensor, tensor v.
typedef struct hand_op {
    int64_t cost, bytes;
    int32_t n_inputs, inputs[3];
} hand_op;

static ckm_dataflow *build(const hand_op *ops, int32_t n, const int32_t *results, int32_t n_results)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("hand", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < n; v++) {
        ckm_dataflow_tensor tensor = {.bytes = ops[v].bytes, .alias_of = -1};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
    }
    for (int32_t v = 0; v < n; v++) {
        ckm_dataflow_op op = {
            .cost = ops[v].cost,
            .inputs = ops[v].inputs,
            .n_inputs = ops[v].n_inputs,
            .outputs = &v,
            .n_outputs = 1,
        };
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    for (int32_t i = 0; i < n_results; i++) {
        assert_int_equal(ckm_dataflow_add_result(df, results[i], &err), CKM_OK);
    }
    if (ckm_dataflow_finish(df, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return df;
}

// x is read at the start and at the end, with a bulge in between: 1 + 5 + 5 bytes unless x is dropped.
//   floor 10 (the bulge), no rematerialization 11, smallest feasible 10 by computing x twice.
// The last operator reads x and the bulge's result.
static ckm_dataflow *bulge(int64_t cost, int64_t unit)
{
    hand_op ops[] = {
        {cost, unit, 0, {0}}, {cost, 5 * unit, 1, {0}}, {cost, 5 * unit, 1, {1}},
        {cost, unit, 1, {2}}, {cost, unit, 2, {0, 3}},
    };
    int32_t result = 4;
    return build(ops, 5, &result, 1);
}

static void one_byte_above_and_below(void **state)
{
    (void)state;
    ckm_dataflow *df = bulge(1, 1000);
    assert_int_equal(ckm_dataflow_memory_floor(df), 10000);
    assert_int_equal(try_all(df, 11000, 5.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, 10999, 5.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, 10001, 5.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, 10000, 5.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, 9999, 5.0), CKM_SOLVE_INFEASIBLE);
    ckm_solve_result keeps = solve(df, "auto", 11000, 5.0);
    ckm_solve_result drops = solve(df, "auto", 10999, 5.0);
    assert_int_equal(keeps.cost, 5);
    assert_int_equal(drops.cost, 6);
    ckm_solve_result_dispose(&keeps);
    ckm_solve_result_dispose(&drops);
    ckm_dataflow_free(df);
}

// Feasible only above the floor: x may run once, so it is there through the bulge, 11 bytes; the floor counts what one
// operator touches, 10.
static void between_floor_and_feasible(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    static const int64_t bytes[] = {1, 5, 5, 1, 1};
    static const int32_t inputs[][2] = {{0}, {0}, {1}, {2}, {0, 3}};
    static const int32_t n_inputs[] = {0, 1, 1, 1, 2};
    assert_int_equal(ckm_dataflow_create("once", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < 5; v++) {
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {
            .cost = 1,
            .run_once = true,
            .inputs = inputs[v],
            .n_inputs = n_inputs[v],
            .outputs = &v,
            .n_outputs = 1,
        };
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    int64_t floor_bytes = ckm_dataflow_memory_floor(df);
    assert_true(floor_bytes == 10 || floor_bytes == 11);
    assert_int_equal(try_all(df, 11, 5.0), CKM_SOLVE_OPTIMAL);
    ckm_solve_status below = try_all(df, 10, 5.0);
    assert_int_equal(below, CKM_SOLVE_INFEASIBLE);
    ckm_dataflow_free(df);
}

// Two branches of 8 and then 3 bytes, which the last operator joins: what one keeps, 3, is there while the other runs,
// 8 + 3. No single operator touches more than 11.
static void around_the_strong_floor(void **state)
{
    (void)state;
    hand_op ops[] = {{1, 8, 0, {0}}, {1, 3, 1, {0}}, {1, 8, 0, {0}}, {1, 3, 1, {2}}, {1, 1, 2, {1, 3}}};
    int32_t result = 4;
    ckm_dataflow *df = build(ops, 5, &result, 1);
    assert_int_equal(ckm_dataflow_memory_floor(df), 11);
    assert_int_equal(try_all(df, 15, 5.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, 14, 5.0), CKM_SOLVE_OPTIMAL);
    for (int64_t budget = 10; budget <= 13; budget++) {
        assert_int_equal(try_all(df, budget, 5.0), CKM_SOLVE_INFEASIBLE);
        ckm_solve_result below = solve(df, "auto", budget, 5.0);
        assert_int_equal(below.floor_bytes, 14);
        assert_int_equal(below.least_peak_bytes, 14);
        assert_int_equal(below.bound_covers, CKM_BOUND_ANY);
        ckm_solve_result_dispose(&below);
    }
    ckm_dataflow_free(df);
}

static void no_costs(void **state)
{
    (void)state;
    ckm_dataflow *df = bulge(0, 1);
    // Recomputing is free: the least cost is 0 wherever a schedule fits, and it is proven.
    for (int64_t budget = 9; budget <= 12; budget++) {
        ckm_solve_status status = try_all(df, budget, 5.0);
        assert_int_equal(status, budget < 10 ? CKM_SOLVE_INFEASIBLE : CKM_SOLVE_OPTIMAL);
    }
    ckm_dataflow_free(df);
}

static void no_bytes(void **state)
{
    (void)state;
    ckm_dataflow *df = bulge(3, 0);
    assert_int_equal(try_all(df, 0, 5.0), CKM_SOLVE_OPTIMAL);
    ckm_solve_result result = solve(df, "auto", 0, 5.0);
    assert_int_equal(result.cost, 15);
    assert_int_equal(result.peak_bytes, 0);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
}

static void one_operator(void **state)
{
    (void)state;
    for (int32_t n_results = 0; n_results < 2; n_results++) {
        hand_op op = {7, 100, 0, {0}};
        int32_t result = 0;
        ckm_dataflow *df = build(&op, 1, &result, n_results);
        assert_int_equal(try_all(df, 101, 5.0), CKM_SOLVE_OPTIMAL);
        assert_int_equal(try_all(df, 100, 5.0), CKM_SOLVE_OPTIMAL);
        assert_int_equal(try_all(df, 99, 5.0), CKM_SOLVE_INFEASIBLE);
        ckm_dataflow_free(df);
    }
}

// Three parts without a common tensor, one of them a single operator whose output nothing reads.
static void disconnected(void **state)
{
    (void)state;
    hand_op ops[] = {
        {1, 4, 0, {0}}, {1, 4, 0, {0}},    {1, 2, 1, {0}},    {1, 9, 0, {0}},
        {1, 2, 1, {1}}, {1, 2, 2, {0, 2}}, {1, 2, 2, {1, 4}},
    };
    int32_t results[] = {5, 6};
    ckm_dataflow *df = build(ops, 7, results, 2);
    int64_t floor_bytes = ckm_dataflow_memory_floor(df);
    int64_t optimum = -1;
    for (int64_t budget = floor_bytes - 1; budget <= floor_bytes + 12; budget++) {
        ckm_solve_status status = try_all(df, budget, 5.0);
        ckm_solve_result result = solve(df, "auto", budget, 5.0);
        assert_int_equal(status, result.status);
        if (budget < floor_bytes) {
            assert_int_equal(status, CKM_SOLVE_INFEASIBLE);
        }
        if (result.cost >= 0) {  // never dearer with more memory, among those that keep the graph's order
            assert_int_equal(status, CKM_SOLVE_OPTIMAL);
            bool keeps = strcmp(result.strategy, "pebbling") != 0;
            assert_true(!keeps || optimum < 0 || result.cost <= optimum);
            optimum = keeps ? result.cost : optimum;
        } else {
            assert_true(optimum < 0);
        }
        ckm_solve_result_dispose(&result);
    }
    assert_int_equal(optimum, 7);
    ckm_dataflow_free(df);
}

// Costs of 10^15, apart in the last digit only: sums are exact.
static void huge_costs(void **state)
{
    (void)state;
    const int64_t huge = 1000000000000000;
    hand_op ops[] = {
        {huge + 1, 1, 0, {0}}, {huge, 5, 1, {0}}, {huge + 7, 5, 1, {1}}, {huge, 1, 1, {2}}, {huge + 3, 1, 2, {0, 3}},
    };
    int32_t result = 4;
    ckm_dataflow *df = build(ops, 5, &result, 1);
    assert_int_equal(try_all(df, 10, 5.0), CKM_SOLVE_OPTIMAL);
    assert_int_equal(try_all(df, 11, 5.0), CKM_SOLVE_OPTIMAL);
    ckm_solve_result keeps = solve(df, "auto", 11, 5.0);
    ckm_solve_result drops = solve(df, "auto", 10, 5.0);
    assert_true(keeps.cost == 5 * huge + 11);
    assert_true(drops.cost == 6 * huge + 12);
    ckm_solve_result_dispose(&keeps);
    ckm_solve_result_dispose(&drops);
    ckm_dataflow_free(df);
}

// Sizes of 2^50 bytes with small ones between them, at budgets one byte apart.
static void huge_sizes(void **state)
{
    (void)state;
    const int64_t huge = INT64_C(1) << 50;
    hand_op ops[] = {
        {1, 1, 0, {0}}, {1, 5 * huge, 1, {0}}, {1, 5 * huge, 1, {1}}, {1, 1, 1, {2}}, {1, 1, 2, {0, 3}},
    };
    int32_t result = 4;
    ckm_dataflow *df = build(ops, 5, &result, 1);
    assert_int_equal(try_all(df, 10 * huge - 1, 1.0), CKM_SOLVE_INFEASIBLE);
    for (int64_t above = 0; above <= 1; above++) {
        (void)try_all(df, 10 * huge + above, 1.0);
        ckm_solve_result best = solve(df, "auto", 10 * huge + above, 1.0);
        assert_non_null(best.schedule);
        // x takes one byte through the bulge; without that byte it is computed twice.
        assert_int_equal(best.cost, above == 0 ? 6 : 5);
        ckm_solve_result_dispose(&best);
    }
    ckm_dataflow_free(df);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// A tenth of a second: an answer without false claims, and not long after. The allowance is wide: sanitizers, a busy
// machine, and what a graph takes to be set up.
static void hardly_any_time(void **state)
{
    (void)state;
    ckm_dataflow *graphs[] = {layer_graph_unit_chain(64), layer_graph_vgg19()};
    for (size_t g = 0; g < sizeof graphs / sizeof graphs[0]; g++) {
        int64_t floor_bytes = ckm_dataflow_memory_floor(graphs[g]);
        for (int part = 0; part < 3; part++) {
            for (int i = 0; i < n_strategies; i++) {
                int64_t budget = floor_bytes + floor_bytes * part / 2;
                double began = now();
                ckm_solve_result result = solve(graphs[g], strategies[i], budget, 0.1);
                double seconds = now() - began;
                check_claims(graphs[g], &result, budget);
                if (seconds > 20.0) {
                    fail_msg("%s took %.1f s of 0.1 s", strategies[i], seconds);
                }
                ckm_solve_result_dispose(&result);
            }
        }
        ckm_dataflow_free(graphs[g]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(around_the_floor),
        cmocka_unit_test(one_byte_above_and_below),
        cmocka_unit_test(between_floor_and_feasible),
        cmocka_unit_test(around_the_strong_floor),
        cmocka_unit_test(no_costs),
        cmocka_unit_test(no_bytes),
        cmocka_unit_test(one_operator),
        cmocka_unit_test(disconnected),
        cmocka_unit_test(huge_costs),
        cmocka_unit_test(huge_sizes),
        cmocka_unit_test(hardly_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
