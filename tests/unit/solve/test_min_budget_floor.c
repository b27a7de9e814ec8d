// SPDX-License-Identifier: Apache-2.0
// The memory floor of the public interface: what one operator at a time does not show is in it, and it is what the
// smallest budget is found to be.
#include <checkmate/min_budget.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"

// Two branches of 8 and then 3 bytes, joined by the last operator.
static ckm_dataflow *build(const int64_t *bytes, const int32_t (*inputs)[2], bool run_once)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("branches", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < 5; v++) {
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {.cost = 1, .inputs = inputs[v], .outputs = &v, .n_outputs = 1, .run_once = run_once};
        op.n_inputs = (inputs[v][0] >= 0) + (inputs[v][1] >= 0);
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

// One of the two 3s is there while the other branch runs: 3 + 8 + 3. Counting one operator at a time gives 8 + 3.
static ckm_dataflow *branches(void)
{
    static const int64_t bytes[] = {8, 3, 8, 3, 1};
    static const int32_t inputs[][2] = {{-1, -1}, {0, -1}, {-1, -1}, {2, -1}, {1, 3}};
    return build(bytes, inputs, false);
}

// The same with both 8s first, each made once: in this order both are there when the first 3 is made, in another not.
static ckm_dataflow *wide_branches(void)
{
    static const int64_t bytes[] = {8, 8, 3, 3, 1};
    static const int32_t inputs[][2] = {{-1, -1}, {-1, -1}, {0, -1}, {1, -1}, {2, 3}};
    return build(bytes, inputs, true);
}

static int64_t floor_of(const ckm_dataflow *df)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t floor_bytes = -1;
    assert_int_equal(ckm_min_budget_floor(df, &floor_bytes, &err), CKM_OK);
    return floor_bytes;
}

static void counts_what_waits(void **state)
{
    (void)state;
    ckm_dataflow *df = branches();
    assert_int_equal(ckm_dataflow_memory_floor(df), 11);
    assert_int_equal(floor_of(df), 14);
    ckm_dataflow_free(df);
}

// An upper bound by another method: no schedule that the search finds needs less.
static void smallest_budgets_reach_it(void **state)
{
    (void)state;
    ckm_dataflow *graphs[] = {branches(), layer_graph_unit_chain(12), layer_graph_linear8()};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_min_budget_result least;
        assert_int_equal(ckm_min_budget(graphs[i], &options, NULL, &least, &err), CKM_OK);
        assert_int_equal(least.budget_bytes, floor_of(graphs[i]));
        ckm_min_budget_result_dispose(&least);
        ckm_dataflow_free(graphs[i]);
    }
}

typedef struct news {
    int64_t n;
    ckm_min_budget_result last;
} news;

static void note(const ckm_min_budget_result *so_far, void *user)
{
    news *n = user;
    assert_null(so_far->schedule);
    assert_true(so_far->floor_bytes <= so_far->lower_bound_bytes && so_far->lower_bound_bytes <= so_far->budget_bytes);
    assert_true(so_far->bound_covers != CKM_BOUND_ANY || so_far->floor_bytes == so_far->lower_bound_bytes);
    assert_true(n->n == 0 || so_far->floor_bytes >= n->last.floor_bytes);
    n->last = *so_far;
    n->n++;
}

// What all schedules need, what those in the graph's order need, and what is enough for these.
static void a_class_has_a_floor_of_its_own(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_min_budget_result least;
    news told = {0};
    ckm_dataflow *df = wide_branches();
    options.user = &told;
    assert_int_equal(ckm_min_budget(df, &options, note, &least, &err), CKM_OK);
    assert_int_equal(least.floor_bytes, 14);
    assert_int_equal(least.lower_bound_bytes, 19);
    assert_int_equal(least.bound_covers, CKM_BOUND_ORDER);
    assert_int_equal(least.budget_bytes, 19);
    assert_int_equal(least.status, CKM_SOLVE_OPTIMAL);
    assert_true(told.n > 0);
    assert_int_equal(told.last.floor_bytes, 14);
    assert_int_equal(told.last.lower_bound_bytes, 19);
    ckm_min_budget_result_dispose(&least);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_what_waits),
        cmocka_unit_test(smallest_budgets_reach_it),
        cmocka_unit_test(a_class_has_a_floor_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
