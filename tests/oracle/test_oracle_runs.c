// SPDX-License-Identifier: Apache-2.0
// Sequences of runs. Random changes of them: figures are those of the sequence completed from scratch, and what is left is
// legal and of its class. Annealing on them: never below the optimum of the class by brute force, and most often there.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "schedule/schedule_order.h"
#include "solve/core/solve_options.h"
#include "solve/runs/runs.h"

enum { GRAPHS = 4000, SEARCHES = 1500, CHANGES = 60, ROOM = 400 };

// The figures by completing the sequence, and its class.
static void check(const ckm_i_runs *q)
{
    const ckm_dataflow *df = q->df;
    ckm_schedule *s = NULL;
    ckm_verdict verdict;
    int64_t in_use[8 * ROOM];
    ckm_simulation figures;
    assert_int_equal(ckm_i_schedule_from_order(df, q->at.op, q->n, &s, NULL), CKM_OK);
    assert_int_equal(ckm_schedule_verify(df, s, -1, &verdict, NULL), CKM_OK);
    assert_true(verdict.ok);
    assert_int_equal(verdict.cost, q->cost);
    assert_true(ckm_schedule_step_count(s) <= (int64_t)(sizeof in_use / sizeof in_use[0]));
    assert_int_equal(ckm_schedule_simulate(df, s, in_use, &figures, NULL), CKM_OK);
    int64_t excess = 0;
    int32_t at = 0;
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        if (step.kind == CKM_STEP_COMPUTE) {
            assert_int_equal(step.index, q->at.op[at]);
            assert_int_equal(in_use[i], q->at.used[at]);
            excess += in_use[i] > q->budget_bytes ? in_use[i] - q->budget_bytes : 0;
            at++;
        }
    }
    assert_int_equal(at, q->n);
    assert_int_equal(excess, q->excess);
    assert_true(!q->keeps_order || ckm_i_schedule_class(df, s) >= CKM_BOUND_ORDER);
    ckm_schedule_free(s);
}

static void random_changes(void **state)
{
    (void)state;
    int64_t n_made = 0;
    int64_t n_many = 0;  // runs left out at once
    int64_t n_out_of_order = 0;
    for (int64_t i = 0; i < oracle_scaled(GRAPHS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 7};
        oracle_graph g;
        ckm_i_runs q;
        ckm_i_runs_mover m;
        int32_t order[ORACLE_MAX_OPS];
        oracle_random_graph(&rng, 3, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t floor = ckm_dataflow_memory_floor(df);
        for (int32_t v = 0; v < df->n_ops; v++) {
            order[v] = v;
        }
        assert_int_equal(ckm_i_runs_init(&q, df, floor, i % 2 == 0, ROOM, NULL), CKM_OK);
        assert_int_equal(ckm_i_runs_mover_init(&m, &q, (uint64_t)i, NULL), CKM_OK);
        ckm_i_runs_load(&q, order, df->n_ops);
        check(&q);
        for (int k = 0; k < CHANGES; k++) {
            bool drawn = k % 7 == 3   ? ckm_i_runs_draw_far(&m)
                         : k % 7 == 5 ? ckm_i_runs_draw_stretch(&m)
                                      : ckm_i_runs_draw(&m);
            if (drawn && ckm_i_runs_try(&q)) {
                int64_t cost = q.trial_cost;
                n_many += q.n_dropped > 2;
                ckm_i_runs_accept(&q);
                assert_int_equal(q.cost, cost);
                check(&q);
                n_made++;
            }
        }
        for (int32_t v = 1; v < df->n_ops; v++) {
            n_out_of_order += q.first_at[v] < q.first_at[v - 1];
        }
        ckm_i_runs_mover_dispose(&m);
        ckm_i_runs_dispose(&q);
        ckm_dataflow_free(df);
    }
    assert_true(n_made > 10 * oracle_scaled(GRAPHS));
    assert_true(n_many > oracle_scaled(GRAPHS) / 5);
    assert_true(n_out_of_order > oracle_scaled(GRAPHS) / 20);
}

// Runs after the first of operators that make a result and nothing else.
static int64_t results_made_again(const ckm_i_runs *q)
{
    int64_t n = 0;
    for (int32_t i = 0; i < q->n; i++) {
        const ckm_i_dataflow_op *op = &q->df->ops[q->at.op[i]];
        bool result = op->n_outputs == 1 && q->df->tensors[op->outputs[0]].is_result;
        n += result && q->first_at[q->at.op[i]] != i;
    }
    return n;
}

// Changes that hold results make none again; others do.
static void results_are_held(void **state)
{
    (void)state;
    int64_t n_again[2] = {0, 0};
    for (int64_t i = 0; i < oracle_scaled(GRAPHS); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 17};
        oracle_graph g;
        ckm_i_runs q;
        ckm_i_runs_mover m;
        int32_t order[ORACLE_MAX_OPS];
        oracle_random_graph(&rng, 3, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        for (int32_t v = 0; v < df->n_ops; v++) {
            order[v] = v;
        }
        assert_int_equal(ckm_i_runs_init(&q, df, ckm_dataflow_memory_floor(df), i % 4 < 2, ROOM, NULL), CKM_OK);
        assert_int_equal(ckm_i_runs_mover_init(&m, &q, (uint64_t)i, NULL), CKM_OK);
        m.keeps_results = i % 2 == 0;
        ckm_i_runs_load(&q, order, df->n_ops);
        for (int k = 0; k < CHANGES; k++) {
            if ((k % 7 == 3 ? ckm_i_runs_draw_far(&m) : ckm_i_runs_draw(&m)) && ckm_i_runs_try(&q)) {
                ckm_i_runs_accept(&q);
                n_again[i % 2] += results_made_again(&q);
            }
        }
        ckm_i_runs_mover_dispose(&m);
        ckm_i_runs_dispose(&q);
        ckm_dataflow_free(df);
    }
    assert_int_equal(n_again[0], 0);
    assert_true(n_again[1] > oracle_scaled(GRAPHS) / 10);
}

// The cost found, -1: none.
static int64_t search(const ckm_dataflow *df, int64_t budget_bytes, bool keeps_order, uint64_t seed)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    ckm_i_runs_options limits = {.keeps_order = keeps_order, .seconds = 1e3, .states = 4000};
    ckm_i_solver solver;
    options.budget_bytes = budget_bytes;
    options.seed = seed;
    ckm_i_solver_init(&solver, df, &options, budget_bytes);
    solver.bound_cost = (double)df->total_cost;
    if (ckm_i_runs_search(&solver, &limits, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    int64_t cost = solver.best_schedule != NULL ? solver.best_cost : -1;
    assert_true(cost < 0 || !keeps_order || solver.best_class >= CKM_BOUND_ORDER);
    ckm_i_solver_dispose(&solver);
    return cost;
}

static void optima(void **state)
{
    (void)state;
    int64_t n_optima = 0;
    int64_t n_found = 0;
    int64_t n_reached = 0;
    int64_t n_above_once = 0;
    for (int64_t i = 0; i < oracle_scaled(SEARCHES); i++) {
        ckm_i_rng rng = {.state = (uint64_t)i * 2654435761u + 11};
        oracle_graph g;
        oracle_random_graph(&rng, 4, 7, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        oracle_class which = i % 2 == 0 ? ORACLE_ORDER : ORACLE_ANY;
        int64_t budget = oracle_least_peak(&g, which) + (int64_t)ckm_i_rng_below(&rng, 3);
        int64_t optimum = oracle_optimum(&g, which, budget);
        int64_t cost = search(df, budget, which == ORACLE_ORDER, (uint64_t)i);
        n_optima += optimum >= 0;
        n_found += cost >= 0;
        n_reached += cost == optimum;
        n_above_once += optimum > df->total_cost;
        assert_true(cost < 0 || (optimum >= 0 && cost >= optimum));
        ckm_dataflow_free(df);
    }

    assert_true(n_above_once > n_optima / 20);
    assert_true(n_found > n_optima * 9 / 10);
    assert_true(n_reached > n_optima * 8 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_changes), cmocka_unit_test(results_are_held),
                                       cmocka_unit_test(optima)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
