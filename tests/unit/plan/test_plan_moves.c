// SPDX-License-Identifier: Apache-2.0
// Plans of schedules that move storages to a second memory: where each comes back to, and what the checker refuses.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "plan/plan.h"
#include "quoted.h"

// Tensor 1 with its view 2 is made first and read last; 0 and 3 need its room in between. 4 is loaded.
static const char graph_text[] =
    "{'format': 'checkmate-graph', 'version': 2, 'cost_unit': 'ns',"
    " 'second_memory': {'out_bytes_per_second': 1000, 'in_bytes_per_second': 1000},"
    " 'tensors': [{'bytes': 100}, {'bytes': 200}, {'bytes': 0, 'alias_of': 1}, {'bytes': 300}, {'bytes': 64},"
    "             {'bytes': 50}],"
    " 'ops': [{'cost': 1, 'inputs': [], 'outputs': [1]}, {'cost': 1, 'inputs': [1], 'outputs': [2, 0]},"
    "         {'cost': 1, 'inputs': [0], 'outputs': [3]}, {'kind': 'load', 'cost': 1, 'inputs': [], 'outputs': [4]},"
    "         {'cost': 1, 'inputs': [2, 3, 4], 'outputs': [5], 'workspace_bytes': 10}], 'results': [5]}";
static const char steps_text[] =
    "{'format': 'checkmate-schedule', 'version': 2, 'steps': ["
    "['compute', 0], ['compute', 1], ['out', 1], ['wait', 1, 'out'], ['free', 1], ['free', 2],"  // 0 to 5
    "['compute', 2], ['free', 0], ['in', 1], ['in', 4], ['wait', 1, 'in'], ['wait', 4, 'in'],"   // 6 to 11
    "['compute', 4], ['free', 1], ['free', 2], ['free', 3], ['free', 4]]}";

typedef struct made {
    ckm_dataflow *df;
    ckm_schedule *s;
    ckm_plan *plan;
} made;

static made make(void)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    made m = {quoted_graph(graph_text, &err), NULL, NULL};
    m.s = m.df != NULL ? quoted_schedule(steps_text, &err) : NULL;
    if (m.s == NULL || ckm_plan_create(m.df, m.s, &options, &m.plan, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return m;
}

static void dispose(made *m)
{
    ckm_plan_free(m->plan);
    ckm_schedule_free(m->s);
    ckm_dataflow_free(m->df);
}

static const char *judge(const made *m)
{
    static ckm_plan_verdict verdict;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_plan_verify(m->df, m->s, m->plan, 64, &verdict, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return verdict.why;
}

static void what_is_away_has_no_room(void **state)
{
    (void)state;
    made m = make();
    // In order of birth: 1, 0, 3, 1 again, 4, 5, the workspace.
    static const struct {
        int32_t tensor, op;
        int64_t first, last;
    } expected[] = {{1, 0, 0, 4},   {0, 1, 1, 6},   {3, 2, 6, 14},  {1, -1, 8, 13},
                    {4, -1, 9, 15}, {5, 4, 12, 16}, {-1, 4, 12, 12}};
    assert_int_equal(ckm_plan_instance_count(m.plan), 7);
    for (int32_t i = 0; i < 7; i++) {
        ckm_plan_instance instance = ckm_plan_get_instance(m.plan, i);
        assert_int_equal(instance.tensor, expected[i].tensor);
        assert_int_equal(instance.op, expected[i].op);
        assert_int_equal(instance.first, expected[i].first);
        assert_int_equal(instance.last, expected[i].last);
    }
    // Rounded up to 64: 3, 1, 4, 5 and the workspace at step 12.
    assert_int_equal(ckm_plan_get_info(m.plan)->bound_bytes, 320 + 256 + 64 + 64 + 64);
    assert_string_equal(judge(&m), "");
    dispose(&m);
}

static void transfers_have_one_operand(void **state)
{
    (void)state;
    made m = make();
    int32_t in = -7;
    int32_t out = -7;
    int32_t workspace = -7;
    ckm_plan_get_step(m.plan, 2, &in, &out, &workspace);
    assert_int_equal(in, 0);
    assert_int_equal(out, -7);
    assert_int_equal(workspace, -1);
    ckm_plan_get_step(m.plan, 8, &in, &out, &workspace);
    assert_int_equal(in, 0);
    assert_int_equal(out, 3);
    int32_t inputs[3];
    ckm_plan_get_step(m.plan, 12, inputs, NULL, NULL);
    assert_int_equal(inputs[0], 3);  // the view is where its owner came back to
    assert_int_equal(inputs[1], 2);
    assert_int_equal(inputs[2], 4);
    ckm_plan_get_step(m.plan, 3, &in, &out, &workspace);
    assert_int_equal(in, 0);
    dispose(&m);
}

static void the_checker_follows_transfers(void **state)
{
    (void)state;
    made m = make();
    int32_t *bindings = m.plan->bindings;
    const ckm_i_plan_step *out = &m.plan->steps[2];
    const ckm_i_plan_step *in = &m.plan->steps[8];
    bindings[out->at] = 1;
    assert_non_null(strstr(judge(&m), "step 2: tensor"));
    bindings[out->at] = 0;
    bindings[out->at + 1] = 1;
    assert_non_null(strstr(judge(&m), "step 2: a transfer is bound to a workspace"));
    bindings[out->at + 1] = -1;
    bindings[in->at] = 0;
    assert_non_null(strstr(judge(&m), "step 8: instance 0 is allocated a second time"));
    bindings[in->at] = 3;
    m.plan->instances[3].op = 0;
    assert_non_null(strstr(judge(&m), "step 8: instance 3 should be tensor 1 by operator -1"));
    m.plan->instances[3].op = -1;
    m.plan->instances[3].last = 12;
    assert_non_null(strstr(judge(&m), "should end at step 13"));
    m.plan->instances[3].last = 13;
    m.plan->instances[0].last = 8;
    assert_non_null(strstr(judge(&m), "should end at step 4"));
    m.plan->instances[0].last = 4;
    // Its bytes count from the step that begins to bring it back.
    int64_t offset = m.plan->instances[3].offset;
    m.plan->instances[3].offset = m.plan->instances[2].offset;
    assert_non_null(strstr(judge(&m), "in use together at step 8"));
    m.plan->instances[3].offset = offset;
    assert_string_equal(judge(&m), "");
    dispose(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_away_has_no_room),
        cmocka_unit_test(transfers_have_one_operand),
        cmocka_unit_test(the_checker_follows_transfers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
