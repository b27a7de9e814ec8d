// SPDX-License-Identifier: Apache-2.0
// The heuristic strategies through ckm_solve on random training graphs with everything the model allows
// (several outputs, views, in-place pairs, workspace, operators that run once, results, several losses or
// none): they always hand in something, it is legal, and it keeps the budget.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/min_budget.h>
#include <checkmate/solve.h>

#include "layer_graph.h"
#include "oracle_random.h"
#include "solve/checkpoints/checkpoints.h"

enum { MAX_FORWARD = 14 };

static void check(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static bool chance(ckm_i_rng *rng, uint32_t percent)
{
    return ckm_i_rng_below(rng, 100) < percent;
}

static int32_t add_tensor(ckm_i_rng *rng, ckm_dataflow *df, int32_t alias_of)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow_tensor tensor = {
        .bytes = alias_of >= 0 ? 0 : ckm_i_rng_below(rng, 50), .alias_of = alias_of, .is_view = alias_of >= 0};
    int32_t index = -1;
    check(ckm_dataflow_add_tensor(df, &tensor, &index, &err), &err);
    return index;
}

// Adds an operator over `inputs` (repetitions allowed) and gives its first output.
static int32_t add_op(ckm_i_rng *rng, ckm_dataflow *df, ckm_op_kind kind, const int32_t *inputs, int32_t n_inputs)
{
    ckm_error err = CKM_ERROR_INIT;
    int32_t alias_of = -1;
    if (n_inputs > 0 && chance(rng, 10)) {
        int32_t owner = ckm_dataflow_get_tensor(df, inputs[0]).alias_of;
        alias_of = owner >= 0 ? owner : inputs[0];
    }
    int32_t outputs[2] = {add_tensor(rng, df, alias_of), -1};
    int32_t n_outputs = 1;
    if (chance(rng, 20)) {
        outputs[n_outputs++] = add_tensor(rng, df, -1);
    }
    const int32_t pair[1][2] = {{n_inputs > 0 ? inputs[0] : -1, outputs[0]}};
    ckm_dataflow_op op = {.kind = kind,
                          .cost = ckm_i_rng_below(rng, 30),
                          .workspace_bytes = chance(rng, 20) ? ckm_i_rng_below(rng, 40) : 0,
                          .run_once = chance(rng, 8),
                          .n_inputs = n_inputs,
                          .n_outputs = n_outputs,
                          .n_inplace = n_inputs > 0 && alias_of < 0 && chance(rng, 20),
                          .inputs = inputs,
                          .outputs = outputs,
                          .inplace = pair};
    check(ckm_dataflow_add_op(df, &op, NULL, &err), &err);
    return outputs[0];
}

static ckm_dataflow *random_training_graph(ckm_i_rng *rng)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    int32_t forward[MAX_FORWARD];
    int32_t n = 1 + (int32_t)ckm_i_rng_below(rng, MAX_FORWARD);
    uint32_t branching = ckm_i_rng_below(rng, 60);
    check(ckm_dataflow_create("random", CKM_COST_FLOPS, ckm_i_rng_below(rng, 20), &df, &err), &err);
    int32_t input = add_tensor(rng, df, -1);
    for (int32_t j = 0; j < n; j++) {
        int32_t inputs[3] = {j > 0 ? forward[j - 1] : input};
        int32_t n_inputs = 1;
        while (n_inputs < 3 && j > 0 && chance(rng, branching)) {
            inputs[n_inputs++] = forward[ckm_i_rng_below(rng, (uint32_t)j)];
        }
        forward[j] = add_op(rng, df, CKM_OP_FORWARD, inputs, n_inputs);
    }
    int32_t gradient = forward[n - 1];
    for (uint32_t losses = ckm_i_rng_below(rng, 3); losses > 0; losses--) {
        gradient = add_op(rng, df, CKM_OP_LOSS, (const int32_t[]){gradient, forward[n - 1]}, 2);
    }
    for (int32_t j = n - 1; j >= 0 && gradient != forward[n - 1]; j--) {
        if (chance(rng, 90)) {
            gradient = add_op(rng, df, CKM_OP_BACKWARD, (const int32_t[]){gradient, forward[j]}, 2);
        }
        if (chance(rng, 10)) {
            add_op(rng, df, CKM_OP_UPDATE, &gradient, 1);
        }
    }
    if (chance(rng, 30)) {
        check(ckm_dataflow_add_result(df, forward[ckm_i_rng_below(rng, (uint32_t)n)], &err), &err);
    }
    check(ckm_dataflow_finish(df, &err), &err);
    return df;
}

// Solves and looks at what comes back; returns the status.
static ckm_solve_status solve(const ckm_dataflow *df, const char *strategy, int64_t budget_bytes)
{
    int64_t floor_bytes = 0;
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.strategy = strategy;
    options.budget_bytes = budget_bytes;
    check(ckm_solve(df, &options, &result, &err), &err);
    if (result.schedule != NULL) {
        ckm_verdict verdict;
        check(ckm_schedule_verify(df, result.schedule, budget_bytes, &verdict, &err), &err);
        assert_string_equal(verdict.why, "");
        assert_int_equal(verdict.cost, result.cost);
        assert_int_equal(verdict.peak_bytes, result.peak_bytes);
        assert_string_equal(result.strategy, strategy);
        assert_true(result.cost >= result.baseline_cost && result.least_peak_bytes <= result.peak_bytes);
    }
    // Infeasible is a proof, and these prove nothing: only the memory floor does.
    check(ckm_min_budget_floor(df, &floor_bytes, &err), &err);
    assert_int_equal(result.floor_bytes, floor_bytes);
    assert_int_equal(result.status == CKM_SOLVE_INFEASIBLE, budget_bytes < floor_bytes);
    ckm_solve_status status = result.status;
    ckm_solve_result_dispose(&result);
    return status;
}

static void try_strategies(ckm_i_rng *rng, const ckm_dataflow *df)
{
    for (int32_t i = 0; i < ckm_solve_strategy_count(); i++) {
        const char *strategy = ckm_solve_strategy_name(i);
        if (!ckm_solve_strategy_has(i, CKM_STRATEGY_PUBLISHED)) {
            continue;
        }
        ckm_solve_status roomy = solve(df, strategy, INT64_MAX);
        assert_true(roomy == CKM_SOLVE_FEASIBLE || roomy == CKM_SOLVE_OPTIMAL);
        int64_t budget = ckm_dataflow_memory_floor(df) + ckm_i_rng_below(rng, 200);
        solve(df, strategy, budget);
        assert_int_equal(solve(df, strategy, ckm_dataflow_memory_floor(df) - 1), CKM_SOLVE_INFEASIBLE);
    }
}

static void random_training_graphs(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 5};
    for (int64_t i = oracle_scaled(400); i > 0; i--) {
        ckm_dataflow *df = random_training_graph(&rng);
        if (ckm_dataflow_memory_floor(df) > 0) {
            try_strategies(&rng, df);
        }
        ckm_dataflow_free(df);
    }
}

static void random_graphs_without_structure(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 6};
    for (int64_t i = oracle_scaled(400); i > 0; i--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        if (ckm_dataflow_memory_floor(df) > 0) {
            try_strategies(&rng, df);
        }
        ckm_dataflow_free(df);
    }
}

// On layer-level graphs S stays as published: what it holds in vain costs memory and never saves anything.
static void dropping_useless_bits_never_hurts(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 7};
    int32_t lower = 0;
    for (int64_t i = oracle_scaled(400); i > 0; i--) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = layer_graph_unit_chain(4 + (int32_t)ckm_i_rng_below(&rng, 9));
        ckm_i_forward *fw = NULL;
        ckm_i_stages *stages = NULL;
        int32_t at[MAX_FORWARD];
        ckm_i_positions checkpoints = {.at = at};
        int64_t peak[2];
        check(ckm_i_forward_create(df, &fw, &err), &err);
        check(ckm_i_stages_create(df, &stages, &err), &err);
        for (int32_t p = 0; p < fw->n; p++) {
            if (chance(&rng, 30)) {
                at[checkpoints.n++] = p;
            }
        }
        check(ckm_i_checkpoints_stages(fw, &checkpoints, stages, &err), &err);
        check(ckm_i_stages_peak(stages, &peak[0], &err), &err);
        int64_t cost = ckm_i_stages_cost(stages);
        check(ckm_i_stages_complete(stages, &err), &err);
        check(ckm_i_stages_peak(stages, &peak[1], &err), &err);
        assert_true(ckm_i_stages_cost(stages) <= cost && peak[1] <= peak[0]);
        lower += peak[1] < peak[0];
        ckm_i_stages_free(stages);
        ckm_i_forward_free(fw);
        ckm_dataflow_free(df);
    }
    assert_true(lower > 20);
}

// What ckm_solve gives for the artifact's figures of VGG19: the cheapest of the sweep that fits.
static void vgg19_through_solve(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        int64_t budget_bytes, cost, peak_bytes;
    } rows[] = {
        {"checkpoint-all", 1231061216, 58896187392, 1231061216},
        {"checkpoint-all", 1231061215, -1, -1},
        {"checkpoint-all-ap", 1231061216, 58896187392, 1231061216},
        {"checkpoint-last", 1200718144, 389852987392, 1200718144},
        {"chen-sqrt", 1218785504, 72512667648, 1218785504},
        {"chen-sqrt", 1218785503, -1, -1},
        {"chen-sqrt-ap", 1218785504, 72512667648, 1218785504},
        {"chen-greedy", 1231061216, 58896187392, 1231061216},
        {"chen-greedy", 1218785504, 60832579584, 1216446596},
        {"chen-greedy", 1216446595, 61757423616, 1203601540},
        {"chen-greedy", 1203601539, 71005863936, 1200718144},
        {"chen-greedy-ap", 1203601539, 71005863936, 1200718144},
        {"chen-greedy", 1200718143, -1, -1},
    };
    ckm_dataflow *df = layer_graph_vgg19();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.strategy = rows[i].strategy;
        options.budget_bytes = rows[i].budget_bytes;
        check(ckm_solve(df, &options, &result, &err), &err);
        assert_int_equal(result.cost, rows[i].cost);
        assert_int_equal(result.peak_bytes, rows[i].peak_bytes);
        ckm_solve_result_dispose(&result);
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_training_graphs),
        cmocka_unit_test(random_graphs_without_structure),
        cmocka_unit_test(dropping_useless_bits_never_hurts),
        cmocka_unit_test(vgg19_through_solve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
