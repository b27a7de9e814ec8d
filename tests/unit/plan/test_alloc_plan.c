// SPDX-License-Identifier: Apache-2.0
// Planning and checking plans when any allocation may fail.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "alloc_sweep.h"
#include "quoted.h"

typedef struct fixture {
    ckm_dataflow *df;
    ckm_schedule *schedule;
    ckm_plan *plan;
} fixture;

static ckm_status create(void *user, ckm_error *err)
{
    const fixture *f = user;
    ckm_plan *plan = NULL;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    options.target_bytes = 0;
    options.iteration_limit = 12;
    ckm_status status = ckm_plan_create(f->df, f->schedule, &options, &plan, err);
    assert_true((status == CKM_OK) == (plan != NULL));
    ckm_plan_free(plan);
    return status;
}

static ckm_status verify(void *user, ckm_error *err)
{
    const fixture *f = user;
    ckm_plan_verdict verdict = {.arena_bytes = -7};
    ckm_status status = ckm_plan_verify(f->df, f->schedule, f->plan, 64, &verdict, err);
    assert_true((status == CKM_OK) == (verdict.arena_bytes != -7));
    assert_true(status != CKM_OK || verdict.ok);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    fixture f = {
        .df = quoted_graph_of("'name': 'g', 'tensors': [{'bytes': 640}, {'bytes': 64}, {'bytes': 704}, {'bytes': 320}],"
                              "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'workspace_bytes': 64},"
                              "{'cost': 1, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [1], 'outputs': [2]},"
                              "{'cost': 1, 'inputs': [2], 'outputs': [3], 'inplace': [[2, 3]]}], 'results': [1, 3]"),
        .schedule = quoted_schedule_of("['compute', 0], ['compute', 1], ['free', 0], ['compute', 2],"
                                       "['compute', 3, [[2, 3]]]")};
    assert_int_equal(ckm_plan_create(f.df, f.schedule, &options, &f.plan, &err), CKM_OK);
    assert_true(alloc_sweep(create, &f) > 15);
    assert_true(alloc_sweep(verify, &f) > 8);
    ckm_plan_free(f.plan);
    ckm_schedule_free(f.schedule);
    ckm_dataflow_free(f.df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
