// SPDX-License-Identifier: Apache-2.0
// A plan whose buffers take 2^63 - 1 bytes together, which is as much as a graph may have, crashed: no packing counted
// as better than having none.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "quoted.h"

static void buffers_of_all_bytes_there_are(void **state)
{
    (void)state;
    static const char *const tensors[] = {"{'bytes': 9223372036854775807}, {'bytes': 0}",
                                          "{'bytes': 9223372036854775800}, {'bytes': 7}"};
    for (int i = 0; i < 2; i++) {
        char graph[400];
        ckm_error err = CKM_ERROR_INIT;
        ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
        ckm_plan *plan = NULL;
        ckm_plan_verdict verdict;
        snprintf(graph, sizeof graph, "'tensors': [%s], 'ops': [{'cost': 1, 'inputs': [], 'outputs': [0, 1]}]",
                 tensors[i]);
        ckm_dataflow *df = quoted_graph_of(graph);
        ckm_schedule *s = quoted_schedule_of("['compute', 0]");
        options.alignment = 1;
        assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_OK);
        assert_true(ckm_plan_get_info(plan)->bound_bytes == INT64_MAX);
        assert_true(ckm_plan_get_info(plan)->arena_bytes == INT64_MAX);
        assert_string_equal(ckm_plan_get_info(plan)->method, "by size, first fit");
        assert_int_equal(ckm_plan_verify(df, s, plan, 1, &verdict, &err), CKM_OK);
        assert_true(verdict.ok);
        ckm_plan_free(plan);
        // Rounded up, they are too many.
        options.alignment = 64;
        assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_ERR_OVERFLOW);
        ckm_schedule_free(s);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_of_all_bytes_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
