// SPDX-License-Identifier: Apache-2.0
// The integer program, its relaxations and the local search on graphs whose answers are known.
#include <checkmate/solve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "solve/ilp/ilp.h"

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static ckm_solve_result solve(const ckm_dataflow *df, const char *strategy, int64_t budget, ckm_formulation formulation)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget;
    options.strategy = strategy;
    options.formulation = formulation;
    if (ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s: %s", strategy, err.message);
    }
    return result;
}

// Chain of 8 layers: optima by frontier-advancing schedules and the values of the relaxations
// (docs/THEORY.md).
static void chain_of_eight(void **state)
{
    (void)state;
    static const struct {
        int64_t budget, optimum, tight, paper;
    } known[] = {{5, 24, 22, 22}, {4, 38, 38, 23}};
    ckm_dataflow *df = layer_graph_unit_chain(8);
    assert_int_equal(ckm_dataflow_op_count(df), 17);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        static const ckm_formulation forms[] = {CKM_FORMULATION_FRONTIER, CKM_FORMULATION_PAPER};
        for (int f = 0; f < 2; f++) {
            ckm_solve_result exact = solve(df, "ilp", known[i].budget, forms[f]);
            assert_int_equal(exact.status, CKM_SOLVE_OPTIMAL);
            assert_int_equal(exact.cost, known[i].optimum);
            assert_near(exact.bound_cost, (double)known[i].optimum, 1e-9);
            ckm_solve_result_dispose(&exact);
            ckm_solve_result relaxed = solve(df, "lp-bound", known[i].budget, forms[f]);
            assert_near(relaxed.bound_cost, (double)(f == 0 ? known[i].tight : known[i].paper), 1e-6);
            assert_int_equal(relaxed.bound_covers, CKM_BOUND_FRONTIER);
            assert_null(relaxed.schedule);
            ckm_solve_result_dispose(&relaxed);
        }
    }
    ckm_solve_result below = solve(df, "ilp", 3, CKM_FORMULATION_FRONTIER);
    assert_int_equal(below.status, CKM_SOLVE_INFEASIBLE);
    assert_int_equal(below.bound_covers, CKM_BOUND_ANY);
    assert_int_equal(below.floor_bytes, 4);
    assert_int_equal(below.least_peak_bytes, 4);
    ckm_solve_result_dispose(&below);
    ckm_dataflow_free(df);
}

// The stage bound never exceeds what is reachable, and on VGG19 with room to spare it is nearly exact.
static void bounds_are_below_costs(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_vgg19();
    ckm_solve_result all = solve(df, "checkpoint-all", INT64_MAX / 2, CKM_FORMULATION_FRONTIER);
    int64_t peak = all.baseline_peak_bytes;
    int64_t floor_bytes = all.floor_bytes;
    ckm_solve_result_dispose(&all);
    for (int i = 0; i < 4; i++) {
        int64_t budget = floor_bytes + (peak - floor_bytes) * i / 4;
        ckm_solve_result best = solve(df, "auto", budget, CKM_FORMULATION_FRONTIER);
        ckm_solve_result stage = solve(df, "stage-bound", budget, CKM_FORMULATION_FRONTIER);
        ckm_solve_result relaxed = solve(df, "lp-bound", budget, CKM_FORMULATION_FRONTIER);
        assert_int_equal(best.status, CKM_SOLVE_OPTIMAL);
        assert_true(best.peak_bytes <= budget);
        assert_true(stage.bound_cost <= (double)best.cost * (1 + 1e-12));
        assert_true(relaxed.bound_cost <= (double)best.cost * (1 + 1e-12));
        assert_true(stage.bound_covers == CKM_BOUND_ORDER || stage.bound_covers == CKM_BOUND_ANY);
        ckm_solve_result_dispose(&best);
        ckm_solve_result_dispose(&stage);
        ckm_solve_result_dispose(&relaxed);
    }
    ckm_dataflow_free(df);
}

// Same seed and iteration limit, same schedule; another seed may differ.
static void local_search_repeats(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(20);
    int64_t cost[2];
    int64_t peak[2];
    for (int run = 0; run < 2; run++) {
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = 8;
        options.strategy = "local-search";
        options.iteration_limit = 100000;
        options.time_limit_seconds = CKM_NONE;
        options.seed = 5;
        assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
        assert_non_null(result.schedule);
        cost[run] = result.cost;
        peak[run] = result.peak_bytes;
        assert_true(peak[run] <= 8);
        ckm_solve_result_dispose(&result);
    }
    assert_int_equal(cost[0], cost[1]);
    assert_int_equal(peak[0], peak[1]);
    ckm_dataflow_free(df);
}

// Where everything fits, nothing is recomputed, and that is proven optimal for all schedules.
static void room_for_everything(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(30);
    ckm_solve_result result = solve(df, "auto", 1000, CKM_FORMULATION_FRONTIER);
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    assert_int_equal(result.cost, result.baseline_cost);
    assert_int_equal(result.bound_covers, CKM_BOUND_ANY);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
}

// A limit on the cost: any schedule within it will do; below the optimum there is none.
static void cost_limit_decides(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    for (int64_t limit = 23; limit <= 24; limit++) {
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = 5;
        options.strategy = "ilp";
        options.cost_limit = limit;
        assert_int_equal(ckm_solve(df, &options, &result, NULL), CKM_OK);
        assert_int_equal(result.status == CKM_SOLVE_INFEASIBLE, limit < 24);
        if (limit == 24) {
            assert_non_null(result.schedule);
            assert_int_equal(result.cost, 24);
        }
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

static void bad_options_are_refused(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(3);
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_result result;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = -1;
    assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "budget_bytes"));
    options.budget_bytes = 10;
    options.strategy = "no-such";
    assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "no-such"));
    options.strategy = NULL;
    options.gap = -2;
    assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_ERR_ARGUMENT);
    ckm_dataflow_free(df);
}

static bool stops_at_the_third(void *asked)
{
    return ++*(int *)asked == 3;
}

// Setting the program up, which takes seconds on a large graph, ends with the stage at hand.
static void setting_up_is_cut_short(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(8);
    ckm_i_ilp *ilp = NULL;
    int asked = 0;
    assert_int_equal(ckm_i_ilp_build(df, 5, CKM_FORMULATION_FRONTIER, 100000, stops_at_the_third, &asked, &ilp, NULL),
                     CKM_OK);
    assert_null(ilp);
    assert_int_equal(asked, 3);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_of_eight),          cmocka_unit_test(bounds_are_below_costs),
        cmocka_unit_test(local_search_repeats),    cmocka_unit_test(room_for_everything),
        cmocka_unit_test(setting_up_is_cut_short), cmocka_unit_test(cost_limit_decides),
        cmocka_unit_test(bad_options_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
