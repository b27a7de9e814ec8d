// SPDX-License-Identifier: Apache-2.0
// Real networks on real kernels: steps within a budget that forces recomputation give, bit for bit, what steps without
// it give; batch norm, dropout, fused updates and work in place included.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/run.h>
#include <checkmate/solve.h>
#include <checkmate/zoo.h>

static void good(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s", err->message);
    }
}

static ckm_status solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget_bytes;
    options.time_limit_seconds = 10.0;
    options.gap = 0.3;
    ckm_status status = ckm_solve(user, &options, &result, err);
    if (status == CKM_OK) {
        *out = result.schedule;
        result.schedule = NULL;
        ckm_solve_result_dispose(&result);
    }
    return status;
}

typedef struct network {
    const char *name, *backend;
    int64_t side;
    ckm_optimizer_kind optimizer;
} network;

static void compare(const network *n)
{
    ckm_error err = CKM_ERROR_INIT;
    const int64_t shape[3] = {n->side, n->side, 3};
    ckm_graph *graph = NULL;
    ckm_training *training = NULL;
    ckm_program *program = NULL;
    ckm_dataflow *df = NULL;
    ckm_schedule *baseline = NULL;
    ckm_plan *plan = NULL;
    ckm_run_fit fit;
    ckm_compare_result result;
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {n->backend, 2};
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_plan_options planning = CKM_PLAN_OPTIONS_INIT;
    derivation.optimizer.kind = n->optimizer;
    derivation.optimizer.momentum = 0.9;
    derivation.fused = true;
    good(ckm_zoo_build(n->name, 2, shape, &graph, &err), &err);
    good(ckm_autodiff_op_graph(graph, &derivation, &training, &err), &err);
    good(ckm_program_create(training, &kernels, &program, &err), &err);
    good(ckm_cost_apply(training, &flops, &df, &err), &err);
    good(ckm_schedule_baseline(df, &baseline, &err), &err);
    good(ckm_plan_create(df, baseline, &planning, &plan, &err), &err);
    int64_t peak = ckm_schedule_get_info(baseline)->peak_bytes;
    int64_t floor = ckm_dataflow_memory_floor(df);
    good(ckm_run_plan_under_budget(df, floor + (peak - floor) * 7 / 10, 0, &planning, solve, df, &fit, &err), &err);
    if (fit.schedule == NULL) {
        fail_msg("%s: no schedule", n->name);
    }
    good(
        ckm_session_compare(program, df, baseline, plan, fit.schedule, fit.plan, 2, 0.01, 3, NULL, NULL, &result, &err),
        &err);
    if (!result.equal) {
        fail_msg("%s: %s", n->name, result.why);
    }
    assert_true(result.recomputations > 0);
    assert_true(isfinite(result.first_loss) && result.first_loss > 0.0);
    // The weights have moved.
    assert_true(result.last_loss != result.first_loss);
    ckm_run_fit_dispose(&fit);
    ckm_plan_free(plan);
    ckm_schedule_free(baseline);
    ckm_dataflow_free(df);
    ckm_program_free(program);
    ckm_training_free(training);
    ckm_graph_free(graph);
}

static void networks_train_alike_within_a_budget(void **state)
{
    (void)state;
    static const network networks[] = {
        {"linear5", "reference", 12, CKM_OPTIMIZER_ADAM}, {"linear5", "cpu", 32, CKM_OPTIMIZER_ADAMW},
        {"unet_mini", "cpu", 32, CKM_OPTIMIZER_SGD},      {"MobileNet", "cpu", 64, CKM_OPTIMIZER_SGD},
        {"MobileNetV2", "cpu", 64, CKM_OPTIMIZER_ADAM},
    };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        compare(&networks[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_train_alike_within_a_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
