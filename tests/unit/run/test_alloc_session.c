// SPDX-License-Identifier: Apache-2.0
// Programs, sessions, fits and profiles when any allocation may fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/profile.h>

#include "alloc_sweep.h"
#include "zoo_step.h"

static ckm_status prepare(void *user, ckm_error *err)
{
    zoo_step *s = user;
    ckm_program *program = NULL;
    ckm_program_options options = {.size = sizeof options, .threads = 1, .backend = "reference"};
    ckm_status status = ckm_program_create(s->training, &options, &program, err);
    assert_true((status == CKM_OK) == (program != NULL));
    ckm_program_free(program);
    return status;
}

static ckm_status open_session(void *user, ckm_error *err)
{
    zoo_step *s = user;
    ckm_session *session = NULL;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    options.trace = true;
    ckm_status status = ckm_session_create(s->program, s->df, s->schedule, s->plan, &options, &session, err);
    assert_true((status == CKM_OK) == (session != NULL));
    ckm_session_free(session);
    return status;
}

static ckm_status compare(void *user, ckm_error *err)
{
    zoo_step *s = user;
    ckm_compare_result result = {.steps = -7};
    const ckm_session_side side = {s->schedule, s->plan};
    ckm_compare_options options = CKM_COMPARE_OPTIONS_INIT;
    options.steps = 1;
    ckm_status status = ckm_session_compare(s->program, s->df, &side, &side, &options, &result, err);
    assert_true((status == CKM_OK) == (result.steps == 1));
    assert_true(status != CKM_OK || result.equal);
    return status;
}

static ckm_status solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    zoo_step *s = user;
    (void)budget_bytes;
    return ckm_schedule_baseline(s->df, out, err);
}

static ckm_status fit(void *user, ckm_error *err)
{
    zoo_step *s = user;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_run_fit found = {.rounds = -7};
    ckm_status status = ckm_run_plan_under_budget(s->df, INT64_C(1) << 30, 0, &options, solve, s, &found, err);
    assert_true((status == CKM_OK) == (found.rounds == 1));
    if (status == CKM_OK) {
        assert_non_null(found.plan);
        ckm_run_fit_dispose(&found);
    }
    return status;
}

static ckm_status measure(void *user, ckm_error *err)
{
    zoo_step *s = user;
    ckm_profile *profile = NULL;
    ckm_profile_options options = {sizeof options, 0, 3, 0.0, NULL, NULL, NULL};
    ckm_status status = ckm_profile_measure(s->program, s->df, s->schedule, s->plan, &options, &profile, err);
    assert_true((status == CKM_OK) == (profile != NULL));
    ckm_profile_free(profile);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {.size = sizeof kernels, .threads = 1, .backend = "reference"};
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    zoo_step s = zoo_step_of("linear1", 1, 4, &derivation, &kernels);
    assert_true(alloc_sweep(prepare, &s) > 3);
    assert_true(alloc_sweep(open_session, &s) > 8);
    assert_true(alloc_sweep(compare, &s) > 20);
    assert_true(alloc_sweep(fit, &s) > 10);
    assert_true(alloc_sweep(measure, &s) > 10);
    zoo_step_dispose(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
