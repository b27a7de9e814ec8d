// SPDX-License-Identifier: Apache-2.0
// An in-place pair named many times was saved as often: sizes overflowed, and a budget that fits was called proven too
// small.
#include <checkmate/dataflow.h>
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char graph[] = "{\"format\":\"checkmate-graph\",\"version\":1,"
                            "\"tensors\":[{\"bytes\":576460752303423488},{\"bytes\":576460752303423488}],"
                            "\"ops\":[{\"cost\":1,\"inputs\":[],\"outputs\":[0]},"
                            "{\"cost\":1,\"inputs\":[0],\"outputs\":[1],\"inplace\":["
                            "[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],"
                            "[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1],[0,1]]}],"
                            "\"results\":[1]}";

static void the_run_in_place_fits(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_solve_result result = {0};
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = INT64_C(1) << 59;
    if (ckm_dataflow_parse(graph, sizeof graph - 1, "graph", &df, &err) != CKM_OK ||
        ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    assert_int_equal(result.cost, 2);
    assert_int_equal(result.peak_bytes, INT64_C(1) << 59);
    ckm_solve_result_dispose(&result);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_run_in_place_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
