// SPDX-License-Identifier: Apache-2.0
// The list of steps, and the schedule without rematerialization on graphs worked by hand.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "quoted.h"

static void steps_come_back_as_appended(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    assert_int_equal(ckm_schedule_create(&s, &err), CKM_OK);
    assert_int_equal(ckm_schedule_step_count(s), 0);
    for (int32_t i = 0; i < 1000; i++) {
        const int32_t pairs[][2] = {{i, i + 1}, {-i, 7}};
        ckm_step step = {.kind = i % 3 == 0 ? CKM_STEP_FREE : CKM_STEP_COMPUTE, .index = i - 5};
        if (i % 3 == 1) {
            step.n_inplace = 2;
            step.inplace = pairs;
        }
        assert_int_equal(ckm_schedule_append(s, &step, &err), CKM_OK);
    }
    assert_int_equal(ckm_schedule_step_count(s), 1000);
    for (int32_t i = 0; i < 1000; i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        assert_int_equal(step.kind, i % 3 == 0 ? CKM_STEP_FREE : CKM_STEP_COMPUTE);
        assert_int_equal(step.index, i - 5);
        assert_int_equal(step.n_inplace, i % 3 == 1 ? 2 : 0);
        if (i % 3 == 1) {
            assert_int_equal(step.inplace[0][0], i);
            assert_int_equal(step.inplace[0][1], i + 1);
            assert_int_equal(step.inplace[1][0], -i);
            assert_int_equal(step.inplace[1][1], 7);
        } else {
            assert_null(step.inplace);
        }
    }
    ckm_schedule_free(s);
    ckm_schedule_free(NULL);
}

static void impossible_steps_are_refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    const int32_t pair[][2] = {{0, 1}};
    const ckm_step bad[] = {{(ckm_step_kind)6, 0, 0, NULL},
                            {CKM_STEP_COMPUTE, 0, -1, NULL},
                            {CKM_STEP_FREE, 0, 1, pair},
                            {CKM_STEP_OUT, 0, 1, pair}};
    assert_int_equal(ckm_schedule_create(&s, &err), CKM_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ckm_schedule_append(s, &bad[i], &err), CKM_ERR_ARGUMENT);
    }
    assert_int_equal(ckm_schedule_step_count(s), 0);
    ckm_schedule_free(s);
}

static void info_is_kept(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    ckm_schedule_info info;
    assert_int_equal(ckm_schedule_create(&s, &err), CKM_OK);
    assert_true(isnan(ckm_schedule_get_info(s)->bound_cost));
    assert_int_equal(ckm_schedule_get_info(s)->bound_covers, CKM_BOUND_NONE);
    assert_int_equal(ckm_schedule_get_info(s)->budget_bytes, -1);
    memset(&info, 'x', sizeof info);  // names without an end
    info.bound_covers = CKM_BOUND_ORDER;
    info.optimal = true;
    info.cost = 12;
    ckm_schedule_set_info(s, &info);
    const ckm_schedule_info *kept = ckm_schedule_get_info(s);
    assert_int_equal(strlen(kept->graph), sizeof kept->graph - 1);
    assert_int_equal(strlen(kept->strategy), sizeof kept->strategy - 1);
    assert_int_equal(kept->bound_covers, CKM_BOUND_ORDER);
    assert_int_equal(kept->cost, 12);
    ckm_schedule_free(s);
}

// The baseline of a graph as text: "c0 c1[0,1] f2 ...".
static char *baseline_text(const ckm_dataflow *df, ckm_schedule_info *info)
{
    static char text[512];  // one at a time is compared at once
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *s = NULL;
    size_t used = 0;
    if (ckm_schedule_baseline(df, &s, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    text[0] = '\0';
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%c%d", i > 0 ? " " : "",
                                 step.kind == CKM_STEP_COMPUTE ? 'c' : 'f', (int)step.index);
        for (int32_t k = 0; k < step.n_inplace; k++) {
            used += (size_t)snprintf(text + used, sizeof text - used, "[%d,%d]", (int)step.inplace[k][0],
                                     (int)step.inplace[k][1]);
        }
    }
    *info = *ckm_schedule_get_info(s);
    ckm_schedule_free(s);
    return text;
}

typedef struct baseline_case {
    const char *what, *graph, *steps;
    int64_t peak;
} baseline_case;

static void baseline_by_hand(void **state)
{
    (void)state;
    static const baseline_case cases[] = {
        {"a chain frees each tensor after its reader; one without readers at once",
         "'tensors': [{'bytes': 3}, {'bytes': 4}, {'bytes': 5}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [1], 'outputs': [2]}]",
         "c0 c1 f0 c2 f1 f2", 9},
        {"results stay, inputs are never freed, a repeated operand is freed once",
         "'fixed_bytes': 100, 'tensors': [{'bytes': 10}, {'bytes': 1}, {'bytes': 2}],"
         "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]}, {'cost': 1, 'inputs': [1, 1, 0], 'outputs': [2]}],"
         "'results': [2]",
         "c0 c1 f1", 113},
        {"in place where the operand dies, and not where it is read later",
         "'tensors': [{'bytes': 4}, {'bytes': 4}, {'bytes': 3}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [1], 'inplace': [[0, 1]]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [2], 'inplace': [[0, 2]]}], 'results': [1, 2]",
         "c0 c1 c2[0,2]", 8},
        {"the storage of a view lives until the last of its tensors",
         "'tensors': [{'bytes': 6}, {'bytes': 1, 'alias_of': 0}, {'bytes': 2}, {'bytes': 3}],"
         "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1]},"
         "{'cost': 1, 'inputs': [], 'outputs': [2]}, {'cost': 1, 'inputs': [1, 2], 'outputs': [3]}]",
         "c0 c1 f0 c2 c3 f1 f2 f3", 11},
        {"workspace counts while its operator runs",
         "'tensors': [{'bytes': 3}, {'bytes': 4}], 'ops': [{'cost': 1, 'workspace_bytes': 50, 'inputs': [],"
         "'outputs': [0]}, {'cost': 1, 'inputs': [0], 'outputs': [1]}], 'results': [1]",
         "c0 c1 f0", 53},
        {"of two pairs for one operand, the one that saves more",
         "'tensors': [{'bytes': 9}, {'bytes': 5}, {'bytes': 8}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]},"
         "{'cost': 1, 'inputs': [0], 'outputs': [1, 2], 'inplace': [[0, 1], [0, 2]]}], 'results': [1, 2]",
         "c0 c1[0,2]", 14},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_dataflow *df = quoted_graph_of(cases[i].graph);
        ckm_schedule_info info;
        const char *steps = baseline_text(df, &info);
        if (strcmp(steps, cases[i].steps) != 0 || info.peak_bytes != cases[i].peak ||
            info.cost != ckm_dataflow_total_cost(df) || info.baseline_cost != info.cost) {
            fail_msg("%s: %s, peak %lld", cases[i].what, steps, (long long)info.peak_bytes);
        }
        ckm_dataflow_free(df);
    }
}

static void baseline_needs_a_finished_graph(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_schedule *s = NULL;
    ckm_simulation sim;
    assert_int_equal(ckm_dataflow_create("g", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_schedule_baseline(df, &s, &err), CKM_ERR_ARGUMENT);
    assert_null(s);
    assert_int_equal(ckm_schedule_create(&s, &err), CKM_OK);
    assert_int_equal(ckm_schedule_simulate(df, s, NULL, &sim, &err), CKM_ERR_ARGUMENT);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_come_back_as_appended),
        cmocka_unit_test(impossible_steps_are_refused),
        cmocka_unit_test(info_is_kept),
        cmocka_unit_test(baseline_by_hand),
        cmocka_unit_test(baseline_needs_a_finished_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
