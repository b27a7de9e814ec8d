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

// A chain long enough for the list of instances to grow at whatever opens one: a storage, one taken over in place, the
// workspace of an operator.
static void growing_may_fail(void **state)
{
    (void)state;
    enum { N = 40 };
    for (int variant = 0; variant < 4; variant++) {
        // In place; storages only; storage and workspace in turn, beginning with either.
        char tensors[2048] = "";
        char ops[8192] = "";
        char steps[4096] = "";
        char graph[12000];
        for (int i = 0; i < N; i++) {
            const char *comma = i > 0 ? ", " : "";
            char inputs[32] = "";
            char pair[64] = "";
            char workspace[64] = "";
            snprintf(tensors + strlen(tensors), sizeof tensors - strlen(tensors), "%s{'bytes': 64}", comma);
            if (i > 0) {
                snprintf(inputs, sizeof inputs, "%d", i - 1);
            }
            if (variant == 0 && i > 0) {
                snprintf(pair, sizeof pair, "[[%d, %d]]", i - 1, i);
            }
            if (variant == 2 || (variant == 3 && i > 0)) {
                snprintf(workspace, sizeof workspace, ", 'workspace_bytes': 64");
            }
            snprintf(ops + strlen(ops), sizeof ops - strlen(ops),
                     "%s{'cost': 1, 'inputs': [%s], 'outputs': [%d], 'inplace': %s%s}", comma, inputs, i,
                     pair[0] != '\0' ? pair : "[]", workspace);
            snprintf(steps + strlen(steps), sizeof steps - strlen(steps), "%s['compute', %d%s%s]", comma, i,
                     pair[0] != '\0' ? ", " : "", pair);
        }
        ckm_error err = CKM_ERROR_INIT;
        ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
        snprintf(graph, sizeof graph, "'tensors': [%s], 'ops': [%s], 'results': [%d]", tensors, ops, N - 1);
        fixture f = {.df = quoted_graph_of(graph), .schedule = quoted_schedule_of(steps)};
        assert_int_equal(ckm_plan_create(f.df, f.schedule, &options, &f.plan, &err), CKM_OK);
        assert_int_equal(ckm_plan_instance_count(f.plan), variant < 2 ? N : variant == 2 ? 2 * N : 2 * N - 1);
        assert_true(alloc_sweep(create, &f) > 15);
        assert_true(alloc_sweep(verify, &f) > 8);
        ckm_plan_free(f.plan);
        ckm_schedule_free(f.schedule);
        ckm_dataflow_free(f.df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(growing_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
