// SPDX-License-Identifier: Apache-2.0
// Tensors of gigabytes that differ by single bytes: CBC took what fits to the byte for infeasible. `ilp` printed a bound of
// 228 with a schedule that costs 222, `stage-program` said "infeasible" where a schedule fits. And a row of the integer
// program that cut off what is legal: `ilp` claimed 14 where 13 is possible.
#include <checkmate/dataflow.h>
#include <checkmate/solve.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char two_ways[] =
    "{\"format\":\"checkmate-graph\",\"version\":1,\"tensors\":[{\"bytes\":1073741825},{\"bytes\":1},"
    "{\"bytes\":3221225473},{\"bytes\":3221225474},{\"bytes\":3221225472},{\"bytes\":1073741824},"
    "{\"bytes\":3221225473},{\"bytes\":7516192769}],\"ops\":["
    "{\"cost\":51,\"workspace_bytes\":7516192770,\"inputs\":[0],\"outputs\":[1]},"
    "{\"cost\":57,\"inputs\":[1],\"outputs\":[2]},{\"cost\":2,\"inputs\":[2],\"outputs\":[3],\"inplace\":[[2,3]]},"
    "{\"cost\":5,\"inputs\":[3],\"outputs\":[4],\"inplace\":[[3,4]]},"
    "{\"cost\":47,\"workspace_bytes\":8589934594,\"inputs\":[3,4],\"outputs\":[5]},"
    "{\"cost\":5,\"inputs\":[1,2,5],\"outputs\":[6],\"inplace\":[[5,6]]},"
    "{\"cost\":4,\"workspace_bytes\":6442450945,\"inputs\":[0,6],\"outputs\":[7]}],\"results\":[7]}";

static const char twice_one[] =
    "{\"format\":\"checkmate-graph\",\"version\":1,\"tensors\":[{\"bytes\":8589934592},{\"bytes\":8589934593},"
    "{\"bytes\":8589934592},{\"bytes\":94489280512},{\"bytes\":8589934594},{\"bytes\":8589934593}],\"ops\":["
    "{\"cost\":142803367558207,\"inputs\":[],\"outputs\":[2]},"
    "{\"cost\":56757992790211,\"inputs\":[2],\"outputs\":[3],\"inplace\":[[2,3]]},"
    "{\"cost\":197370927028477,\"inputs\":[2],\"outputs\":[4],\"inplace\":[[2,4]]},"
    "{\"cost\":206849919846334,\"inputs\":[4],\"outputs\":[5]}],\"results\":[2,3,5]}";

// Tensor 4 is a view of tensor 3 that is made and used up before tensor 3 is. Held from an earlier stage, it does not keep
// the pair (1, 3) of the last operator from its storage. Computing 0 1 2 0 1 3 costs 13.
static const char view_before_its_owner[] =
    "{\"format\":\"checkmate-graph\",\"version\":1,\"fixed_bytes\":3,\"tensors\":[{\"bytes\":1},{\"bytes\":5},"
    "{\"bytes\":2},{\"bytes\":4},{\"bytes\":2,\"alias_of\":3},{\"bytes\":3}],\"ops\":["
    "{\"cost\":1,\"inputs\":[],\"outputs\":[4]},"
    "{\"cost\":5,\"inputs\":[4,4,4],\"outputs\":[0,1,5],\"inplace\":[[4,0],[4,1],[4,5]]},"
    "{\"cost\":0,\"inputs\":[4],\"outputs\":[2],\"inplace\":[[4,2]]},"
    "{\"cost\":1,\"workspace_bytes\":3,\"inputs\":[1,5,0],\"outputs\":[3],\"inplace\":[[1,3]]}],"
    "\"results\":[3,0]}";

static ckm_solve_result solve(const char *graph, int64_t budget, const char *strategy)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_solve_result result = {.cost = -1};
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    options.budget_bytes = budget;
    options.strategy = strategy;
    options.time_limit_seconds = 10.0;
    if (ckm_dataflow_parse(graph, strlen(graph), "graph", &df, &err) != CKM_OK ||
        ckm_solve(df, &options, &result, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    ckm_dataflow_free(df);
    return result;
}

static void a_bound_is_not_above_the_cost(void **state)
{
    (void)state;
    ckm_solve_result result = solve(two_ways, INT64_C(20401094662), "ilp");
    assert_int_equal(result.cost, 222);
    assert_true(result.bound_cost <= 222.0);
    // What the widened rows let through is cut off by exact ones, and so the proof is there, too.
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    assert_true(result.bound_cost == 222.0);
    ckm_solve_result_dispose(&result);
}

// Computing 0 1 2 3 1 keeps the order, fits; it costs as much as all operators and one more of the second.
static void what_fits_is_not_infeasible(void **state)
{
    (void)state;
    static const char *const strategies[] = {"stage-program", "stage-bound", "auto", "ilp"};
    const int64_t optimum = INT64_C(603782207223229) + INT64_C(56757992790211);
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        ckm_solve_result result = solve(twice_one, INT64_C(137438953475), strategies[i]);
        if (result.status == CKM_SOLVE_INFEASIBLE && result.bound_covers != CKM_BOUND_FRONTIER) {
            fail_msg("%s says infeasible", strategies[i]);
        }
        if (result.bound_covers != CKM_BOUND_FRONTIER) {
            assert_true(result.bound_cost <= (double)optimum);
        }
        ckm_solve_result_dispose(&result);
    }
}

static void no_row_cuts_off_what_is_legal(void **state)
{
    (void)state;
    ckm_solve_result result = solve(view_before_its_owner, 15, "ilp");
    assert_int_equal(result.cost, 13);
    assert_int_equal(result.status, CKM_SOLVE_OPTIMAL);
    assert_int_equal(result.bound_covers, CKM_BOUND_FRONTIER);
    assert_true(result.bound_cost == 13.0);
    ckm_solve_result_dispose(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bound_is_not_above_the_cost),
        cmocka_unit_test(what_fits_is_not_infeasible),
        cmocka_unit_test(no_row_cuts_off_what_is_legal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
