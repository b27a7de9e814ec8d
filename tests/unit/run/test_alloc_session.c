// SPDX-License-Identifier: Apache-2.0
// Programs, sessions, fits and profiles when any allocation may fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/cost.h>
#include <checkmate/profile.h>
#include <checkmate/zoo.h>

#include "alloc_sweep.h"

typedef struct fixture {
    ckm_training *training;
    ckm_program *program;
    ckm_dataflow *df;
    ckm_schedule *schedule;
    ckm_plan *plan;
} fixture;

static ckm_status prepare(void *user, ckm_error *err)
{
    fixture *f = user;
    ckm_program *program = NULL;
    ckm_program_options options = {"reference", 1};
    ckm_status status = ckm_program_create(f->training, &options, &program, err);
    assert_true((status == CKM_OK) == (program != NULL));
    ckm_program_free(program);
    return status;
}

static ckm_status open_session(void *user, ckm_error *err)
{
    fixture *f = user;
    ckm_session *session = NULL;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    options.trace = true;
    ckm_status status = ckm_session_create(f->program, f->df, f->schedule, f->plan, &options, &session, err);
    assert_true((status == CKM_OK) == (session != NULL));
    ckm_session_free(session);
    return status;
}

static ckm_status compare(void *user, ckm_error *err)
{
    fixture *f = user;
    ckm_compare_result result = {.steps = -7};
    ckm_status status = ckm_session_compare(f->program, f->df, f->schedule, f->plan, f->schedule, f->plan, 1, 0.1, 1,
                                            NULL, NULL, &result, err);
    assert_true((status == CKM_OK) == (result.steps == 1));
    assert_true(status != CKM_OK || result.equal);
    return status;
}

static ckm_status solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    fixture *f = user;
    (void)budget_bytes;
    return ckm_schedule_baseline(f->df, out, err);
}

static ckm_status fit(void *user, ckm_error *err)
{
    fixture *f = user;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_run_fit found = {.rounds = -7};
    ckm_status status = ckm_run_plan_under_budget(f->df, INT64_C(1) << 30, 0, &options, solve, f, &found, err);
    assert_true((status == CKM_OK) == (found.rounds == 1));
    if (status == CKM_OK) {
        assert_non_null(found.plan);
        ckm_run_fit_dispose(&found);
    }
    return status;
}

static ckm_status measure(void *user, ckm_error *err)
{
    fixture *f = user;
    ckm_profile *profile = NULL;
    ckm_profile_options options = {0, 3, 0.0, NULL, NULL, NULL};
    ckm_status status = ckm_profile_measure(f->program, f->df, f->schedule, f->plan, &options, &profile, err);
    assert_true((status == CKM_OK) == (profile != NULL));
    ckm_profile_free(profile);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    const int64_t shape[3] = {4, 4, 3};
    fixture f = {0};
    ckm_graph *graph = NULL;
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = {"reference", 1};
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_plan_options planning = CKM_PLAN_OPTIONS_INIT;
    derivation.optimizer.kind = CKM_OPTIMIZER_SGD;
    assert_int_equal(ckm_zoo_build("linear1", 1, shape, &graph, &err), CKM_OK);
    assert_int_equal(ckm_autodiff_op_graph(graph, &derivation, &f.training, &err), CKM_OK);
    assert_int_equal(ckm_program_create(f.training, &kernels, &f.program, &err), CKM_OK);
    assert_int_equal(ckm_cost_apply(f.training, &flops, &f.df, &err), CKM_OK);
    assert_int_equal(ckm_schedule_baseline(f.df, &f.schedule, &err), CKM_OK);
    assert_int_equal(ckm_plan_create(f.df, f.schedule, &planning, &f.plan, &err), CKM_OK);
    assert_true(alloc_sweep(prepare, &f) > 3);
    assert_true(alloc_sweep(open_session, &f) > 8);
    assert_true(alloc_sweep(compare, &f) > 20);
    assert_true(alloc_sweep(fit, &f) > 10);
    assert_true(alloc_sweep(measure, &f) > 10);
    ckm_plan_free(f.plan);
    ckm_schedule_free(f.schedule);
    ckm_dataflow_free(f.df);
    ckm_program_free(f.program);
    ckm_training_free(f.training);
    ckm_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
