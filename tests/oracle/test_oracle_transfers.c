// SPDX-License-Identifier: Apache-2.0
// Schedules that move tensors to a second memory and back. On random graphs, simulator, verifier and a third reading of the rules agree
// on what is legal and on all figures; schedules that are found are legal, and neither below the optimum by brute force over
// all orders of all steps nor is any bound above it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <checkmate/emit.h>
#include <checkmate/min_budget.h>
#include <checkmate/solve.h>

#include "oracle_moves.h"
#include "solve/bounds/moving_model.h"
#include "solve/bounds/sepa.h"

enum { GRAPHS = 6000, CHANGES = 6, SOLVES = 40, LOADS = 40, BOUNDS = 60, LEASTS = 36, FRONTIERS = 8 };

static ckm_second_memory random_second(ckm_i_rng *rng)
{
    // A byte in 1/4 to 33 ns.
    static const int64_t speeds[] = {30000000, 60000000, 250000000, 1000000000, 4000000000};
    ckm_second_memory second = {.bytes = -1};
    second.out_bytes_per_second = speeds[ckm_i_rng_below(rng, 5)];
    second.in_bytes_per_second = speeds[ckm_i_rng_below(rng, 5)];
    second.latency_ns = (int64_t)ckm_i_rng_below(rng, 3);
    return second;
}

// True where all three take the schedule.
static bool agree(const oracle_graph *g, const ckm_dataflow *df, const ckm_second_memory *second, const ckm_schedule *s)
{
    ckm_simulation expected;
    ckm_simulation found = {.cost = -1};
    ckm_verdict verdict;
    int64_t timeline[8192];
    assert_true(ckm_schedule_step_count(s) <= (int64_t)(sizeof timeline / sizeof timeline[0]));
    bool legal = oracle_moves_replay(g, second, s, &expected);
    bool simulated = ckm_schedule_simulate(df, s, timeline, &found, NULL) == CKM_OK;
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
    if (simulated != legal || verdict.ok != legal) {
        fail_msg("legal %d, simulator %d, verifier %d: %s\n%s", legal, simulated, verdict.ok, verdict.why,
                 oracle_describe(g, s));
    }
    if (!legal) {
        return false;
    }
    if (found.cost != expected.cost || verdict.cost != expected.cost || found.peak_bytes != expected.peak_bytes ||
        verdict.peak_bytes != expected.peak_bytes || found.end_bytes != expected.end_bytes ||
        found.second_peak_bytes != expected.second_peak_bytes ||
        verdict.second_peak_bytes != expected.second_peak_bytes || found.peak_step != expected.peak_step) {
        fail_msg("cost %lld, %lld, %lld; peak %lld, %lld, %lld; copies %lld, %lld, %lld\n%s", (long long)expected.cost,
                 (long long)found.cost, (long long)verdict.cost, (long long)expected.peak_bytes,
                 (long long)found.peak_bytes, (long long)verdict.peak_bytes, (long long)expected.second_peak_bytes,
                 (long long)found.second_peak_bytes, (long long)verdict.second_peak_bytes, oracle_describe(g, s));
    }
    return true;
}

// Facts add up, moment by moment, and time passes as the simulator says.
static void facts_add_up(const oracle_graph *g, const ckm_dataflow *df, const ckm_schedule *s)
{
    ckm_emit_facts *facts = NULL;
    ckm_emit_times *times = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_emit_facts_create(df, s, &facts, &err) != CKM_OK || ckm_emit_times_create(facts, &times, &err) != CKM_OK) {
        fail_msg("%s\n%s", err.message, oracle_describe(g, s));
    }
    int64_t computed = 0;
    for (int64_t m = 0; m < facts->n_moments; m++) {
        assert_int_equal(times->begin[m] >= computed, true);
        computed += ckm_dataflow_get_op(df, facts->moments[m].op).cost;
    }
    assert_int_equal(times->total, computed + times->stalled);
    ckm_emit_times_free(times);
    ckm_emit_facts_free(facts);
}

// One to three steps dropped, repeated, exchanged or changed.
static ckm_schedule *changed(ckm_i_rng *rng, const oracle_graph *g, const ckm_schedule *s)
{
    ckm_schedule *to = NULL;
    int64_t n = ckm_schedule_step_count(s);
    int64_t at = (int64_t)ckm_i_rng_below(rng, (uint32_t)n);
    int64_t other = (int64_t)ckm_i_rng_below(rng, (uint32_t)n);
    uint32_t how = ckm_i_rng_below(rng, 4);
    assert_int_equal(ckm_schedule_create(&to, NULL), CKM_OK);
    for (int64_t i = 0; i < n; i++) {
        ckm_step step = ckm_schedule_get_step(s, how == 0 && i == at ? other : how == 0 && i == other ? at : i);
        if (how == 1 && i == at) {
            continue;
        }
        if (how == 2 && i == at) {
            step.kind = (ckm_step_kind)ckm_i_rng_below(rng, 6);
            step.index = (int32_t)ckm_i_rng_below(rng, (uint32_t)g->n_tensors + 1);
            step.n_inplace = 0;
        }
        assert_int_equal(ckm_schedule_append(to, &step, NULL), CKM_OK);
        if (how == 3 && i == at) {
            assert_int_equal(ckm_schedule_append(to, &step, NULL), CKM_OK);
        }
    }
    return to;
}

static void three_readings_agree(void **state)
{
    (void)state;
    int64_t n_moving = 0;
    int64_t n_changed_legal = 0;
    int64_t n_loaded = 0;
    int64_t n_full = 0;
    for (int64_t i = 0; i < oracle_scaled(GRAPHS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 40503u + 11};
        oracle_graph g;
        oracle_random_graph(&rng, 2, 6, ORACLE_MAX_PRODUCED, &g);
        oracle_moves_add_loads(&rng, &g);
        ckm_second_memory second = random_second(&rng);
        second.bytes = ckm_i_rng_below(&rng, 3) == 0 ? (int64_t)ckm_i_rng_below(&rng, 12) : -1;
        ckm_dataflow *df = oracle_build_with(&g, &second);
        ckm_schedule *s = oracle_moves_random_schedule(&rng, &g, &second);
        if (s != NULL) {
            bool legal = agree(&g, df, &second, s);
            n_full += !legal;
            if (legal && i % 8 == 0) {
                facts_add_up(&g, df, s);
            }
            n_moving += legal && ckm_schedule_transfer_count(s) > 3;
            for (int64_t k = 0; k < ckm_schedule_step_count(s); k++) {
                ckm_step step = ckm_schedule_get_step(s, k);
                int32_t maker = step.kind == CKM_STEP_IN ? ckm_dataflow_producer(df, step.index) : -1;
                n_loaded += maker >= 0 && g.ops[maker].loads;
            }
            for (int k = 0; k < CHANGES; k++) {
                ckm_schedule *other = changed(&rng, &g, s);
                n_changed_legal += agree(&g, df, &second, other);
                ckm_schedule_free(other);
            }
        }
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
    int64_t n = oracle_scaled(GRAPHS);
    assert_true(n_moving > n / 5);
    assert_true(n_changed_legal > n / 2);
    assert_true(n_loaded > n / 50);
    assert_true(n_full > n / 50);
}

// Layers, and their backward pass, which reads what they gave: what small random graphs seldom have, a budget that costs something.
static void training_chain(ckm_i_rng *rng, oracle_graph *g)
{
    int32_t n = 2 + (int32_t)ckm_i_rng_below(rng, 2);
    *g = (oracle_graph){.fixed_bytes = 0, .n_tensors = 1, .n_ops = 2 * n};
    g->tensors[0] = (oracle_tensor){1, -1};
    for (int32_t v = 0; v < 2 * n; v++) {
        oracle_op *op = &g->ops[v];
        *op = (oracle_op){.cost = 1 + (int64_t)ckm_i_rng_below(rng, 6), .recomputable = ckm_i_rng_below(rng, 8) != 0};
        op->inputs[op->n_inputs++] = v;  // the tensor before
        if (v >= n) {
            op->inputs[op->n_inputs++] = 2 * n - v;
        }
        g->tensors[g->n_tensors] = (oracle_tensor){1 + (int64_t)ckm_i_rng_below(rng, 4), -1};
        op->outputs[op->n_outputs++] = g->n_tensors++;
    }
    g->results[g->n_results++] = 2 * n;
}

static void solutions_against_brute_force(void **state)
{
    (void)state;
    int64_t n_told = 0;
    int64_t n_optimal = 0;
    int64_t n_moving = 0;
    int64_t n_proven = 0;
    for (int64_t i = 0; i < oracle_scaled(SOLVES); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2246822519u + 5};
        oracle_graph g;
        if (i % 3 == 0) {
            training_chain(&rng, &g);
        } else {
            oracle_random_graph(&rng, 3, 5, 5, &g);
        }
        for (int32_t v = 0; v < g.n_ops; v++) {
            g.ops[v].cost *= 8;  // so that moving can pay
        }
        ckm_second_memory second = random_second(&rng);
        ckm_dataflow *df = oracle_build_with(&g, &second);
        int64_t floor = ckm_dataflow_memory_floor(df);
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = floor + (int64_t)ckm_i_rng_below(&rng, 4);
        options.time_limit_seconds = 0.15;
        options.strategy = "local-search";
        options.iteration_limit = 300;
        int64_t optimum = oracle_moves_optimum(&g, &second, options.budget_bytes, false);
        int64_t in_order = oracle_moves_optimum(&g, &second, options.budget_bytes, true);
        ckm_error err = CKM_ERROR_INIT;
        if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
            fail_msg("%s\n%s", err.message, oracle_describe(&g, NULL));
        }
        if (result.schedule != NULL) {
            assert_true(agree(&g, df, &second, result.schedule));
            n_moving += ckm_schedule_transfer_count(result.schedule) > 0;
        }
        if (optimum != -2 && in_order != -2) {
            n_told++;
            if (result.status == CKM_SOLVE_INFEASIBLE) {
                assert_int_equal(optimum, -1);
            }
            if (result.schedule != NULL && (optimum < 0 || result.cost < optimum)) {
                fail_msg("cost %lld, optimum %lld\n%s", (long long)result.cost, (long long)optimum,
                         oracle_describe(&g, result.schedule));
            }
            int64_t covered = result.bound_covers == CKM_BOUND_ANY ? optimum : in_order;
            if (covered >= 0 && result.bound_cost > (double)covered) {
                fail_msg("bound %.3f, optimum %lld\n%s", result.bound_cost, (long long)covered,
                         oracle_describe(&g, NULL));
            }
            n_proven += result.bound_covers == CKM_BOUND_ORDER;
            n_optimal += result.schedule != NULL && result.cost == optimum;
        }
        ckm_solve_result_dispose(&result);
        ckm_dataflow_free(df);
    }
    print_message("%lld of %lld graphs told, %lld solved to the optimum, %lld by moving\n", (long long)n_told,
                  (long long)oracle_scaled(SOLVES), (long long)n_optimal, (long long)n_moving);
    assert_true(n_told > oracle_scaled(SOLVES) / 2);
    assert_true(n_optimal >= n_told / 3);
    assert_true(n_moving >= oracle_scaled(SOLVES) / 40);
    assert_true(n_proven >= oracle_scaled(SOLVES) / 40);
}

// Layers with a weight that is loaded, and their backward pass, which reads it again. To compute a load is dearer than its transfer, so that
// operators and transfers are all that there is to place.
static void loading_chain(ckm_i_rng *rng, const ckm_second_memory *second, oracle_graph *g)
{
    enum { n = 2 };
    int32_t weight[n];
    int32_t before = 0;
    *g = (oracle_graph){.fixed_bytes = 0, .n_tensors = 1};
    g->tensors[0] = (oracle_tensor){1, -1};
    for (int32_t v = 0; v < 2 * n; v++) {
        int32_t layer = v < n ? v : 2 * n - 1 - v;
        if (v < n) {
            int64_t bytes = 2 + (int64_t)ckm_i_rng_below(rng, 3);
            int64_t takes = (bytes * INT64_C(1000000000) + second->in_bytes_per_second - 1) /
                            second->in_bytes_per_second;
            weight[v] = g->n_tensors++;
            g->tensors[weight[v]] = (oracle_tensor){bytes, -1};
            oracle_op *load = &g->ops[g->n_ops++];
            *load = (oracle_op){.cost = 3 * (takes + second->latency_ns), .recomputable = true, .loads = true};
            load->outputs[load->n_outputs++] = weight[v];
        }
        oracle_op *op = &g->ops[g->n_ops++];
        *op = (oracle_op){.cost = 4 + (int64_t)ckm_i_rng_below(rng, 12), .recomputable = true};
        op->inputs[op->n_inputs++] = before;
        op->inputs[op->n_inputs++] = weight[layer];
        before = g->n_tensors++;
        g->tensors[before] = (oracle_tensor){1, -1};
        op->outputs[op->n_outputs++] = before;
    }
    g->results[g->n_results++] = before;
}

// Time to load is hidden where there is room, as far as brute force can.
static void loads_against_brute_force(void **state)
{
    (void)state;
    int64_t n_told = 0;
    int64_t n_optimal = 0;
    for (int64_t i = 0; i < oracle_scaled(LOADS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 7};
        oracle_graph g;
        ckm_second_memory second = random_second(&rng);
        loading_chain(&rng, &second, &g);
        ckm_dataflow *df = oracle_build_with(&g, &second);
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = ckm_dataflow_memory_floor(df) + (int64_t)ckm_i_rng_below(&rng, 6);
        options.time_limit_seconds = 0.3;
        int64_t optimum = oracle_moves_optimum(&g, &second, options.budget_bytes, false);
        assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
        if (result.schedule != NULL) {
            assert_true(agree(&g, df, &second, result.schedule));
        }
        if (optimum >= 0) {
            n_told++;
            assert_true(result.schedule == NULL || result.cost >= optimum);
            assert_true(result.bound_covers != CKM_BOUND_ANY || result.bound_cost <= (double)optimum);
            n_optimal += result.schedule != NULL && result.cost == optimum;
        }
        ckm_solve_result_dispose(&result);
        ckm_dataflow_free(df);
    }
    print_message("%lld of %lld graphs told, %lld solved to the optimum\n", (long long)n_told,
                  (long long)oracle_scaled(LOADS), (long long)n_optimal);
    assert_true(n_told > oracle_scaled(LOADS) / 2);
    assert_true(n_optimal >= 9 * n_told / 10);
}

// Random cuts: what the relaxation proves is at most the optimum of the class.
static void relaxations_against_brute_force(void **state)
{
    (void)state;
    int64_t n_told = 0;
    int64_t n_above = 0;
    for (int64_t i = 0; i < oracle_scaled(BOUNDS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 3266489917u + 3};
        oracle_graph g;
        if (i % 2 == 0) {
            training_chain(&rng, &g);
        } else {
            oracle_random_graph(&rng, 3, 5, 6, &g);
            oracle_moves_add_loads(&rng, &g);
        }
        double total = 0.0;
        for (int32_t v = 0; v < g.n_ops; v++) {
            g.ops[v].cost *= 8;
            total += g.ops[v].loads ? 0.0 : (double)g.ops[v].cost;
        }
        ckm_second_memory second = random_second(&rng);
        ckm_dataflow *df = oracle_build_with(&g, &second);
        int64_t budget = ckm_dataflow_memory_floor(df) + (int64_t)ckm_i_rng_below(&rng, i % 2 == 0 ? 2 : 4);
        int64_t optimum = oracle_moves_optimum(&g, &second, budget, true);
        int32_t cuts[ORACLE_MAX_OPS];
        int32_t n_cuts = 0;
        for (int32_t v = 0; v < g.n_ops; v++) {
            if (!g.ops[v].loads && ckm_i_rng_below(&rng, 2) == 0) {
                cuts[n_cuts++] = v;
            }
        }
        if (optimum != -2 && n_cuts > 0) {
            ckm_i_moving_model model;
            ckm_i_milp_result result;
            double longest = optimum >= 0 ? (double)optimum : 1000.0 + total;
            assert_int_equal(ckm_i_moving_model_build(df, budget, cuts, n_cuts, longest, &model, NULL), CKM_OK);
            ckm_i_milp_options options = {.relax = true,
                                          .seconds = 10.0,
                                          .cutoff = INFINITY,
                                          .threads = 1,
                                          .separate = ckm_i_sepa_moving_paths,
                                          .context = &model,
                                          .enough = INFINITY,
                                          .known = -INFINITY};
            assert_int_equal(ckm_i_milp_solve(&model.milp, &options, &result, NULL), CKM_OK);
            double bound = result.proven * model.cost_scale;
            n_told++;
            if (optimum >= 0 && bound > (double)optimum * (1.0 + 1e-9)) {
                fail_msg("graph %lld: %d cuts from %d, budget %lld: bound %.6f, optimum %lld\n%s", (long long)i, n_cuts,
                         cuts[0], (long long)budget, bound, (long long)optimum, oracle_describe(&g, NULL));
            }
            n_above += optimum >= 0 && (double)optimum > total * (1.0 + 1e-9) && bound > total * (1.0 + 1e-6);
            ckm_i_milp_result_dispose(&result);
            ckm_i_moving_model_dispose(&model);
        }
        ckm_dataflow_free(df);
    }
    print_message("%lld graphs told, %lld bounds above the run without rematerialization\n", (long long)n_told,
                  (long long)n_above);
    assert_true(n_told > oracle_scaled(BOUNDS) / 2);
    assert_true(n_above >= oracle_scaled(BOUNDS) / 40);
}

// The smallest budget: within what is proven nothing fits, and within what was found something does. Slow links must not matter.
static void least_budgets_against_brute_force(void **state)
{
    (void)state;
    int64_t n_told = 0;
    int64_t n_moving = 0;
    int64_t n_least = 0;
    for (int64_t i = 0; i < oracle_scaled(LEASTS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 17};
        oracle_graph g;
        if (i % 3 == 0) {
            training_chain(&rng, &g);
        } else {
            oracle_random_graph(&rng, 3, 5, 5, &g);
        }
        ckm_second_memory second = random_second(&rng);
        second.latency_ns = i % 4 == 0 ? 1000000 : second.latency_ns;
        ckm_dataflow *df = oracle_build_with(&g, &second);
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_min_budget_result least;
        options.time_limit_seconds = 0.2;
        assert_int_equal(ckm_min_budget(df, &options, NULL, &least, NULL), CKM_OK);
        assert_true(agree(&g, df, &second, least.schedule));
        assert_true(least.lower_bound_bytes <= least.budget_bytes);
        ckm_simulation facts;
        assert_int_equal(ckm_schedule_simulate(df, least.schedule, NULL, &facts, NULL), CKM_OK);
        assert_int_equal(facts.peak_bytes, least.budget_bytes);
        bool met = least.lower_bound_bytes == least.budget_bytes;
        int64_t below = oracle_moves_optimum(&g, &second, least.lower_bound_bytes - 1, false);
        int64_t smaller = met ? below : oracle_moves_optimum(&g, &second, least.budget_bytes - 1, false);
        if (below != -2 && smaller != -2) {
            n_told++;
            n_moving += ckm_schedule_transfer_count(least.schedule) > 0;
            n_least += smaller == -1;
            if (below != -1) {
                fail_msg("least %lld, proven %lld\n%s", (long long)least.budget_bytes,
                         (long long)least.lower_bound_bytes, oracle_describe(&g, least.schedule));
            }
        }
        ckm_min_budget_result_dispose(&least);
        ckm_dataflow_free(df);
    }
    print_message("%lld of %lld graphs told, %lld smallest, %lld by moving\n", (long long)n_told,
                  (long long)oracle_scaled(LEASTS), (long long)n_least, (long long)n_moving);
    assert_true(n_told > oracle_scaled(LEASTS) / 2);
    assert_true(n_least >= 2 * n_told / 3);
    assert_true(n_moving >= oracle_scaled(LEASTS) / 20);
}

// Several budgets as one search: each result alone is that of a solve. Loads overlap with operators, so the sum of all costs is no bound.
static void frontiers_against_brute_force(void **state)
{
    (void)state;
    int64_t n_told = 0;
    for (int64_t i = 0; i < oracle_scaled(FRONTIERS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 40503u + 29};
        oracle_graph g;
        oracle_random_graph(&rng, 3, 5, 5, &g);
        oracle_moves_add_loads(&rng, &g);
        ckm_second_memory second = random_second(&rng);
        ckm_dataflow *df = oracle_build_with(&g, &second);
        int64_t floor = ckm_dataflow_memory_floor(df);
        const int64_t budgets[] = {floor, floor + 1, floor + 3};
        enum { n = sizeof budgets / sizeof budgets[0] };
        ckm_solve_result results[n];
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        options.time_limit_seconds = 0.3;
        assert_int_equal(ckm_solve_frontier(df, &options, budgets, n, results, NULL), CKM_OK);
        for (int k = 0; k < n; k++) {
            const ckm_solve_result *r = &results[k];
            int64_t optimum = oracle_moves_optimum(&g, &second, budgets[k], false);
            int64_t in_order = oracle_moves_optimum(&g, &second, budgets[k], true);
            assert_true(r->schedule == NULL || agree(&g, df, &second, r->schedule));
            if (optimum != -2 && in_order != -2) {
                n_told++;
                int64_t covered = r->bound_covers == CKM_BOUND_ANY ? optimum : in_order;
                assert_true(r->status != CKM_SOLVE_INFEASIBLE || optimum == -1);
                if ((r->schedule != NULL && r->cost < optimum) || (covered >= 0 && r->bound_cost > (double)covered)) {
                    fail_msg("cost %lld, bound %.3f, optimum %lld\n%s", (long long)r->cost, r->bound_cost,
                             (long long)covered, oracle_describe(&g, r->schedule));
                }
            }
            ckm_solve_result_dispose(&results[k]);
        }
        ckm_dataflow_free(df);
    }
    assert_true(n_told > oracle_scaled(FRONTIERS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_readings_agree),
        cmocka_unit_test(solutions_against_brute_force),
        cmocka_unit_test(loads_against_brute_force),
        cmocka_unit_test(relaxations_against_brute_force),
        cmocka_unit_test(least_budgets_against_brute_force),
        cmocka_unit_test(frontiers_against_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
