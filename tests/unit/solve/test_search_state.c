// SPDX-License-Identifier: Apache-2.0
// The search state against the matrices: after any moves, what is kept up to date by differences is what a full
// evaluation gives; what is taken back leaves nothing behind; what is written out verifies.
#include <checkmate/solve.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_random.h"
#include "solve/search/search_pool.h"
#include "solve/search/search_moves.h"
#include "solve/search/search_state.h"

enum { max_operands = 4 };

static int32_t below(ckm_i_rng *rng, int32_t n)
{
    return (int32_t)ckm_i_rng_below(rng, (uint32_t)n);
}

static int32_t add_tensor(ckm_i_rng *rng, ckm_dataflow *df, int32_t alias_of)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow_tensor tensor = {
        .bytes = below(rng, 8) == 0 ? 0 : 1 + below(rng, 40), .alias_of = alias_of, .is_view = alias_of >= 0};
    int32_t x = -1;
    assert_int_equal(ckm_dataflow_add_tensor(df, &tensor, &x, &err), CKM_OK);
    return x;
}

// Larger than what brute force can take, with everything a graph may have. Inputs are mostly recent, the way
// forward passes are, or mirror the operator, the way backward passes are.
static ckm_dataflow *random_graph(ckm_i_rng *rng, int32_t n_ops)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    int32_t *made = calloc((size_t)n_ops * 2 + 2, sizeof *made);
    int32_t *owner = calloc((size_t)n_ops * 2 + 2, sizeof *owner);
    int32_t n = 0;
    bool views = below(rng, 2) == 0;
    bool pairs = below(rng, 2) == 0;
    bool several = below(rng, 2) == 0;
    bool once = below(rng, 3) == 0;
    assert_int_equal(ckm_dataflow_create("random", CKM_COST_FLOPS, below(rng, 50), &df, &err), CKM_OK);
    made[n] = owner[n] = add_tensor(rng, df, -1);
    n++;
    for (int32_t v = 0; v < n_ops; v++) {
        int32_t inputs[max_operands];
        int32_t outputs[2];
        int32_t inplace[1][2];
        ckm_dataflow_op op = {.cost = below(rng, 100),
                              .workspace_bytes = below(rng, 4) == 0 ? below(rng, 50) : 0,
                              .run_once = once && below(rng, 8) == 0,
                              .inputs = inputs,
                              .outputs = outputs,
                              .inplace = (const int32_t(*)[2])inplace};
        int32_t before = n;
        int32_t wanted = 1 + below(rng, 3);
        for (int32_t i = 0; i < wanted; i++) {
            int32_t reach = before < 4 ? before : 4;
            int32_t mirror = before - 1 - (2 * v > n_ops ? 2 * (v - n_ops / 2) % before : below(rng, before));
            inputs[op.n_inputs++] = made[below(rng, 3) == 0 ? mirror : before - 1 - below(rng, reach)];
        }
        for (int32_t i = several && below(rng, 3) == 0 ? 2 : 1; i > 0; i--) {
            bool view = views && below(rng, 5) == 0;
            int32_t base = view ? inputs[0] : -1;
            for (int32_t k = 0; k < before && view; k++) {
                base = made[k] == inputs[0] ? owner[k] : base;
            }
            made[n] = add_tensor(rng, df, base);
            owner[n] = view ? base : made[n];
            outputs[op.n_outputs++] = made[n++];
            if (pairs && !view && op.n_inplace == 0 && below(rng, 3) == 0) {
                inplace[op.n_inplace][0] = inputs[op.n_inputs - 1];
                inplace[op.n_inplace++][1] = made[n - 1];
            }
        }
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, made[n - 1], &err), CKM_OK);
    for (int32_t i = below(rng, 3); i > 0; i--) {
        assert_int_equal(ckm_dataflow_add_result(df, made[below(rng, n)], &err), CKM_OK);
    }
    if (ckm_dataflow_finish(df, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    free(made);
    free(owner);
    return df;
}

// Everything the state says against completing and walking the same S from scratch.
static void check_state(ckm_i_search *s)
{
    const ckm_dataflow *df = s->df;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_stages *st = NULL;
    ckm_i_stages *full = NULL;
    ckm_i_walk *walk = NULL;
    assert_int_equal(ckm_i_stages_create(df, &st, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_create(df, &full, &err), CKM_OK);
    assert_int_equal(ckm_i_walk_create(df, &walk, &err), CKM_OK);
    ckm_i_search_to_stages(s, st);
    assert_int_equal(ckm_i_stages_copy(st, full, &err), CKM_OK);
    assert_int_equal(ckm_i_stages_complete(full, &err), CKM_OK);
    assert_memory_equal(st->s, full->s, ((size_t)df->n_ops + 1) * st->s_words * sizeof *st->s);
    assert_int_equal(s->total_cost, ckm_i_stages_cost(full));
    double excess = 0.0;
    for (int32_t t = 0; t < df->n_ops; t++) {
        const uint64_t *row = ckm_i_stages_s(full, t);
        const uint64_t *next = ckm_i_stages_s(full, t + 1);
        const uint64_t *r = ckm_i_stages_r(full, t);
        int32_t k = 0;
        for (int32_t v = 0; v < t; v++) {
            bool runs = k < s->extra[t].n && s->extra[t].at[k] == v;
            assert_int_equal(runs, ckm_i_bits_get(r, v));
            k += runs;
        }
        assert_int_equal(k, s->extra[t].n);
        int64_t peak = ckm_i_walk_peak(walk, t, ckm_i_walk_held(walk, row), row, next, r);
        assert_int_equal(peak, ckm_i_profile_peak(&s->peaks, t));
        excess += peak > s->peaks.budget_bytes ? (double)(peak - s->peaks.budget_bytes) : 0.0;
    }
    assert_true(excess == s->excess);  // small integers
    ckm_i_walk_free(walk);
    ckm_i_stages_free(st);
    ckm_i_stages_free(full);
}

static void check_steps(ckm_i_search *s)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *schedule = NULL;
    ckm_verdict verdict;
    int64_t peak = 0;
    assert_int_equal(ckm_i_search_emit(s, &schedule, &err), CKM_OK);
    assert_int_equal(ckm_schedule_verify(s->df, schedule, -1, &verdict, &err), CKM_OK);
    for (int32_t t = 0; t < s->df->n_ops; t++) {
        int64_t bytes = ckm_i_profile_peak(&s->peaks, t);
        peak = bytes > peak ? bytes : peak;
    }
    if (!verdict.ok) {
        fail_msg("%s", verdict.why);
    }
    assert_int_equal(verdict.cost, s->total_cost);
    assert_int_equal(verdict.peak_bytes, peak);
    // What is read back is the same state.
    int64_t cost = s->total_cost;
    double excess = s->excess;
    assert_int_equal(ckm_i_search_load(s, schedule, &err), CKM_OK);
    assert_int_equal(s->total_cost, cost);
    assert_true(s->excess == excess);
    ckm_schedule_free(schedule);
}

static void start_search(const ckm_dataflow *df, ckm_i_rng *rng, ckm_i_search **s, ckm_i_mover *mover)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t highest = df->floor_bytes;
    assert_int_equal(ckm_i_search_create(df, 0, s, &err), CKM_OK);
    for (int32_t t = 0; t < df->n_ops; t++) {
        int64_t peak = ckm_i_profile_peak(&(*s)->peaks, t);
        highest = peak > highest ? peak : highest;
    }
    ckm_i_search_free(*s);
    int64_t budget = df->floor_bytes + (highest - df->floor_bytes) * below(rng, 100) / 100;
    assert_int_equal(ckm_i_search_create(df, budget, s, &err), CKM_OK);
    assert_int_equal(ckm_i_mover_create(*s, ckm_i_rng_next(rng), mover, &err), CKM_OK);
    mover->penalty = 0.05 * below(rng, 100);
    mover->temperature = below(rng, 3) == 0 ? 0.0 : 1.0 + below(rng, 300);
}

static void moves_keep_everything_up_to_date(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 5};
    for (int64_t round = oracle_scaled(400); round > 0; round--) {
        ckm_dataflow *df = random_graph(&rng, 2 + below(&rng, 70));
        ckm_i_search *s = NULL;
        ckm_i_mover mover;
        start_search(df, &rng, &s, &mover);
        check_state(s);
        for (int k = 0; k < 60 && mover.n_candidates > 0; k++) {
            for (int32_t i = below(&rng, 30); i >= 0; i--) {
                ckm_i_mover_step(&mover);
            }
            check_state(s);
        }
        check_steps(s);
        check_state(s);
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
}

static void oddities_of_small_graphs(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 6};
    for (int64_t round = oracle_scaled(3000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_search *s = NULL;
        ckm_i_mover mover;
        start_search(df, &rng, &s, &mover);
        check_state(s);
        for (int k = 0; k < 40 && mover.n_candidates > 0; k++) {
            ckm_i_mover_step(&mover);
            check_state(s);
        }
        check_steps(s);
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
}

static void the_kept_state_comes_back(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 7};
    ckm_error err = CKM_ERROR_INIT;
    for (int64_t round = oracle_scaled(200); round > 0; round--) {
        ckm_dataflow *df = random_graph(&rng, 2 + below(&rng, 50));
        ckm_i_search *s = NULL;
        ckm_i_mover mover;
        start_search(df, &rng, &s, &mover);
        for (int k = 0; k < 5 && mover.n_candidates > 0; k++) {
            for (int32_t i = 0; i < 50; i++) {
                ckm_i_mover_step(&mover);
            }
            int64_t cost = s->total_cost;
            double excess = s->excess;
            ckm_i_search_keep(s);
            for (int32_t i = 0; i < 50; i++) {
                ckm_i_mover_step(&mover);
            }
            assert_int_equal(ckm_i_search_restore(s, &err), CKM_OK);
            check_state(s);
            assert_int_equal(s->total_cost, cost);
            assert_true(s->excess == excess);
        }
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
}

static void crossing_keeps_everything_up_to_date(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 10};
    ckm_error err = CKM_ERROR_INIT;
    int gained = 0;
    for (int64_t round = oracle_scaled(200); round > 0; round--) {
        ckm_dataflow *df = random_graph(&rng, 2 + below(&rng, 70));
        ckm_i_search *s = NULL;
        ckm_i_mover mover;
        ckm_i_snapshot other;
        bool improved = false;
        start_search(df, &rng, &s, &mover);
        for (int k = 0; k < 4; k++) {
            assert_int_equal(ckm_i_snapshot_take(s->held, df->n_tensors, s->total_cost, s->excess, &other, &err),
                             CKM_OK);
            for (int32_t i = below(&rng, 300); i > 0 && mover.n_candidates > 0; i--) {
                ckm_i_mover_step(&mover);
            }
            int64_t cost = s->total_cost;
            double excess = s->excess;
            assert_int_equal(ckm_i_cross(s, &other, NULL, NULL, &improved, &err), CKM_OK);
            check_state(s);
            assert_false(ckm_i_snapshot_better(&other, &(ckm_i_snapshot){.cost = s->total_cost, .excess = s->excess}));
            assert_int_equal(improved, s->excess < excess || (s->excess == excess && s->total_cost < cost));
            gained += improved;
            ckm_i_snapshot_dispose(&other);
        }
        check_steps(s);
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(gained > 0);
}

static int64_t solve_once(const ckm_dataflow *df, int64_t budget_bytes, uint64_t seed, int threads)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_result result;
    options.budget_bytes = budget_bytes;
    options.strategy = "local-search";
    options.time_limit_seconds = CKM_NONE;
    options.iteration_limit = 1000 * threads;
    options.seed = seed;
    options.threads = threads;
    assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_OK);
    int64_t cost = result.cost;
    ckm_solve_result_dispose(&result);
    return cost;
}

static void same_seed_same_result(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 8};
    int differ = 0;
    int threads_differ = 0;
    for (int64_t round = oracle_scaled(20); round > 0; round--) {
        ckm_dataflow *df = random_graph(&rng, 100 + below(&rng, 50));
        int64_t budget = df->floor_bytes + df->floor_bytes / 2;
        int64_t cost = solve_once(df, budget, 3, 1);
        int64_t costs[] = {0, cost, solve_once(df, budget, 3, 2), solve_once(df, budget, 3, 3), 0};
        for (int threads = 1; threads <= 3; threads++) {
            assert_int_equal(costs[threads], solve_once(df, budget, 3, threads));
        }
        differ += cost != solve_once(df, budget, 4, 1);
        threads_differ += cost != costs[2];
        ckm_dataflow_free(df);
    }
    assert_true(differ > 0);          // or the seed does nothing
    assert_true(threads_differ > 0);  // or the second thread does nothing
}

// What callbacks see, and on which threads.
typedef struct witness {
    pthread_t caller;
    int64_t calls, last_cost;
    int stop_after;
} witness;

static bool watch_stop(void *user)
{
    witness *w = user;
    assert_true(pthread_equal(w->caller, pthread_self()));
    w->calls++;
    return w->stop_after > 0 && w->calls > w->stop_after;
}

static void watch_progress(const ckm_progress *progress, void *user)
{
    witness *w = user;
    assert_true(pthread_equal(w->caller, pthread_self()));
    if (progress->incumbent_cost >= 0) {
        assert_true(w->last_cost < 0 || progress->incumbent_cost <= w->last_cost);
        w->last_cost = progress->incumbent_cost;
    }
}

static void callbacks_come_from_the_caller(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 9};
    ckm_error err = CKM_ERROR_INIT;
    for (int stop_after = 0; stop_after <= 40; stop_after += 20) {
        ckm_dataflow *df = random_graph(&rng, 120);
        witness w = {.caller = pthread_self(), .last_cost = -1, .stop_after = stop_after};
        ckm_solve_options options = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_result result;
        options.budget_bytes = df->floor_bytes + df->floor_bytes / 2;
        options.strategy = "local-search";
        options.time_limit_seconds = CKM_NONE;
        options.iteration_limit = stop_after > 0 ? INT64_C(1) << 60 : 20000;
        options.threads = 4;
        options.stop = watch_stop;
        options.progress = watch_progress;
        options.user = &w;
        assert_int_equal(ckm_solve(df, &options, &result, &err), CKM_OK);
        assert_true(w.calls > stop_after);
        assert_int_equal(result.cost, w.last_cost);
        ckm_solve_result_dispose(&result);
        ckm_dataflow_free(df);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moves_keep_everything_up_to_date),
        cmocka_unit_test(oddities_of_small_graphs),
        cmocka_unit_test(the_kept_state_comes_back),
        cmocka_unit_test(crossing_keeps_everything_up_to_date),
        cmocka_unit_test(same_seed_same_result),
        cmocka_unit_test(callbacks_come_from_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
