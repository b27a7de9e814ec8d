// SPDX-License-Identifier: Apache-2.0
// Every allocation of the local search fails in turn: those of its set-up, those in the midst of a move, those of
// writing out what it found.
#include <checkmate/solve.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "layer_graph.h"
#include "quoted.h"
#include "solve/search/search_moves.h"
#include "solve/search/search_state.h"

typedef struct problem {
    const ckm_dataflow *df;
    int64_t budget_bytes;
    int threads;
} problem;

static ckm_status solve(void *user, ckm_error *err)
{
    const problem *p = user;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result = {.cost = -7};
    options.strategy = "local-search";
    options.budget_bytes = p->budget_bytes;
    options.iteration_limit = 3000;
    options.threads = p->threads;
    options.time_limit_seconds = CKM_NONE;
    ckm_status status = ckm_solve(p->df, &options, &result, err);
    if (status == CKM_OK) {
        assert_non_null(result.schedule);
        assert_true(result.cost > ckm_dataflow_total_cost(p->df));  // it had something to find
        ckm_solve_result_dispose(&result);
    } else {
        assert_int_equal(result.cost, -7);
    }
    return status;
}

static ckm_status move_about(ckm_i_search *s, ckm_error *err)
{
    ckm_i_mover mover = {0};
    ckm_status status = ckm_i_mover_create(s, 5, &mover, err);
    if (status != CKM_OK) {
        return status;
    }
    mover.penalty = 1.0;
    mover.temperature = 2.0;
    for (int i = 0; i < 1000; i++) {  // goes on after a failure, as a search does until it looks
        ckm_i_mover_step(&mover);
        if (s->excess <= 0.5) {
            ckm_i_search_keep(s);
        }
    }
    ckm_i_mover_repair(&mover, INFINITY);
    ckm_i_mover_dispose(&mover);
    return s->failed ? CKM_ERR_MEMORY : CKM_OK;
}

// The state by itself, its ways in (a schedule, the kept state) and out (steps).
static ckm_status state_and_steps(void *user, ckm_error *err)
{
    const problem *p = user;
    ckm_i_search *s = NULL;
    ckm_schedule *schedule = NULL;
    ckm_status status = ckm_i_search_create(p->df, p->budget_bytes, &s, err);
    assert_true((status == CKM_OK) == (s != NULL));
    status = status == CKM_OK ? move_about(s, err) : status;
    status = status == CKM_OK ? ckm_i_search_restore(s, err) : status;
    status = status == CKM_OK ? ckm_i_search_emit(s, &schedule, err) : status;
    assert_true((status == CKM_OK) == (schedule != NULL));
    status = status == CKM_OK ? ckm_i_search_load(s, schedule, err) : status;
    ckm_schedule_free(schedule);
    ckm_i_search_free(s);
    return status;
}

// A graph with a view, an in-place operator, one of two outputs and one that runs once.
static const char graph[] =
    "'tensors': [{'bytes': 3}, {'bytes': 8}, {'bytes': 8}, {'bytes': 0, 'alias_of': 2}, {'bytes': 6}, {'bytes': 2},"
    "            {'bytes': 8}, {'bytes': 8}, {'bytes': 8}],"
    "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [1]},"
    "        {'cost': 2, 'inputs': [1], 'outputs': [2], 'inplace': [[1, 2]]},"
    "        {'cost': 0, 'inputs': [2], 'outputs': [3]},"
    "        {'cost': 3, 'inputs': [3], 'outputs': [4, 5]},"
    "        {'cost': 2, 'inputs': [4], 'outputs': [6], 'recomputable': false},"
    "        {'cost': 1, 'inputs': [6, 5], 'outputs': [7]},"
    "        {'cost': 1, 'inputs': [7, 3, 1], 'outputs': [8]}], 'results': [8]";

static void chain(void **state)
{
    (void)state;
    ckm_dataflow *df = layer_graph_unit_chain(12);
    problem p = {.df = df, .budget_bytes = 7, .threads = 1};
    assert_true(alloc_sweep(solve, &p) > 100);
    p.threads = 3;
    assert_true(alloc_sweep(solve, &p) > 300);
    assert_true(alloc_sweep(state_and_steps, &p) > 100);
    ckm_dataflow_free(df);
}

static void general_graph(void **state)
{
    (void)state;
    ckm_dataflow *df = quoted_graph_of(graph);
    problem p = {.df = df, .budget_bytes = 28};
    assert_true(alloc_sweep(state_and_steps, &p) > 50);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(chain), cmocka_unit_test(general_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
