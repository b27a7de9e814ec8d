// SPDX-License-Identifier: Apache-2.0
// The memory floor by the reverse pebble game, worked out by hand, and the schedules that reach it.
#include <checkmate/min_budget.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "layer_graph.h"
#include "solve/floor/memory_floor.h"
#include "solve/floor/pebbling_schedule.h"

// Operator v makes tensor v of bytes[v] bytes and reads inputs[v], -1 for none.
static ckm_dataflow *build(const int64_t *bytes, const int32_t (*inputs)[2], int32_t n, bool run_once)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("hand", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < n; v++) {
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {.cost = 1, .run_once = run_once, .inputs = inputs[v], .outputs = &v, .n_outputs = 1};
        op.n_inputs = (inputs[v][0] >= 0) + (inputs[v][1] >= 0);
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    return df;
}

// Two branches of 8 and then 3 bytes, joined by the last operator. One of the two 3s is there while the other branch
// runs: 3 + 8 + 3. Counting one operator at a time gives 8 + 3.
static ckm_dataflow *branches(void)
{
    static const int64_t bytes[] = {8, 3, 8, 3, 1};
    static const int32_t inputs[][2] = {{-1, -1}, {0, -1}, {-1, -1}, {2, -1}, {1, 3}};
    return build(bytes, inputs, 5, false);
}

static int64_t floor_of(const ckm_dataflow *df, int64_t *enough_bytes)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_memory_floor_options options = {1000000, INT64_MAX};
    ckm_i_memory_floor_result found;
    assert_int_equal(ckm_i_memory_floor(df, &options, &found, &err), CKM_OK);
    *enough_bytes = found.enough_bytes;
    return found.floor_bytes;
}

static void what_one_branch_keeps_waits_for_the_other(void **state)
{
    (void)state;
    ckm_dataflow *df = branches();
    int64_t enough = 0;
    assert_int_equal(ckm_dataflow_memory_floor(df), 11);
    assert_int_equal(floor_of(df, &enough), 14);
    assert_int_equal(enough, 14);
    ckm_dataflow_free(df);
}

// Two results of 5 bytes, each made of one of 20: whichever is made last, the other is there. Known without any search.
static void results_are_held_together(void **state)
{
    (void)state;
    static const int64_t bytes[] = {20, 5, 20, 5};
    const ckm_i_memory_floor_options no_search = {0, INT64_MAX};
    ckm_i_memory_floor_result found;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("hand", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < 4; v++) {
        const int32_t input = v - 1;
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {.cost = 1, .inputs = &input, .n_inputs = v % 2, .outputs = &v, .n_outputs = 1};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, 1, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_result(df, 3, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_memory_floor(df), 25);
    assert_int_equal(ckm_i_memory_floor(df, &no_search, &found, &err), CKM_OK);
    assert_int_equal(found.floor_bytes, 30);
    ckm_dataflow_free(df);
}

// The same with a small operator before each result: what the results' own operators take, 10, hides that one of the two that read
// 20 bytes and make 5 runs last, next to 5 of the other's. No search is needed for that either.
static void what_runs_last_runs_next_to_the_others(void **state)
{
    (void)state;
    static const int64_t bytes[] = {20, 5, 5, 20, 5, 5};
    int64_t floor_bytes = 0;
    ckm_i_pebbling p;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    assert_int_equal(ckm_dataflow_create("hand", CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    for (int32_t v = 0; v < 6; v++) {
        const int32_t input = v - 1;
        ckm_dataflow_tensor tensor = {.bytes = bytes[v], .alias_of = -1};
        ckm_dataflow_op op = {.cost = 1, .inputs = &input, .n_inputs = v % 3 > 0, .outputs = &v, .n_outputs = 1};
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, NULL, &err), CKM_OK);
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, 2, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_result(df, 5, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_memory_floor(df), 25);
    assert_int_equal(ckm_i_pebbling_init(&p, df, &err), CKM_OK);
    assert_int_equal(ckm_i_last_runs(&p, 100000, &floor_bytes, &err), CKM_OK);
    assert_int_equal(floor_bytes, 30);
    ckm_i_pebbling_dispose(&p);
    ckm_dataflow_free(df);
}

// 1 byte read at the start and at the end, 5 + 5 in between: dropped and made again, 10 are enough; made once, 11 are not
// too many.
static void what_runs_once_stays(void **state)
{
    (void)state;
    static const int64_t bytes[] = {1, 5, 5, 1, 1};
    static const int32_t inputs[][2] = {{-1, -1}, {0, -1}, {1, -1}, {2, -1}, {0, 3}};
    int64_t enough = 0;
    ckm_dataflow *again = build(bytes, inputs, 5, false);
    ckm_dataflow *once = build(bytes, inputs, 5, true);
    assert_int_equal(floor_of(again, &enough), 10);
    assert_int_equal(enough, 10);
    assert_int_equal(floor_of(once, &enough), 11);
    ckm_dataflow_free(again);
    ckm_dataflow_free(once);
}

// A schedule whose peak is the floor, and none below it.
static void check_schedule(const ckm_dataflow *df)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_memory_floor_options options = {10000000, INT64_MAX};
    ckm_i_memory_floor_result found;
    ckm_i_pebbling game;
    ckm_schedule *schedule = NULL;
    ckm_verdict verdict;
    assert_int_equal(ckm_i_pebbling_init_again(&game, df, &err), CKM_OK);
    assert_int_equal(ckm_i_memory_floor_find(&game, &options, &found, &err), CKM_OK);
    assert_int_equal(found.floor_bytes, found.enough_bytes);
    for (int i = 0; i < CKM_I_PLAY_MANNERS; i++) {
        ckm_i_play_manner manner = (ckm_i_play_manner)i;
        assert_int_equal(
            ckm_i_pebbling_schedule(&game, manner, found.floor_bytes - 1, 100000, NULL, NULL, &schedule, &err), CKM_OK);
        assert_null(schedule);
        assert_int_equal(
            ckm_i_pebbling_schedule(&game, manner, found.floor_bytes, 10000000, NULL, NULL, &schedule, &err), CKM_OK);
        assert_non_null(schedule);
        assert_int_equal(ckm_schedule_verify(df, schedule, found.floor_bytes, &verdict, &err), CKM_OK);
        assert_true(verdict.ok);
        assert_int_equal(verdict.peak_bytes, found.floor_bytes);
        ckm_schedule_free(schedule);
        schedule = NULL;
    }
    ckm_i_pebbling_dispose(&game);
}

static void schedules_reach_the_floor(void **state)
{
    (void)state;
    ckm_dataflow *graphs[] = {branches(), layer_graph_unit_chain(12), layer_graph_linear8(), layer_graph_vgg19()};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        check_schedule(graphs[i]);
        ckm_dataflow_free(graphs[i]);
    }
}

static void smallest_budget_is_proven(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_min_budget_result least;
    ckm_dataflow *df = branches();
    assert_int_equal(ckm_min_budget(df, &options, NULL, &least, &err), CKM_OK);
    assert_int_equal(least.status, CKM_SOLVE_OPTIMAL);
    assert_int_equal(least.budget_bytes, 14);
    assert_int_equal(least.lower_bound_bytes, 14);
    assert_int_equal(least.bound_covers, CKM_BOUND_ANY);
    ckm_min_budget_result_dispose(&least);
    ckm_dataflow_free(df);
}

// 120 operators that each read the one before and an earlier one, and leave the game more to try than there is work for. Going
// back over what shrinks first proves 49 bytes within it, where all moves in turn prove 44. Aiming at a budget then spends the work
// that it is given, however much was spent before.
static void work_is_spent_well_and_kept_to(void **state)
{
    (void)state;
    enum { N = 120, WORK = 20000, ONE_STEP = 1000 };
    const ckm_i_memory_floor_options options = {400000, INT64_MAX};
    int64_t bytes[N];
    int32_t inputs[N][2];
    for (int32_t v = 0; v < N; v++) {
        int32_t earlier = v - 2 - v * 11 % 16;
        bytes[v] = 1 + v * 7 % 13;
        inputs[v][0] = v - 1;
        inputs[v][1] = earlier >= 0 ? earlier : -1;
    }
    ckm_dataflow *df = build(bytes, (const int32_t(*)[2])inputs, N, false);
    ckm_i_memory_floor_result found;
    ckm_i_pebbling game;
    bool fits = true;
    assert_int_equal(ckm_i_pebbling_init_again(&game, df, NULL), CKM_OK);
    assert_int_equal(ckm_i_memory_floor_find(&game, &options, &found, NULL), CKM_OK);
    assert_true(found.floor_bytes >= 49);
    assert_true(found.enough_bytes > found.floor_bytes);
    int64_t before = game.work;
    assert_int_equal(ckm_i_memory_floor_aim(&game, found.floor_bytes, WORK, &fits, NULL), CKM_OK);
    assert_false(fits);
    assert_true(game.work - before <= WORK + ONE_STEP);
    ckm_i_pebbling_dispose(&game);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_branch_keeps_waits_for_the_other),
        cmocka_unit_test(results_are_held_together),
        cmocka_unit_test(what_runs_last_runs_next_to_the_others),
        cmocka_unit_test(what_runs_once_stays),
        cmocka_unit_test(work_is_spent_well_and_kept_to),
        cmocka_unit_test(schedules_reach_the_floor),
        cmocka_unit_test(smallest_budget_is_proven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
