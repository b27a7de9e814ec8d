// SPDX-License-Identifier: Apache-2.0
// The memory floor against brute force over all schedules: never above the least peak there is, and equal to it where
// every operator may run again and the work is not limited.
#include <checkmate/min_budget.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "oracle_brute.h"
#include "solve/floor/memory_floor.h"

static bool all_run_again(const oracle_graph *g)
{
    for (int32_t v = 0; v < g->n_ops; v++) {
        if (!g->ops[v].recomputable) {
            return false;
        }
    }
    return true;
}

static ckm_i_memory_floor_result find_floor(const oracle_graph *g, const ckm_dataflow *df, int64_t work)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_memory_floor_options options = {work, INT64_MAX};
    ckm_i_memory_floor_result found;
    if (ckm_i_memory_floor(df, &options, &found, &err) != CKM_OK) {
        fail_msg("%s\n%s", err.message, oracle_describe(g, NULL));
    }
    return found;
}

static void floor_is_what_brute_force_finds(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 97};
    int64_t n_raised = 0;
    int64_t n_exact = 0;
    int64_t n_once = 0;
    int64_t n_once_exact = 0;
    int64_t total = oracle_scaled(4000);
    for (int64_t round = 0; round < total; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 2, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_ANY);
        ckm_i_memory_floor_result found = find_floor(&g, df, INT64_C(1) << 40);
        if (found.floor_bytes > least || found.floor_bytes < ckm_dataflow_memory_floor(df)) {
            fail_msg("the floor is %lld, the simple one %lld, and %lld are enough\n%s", (long long)found.floor_bytes,
                     (long long)ckm_dataflow_memory_floor(df), (long long)least, oracle_describe(&g, NULL));
        }
        if (all_run_again(&g)) {
            if (found.floor_bytes != least || found.enough_bytes != least) {
                fail_msg("floor %lld, enough %lld; the least peak is %lld\n%s", (long long)found.floor_bytes,
                         (long long)found.enough_bytes, (long long)least, oracle_describe(&g, NULL));
            }
            n_exact++;
        } else {
            n_once++;
            n_once_exact += found.floor_bytes == least;
        }
        n_raised += found.floor_bytes > ckm_dataflow_memory_floor(df);
        ckm_dataflow_free(df);
    }
    printf(
        "%lld graphs, floor raised on %lld; equal to the least peak on all %lld where operators may run again, and on "
        "%lld of %lld others\n",
        (long long)total, (long long)n_raised, (long long)n_exact, (long long)n_once_exact, (long long)n_once);
    assert_true(n_raised > total / 50);
}

// With hardly any work the floor is weaker, never wrong; and it only gets better with more.
static void little_work_gives_less_but_nothing_wrong(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 98};
    for (int64_t round = oracle_scaled(500); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 4, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_ANY);
        for (int64_t work = 0; work <= 1000; work = 3 * work + 10) {
            ckm_i_memory_floor_result found = find_floor(&g, df, work);
            if (found.floor_bytes > least || found.enough_bytes < found.floor_bytes) {
                fail_msg("with %lld units: floor %lld, enough %lld, least peak %lld\n%s", (long long)work,
                         (long long)found.floor_bytes, (long long)found.enough_bytes, (long long)least,
                         oracle_describe(&g, NULL));
            }
        }
        ckm_dataflow_free(df);
    }
}

static int64_t last_runs(const oracle_graph *g, const ckm_dataflow *df, int64_t work)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_pebbling p;
    int64_t floor_bytes = 0;
    if (ckm_i_pebbling_init(&p, df, &err) != CKM_OK || ckm_i_last_runs(&p, work, &floor_bytes, &err) != CKM_OK) {
        fail_msg("%s\n%s", err.message, oracle_describe(g, NULL));
    }
    ckm_i_pebbling_dispose(&p);
    return floor_bytes;
}

// By itself, with whatever work, no more than the least peak; and more than one operator at a time takes on some graphs.
static void last_runs_never_need_more_than_brute_force(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 99};
    int64_t n_raised = 0;
    int64_t n_exact = 0;
    int64_t total = oracle_scaled(4000);
    for (int64_t round = 0; round < total; round++) {
        oracle_graph g;
        oracle_random_graph(&rng, 4, 7, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        int64_t least = oracle_least_peak(&g, ORACLE_ANY);
        int64_t found = last_runs(&g, df, INT64_C(1) << 40);
        int64_t hurried = last_runs(&g, df, 400);
        if (found > least || hurried > least) {
            fail_msg("last runs need %lld and %lld, and %lld are enough\n%s", (long long)found, (long long)hurried,
                     (long long)least, oracle_describe(&g, NULL));
        }
        n_raised += found > ckm_dataflow_memory_floor(df);
        n_exact += found == least;
        ckm_dataflow_free(df);
    }
    printf("%lld graphs: last runs need more than one operator on %lld, the least peak on %lld\n", (long long)total,
           (long long)n_raised, (long long)n_exact);
    assert_true(n_raised > total / 100);
}

// The three figures of the smallest budget: none is more than what it speaks of needs, and what is enough is the peak of the schedule.
static void the_smallest_budget_names_both_floors(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 100};
    int64_t total = oracle_scaled(60);
    int64_t n_apart = 0;
    int64_t n_optimal = 0;
    for (int64_t round = 0; round < total; round++) {
        oracle_graph g;
        ckm_error err = CKM_ERROR_INIT;
        ckm_min_budget_result found;
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        int64_t peak = -1;
        oracle_random_graph(&rng, 4, ORACLE_MAX_OPS, 9, &g);
        ckm_dataflow *df = oracle_build(&g);
        options.time_limit_seconds = 1.0;
        if (ckm_min_budget(df, &options, NULL, &found, &err) != CKM_OK) {
            fail_msg("%s\n%s", err.message, oracle_describe(&g, NULL));
        }
        oracle_class covers = found.bound_covers == CKM_BOUND_ANY     ? ORACLE_ANY
                              : found.bound_covers == CKM_BOUND_ORDER ? ORACLE_ORDER
                                                                      : ORACLE_FRONTIER;
        assert_true(oracle_replay(&g, found.schedule, NULL, &peak, NULL));
        assert_int_equal(peak, found.budget_bytes);
        if (found.floor_bytes > found.lower_bound_bytes || found.floor_bytes > oracle_least_peak(&g, ORACLE_ANY) ||
            found.lower_bound_bytes > oracle_least_peak(&g, covers)) {
            fail_msg("%lld bytes for all, %lld for class %d\n%s", (long long)found.floor_bytes,
                     (long long)found.lower_bound_bytes, (int)covers, oracle_describe(&g, NULL));
        }
        n_apart += found.floor_bytes < found.lower_bound_bytes;
        n_optimal += found.status == CKM_SOLVE_OPTIMAL;
        ckm_min_budget_result_dispose(&found);
        ckm_dataflow_free(df);
    }
    printf("%lld graphs, the smallest budget proven on %lld, the class needs more on %lld\n", (long long)total,
           (long long)n_optimal, (long long)n_apart);
    assert_true(n_apart > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_runs_never_need_more_than_brute_force),
        cmocka_unit_test(floor_is_what_brute_force_finds),
        cmocka_unit_test(little_work_gives_less_but_nothing_wrong),
        cmocka_unit_test(the_smallest_budget_names_both_floors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
