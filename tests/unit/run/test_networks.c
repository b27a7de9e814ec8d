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

#include "zoo_step.h"

typedef struct network {
    const char *name, *backend;
    int64_t side;
    ckm_optimizer_kind optimizer;
} network;

static void compare(const network *n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_run_fit fit;
    ckm_compare_result result;
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {.size = sizeof kernels, .threads = 2, .backend = n->backend};
    ckm_plan_options planning = CKM_PLAN_OPTIONS_INIT;
    derivation.optimizer.kind = n->optimizer;
    derivation.optimizer.momentum = 0.9;
    zoo_step step = zoo_step_of(n->name, 2, n->side, &derivation, &kernels);
    int64_t peak = ckm_schedule_get_info(step.schedule)->peak_bytes;
    int64_t floor = ckm_dataflow_memory_floor(step.df);
    good(ckm_run_plan_under_budget(step.df, floor + (peak - floor) * 7 / 10, 0, &planning, zoo_step_solve, step.df,
                                   &fit, &err),
         &err);
    if (fit.schedule == NULL) {
        fail_msg("%s: no schedule", n->name);
    }
    ckm_compare_options steps = CKM_COMPARE_OPTIONS_INIT;
    steps.steps = 2;
    steps.seed = 3;
    good(ckm_session_compare(step.program, step.df, &(ckm_session_side){step.schedule, step.plan},
                             &(ckm_session_side){fit.schedule, fit.plan}, &steps, &result, &err),
         &err);
    if (!result.equal) {
        fail_msg("%s: %s", n->name, result.why);
    }
    assert_true(result.recomputations > 0);
    assert_true(isfinite(result.first_loss) && result.first_loss > 0.0);
    // The weights have moved.
    assert_true(result.last_loss != result.first_loss);
    ckm_run_fit_dispose(&fit);
    zoo_step_dispose(&step);
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
