// SPDX-License-Identifier: Apache-2.0
// The best combination of rows against all combinations, on small graphs; on larger ones, that it is no worse than
// the parents, means what it says, and verifies.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle_random.h"
#include "solve/search/search_pool.h"
#include "solve/search/search_moves.h"

enum { most_parents = 4 };

static int32_t below(ckm_i_rng *rng, int32_t n)
{
    return (int32_t)ckm_i_rng_below(rng, (uint32_t)n);
}

// A few states that random moves lead to.
static int32_t random_parents(ckm_i_search *s, ckm_i_mover *mover, ckm_i_rng *rng, ckm_i_snapshot *parents)
{
    ckm_error err = CKM_ERROR_INIT;
    int32_t n = 1 + below(rng, most_parents);
    for (int32_t k = 0; k < n; k++) {
        for (int32_t i = below(rng, 60); i > 0 && mover->n_candidates > 0; i--) {
            ckm_i_mover_step(mover);
        }
        s->excess = ckm_i_profile_excess(&s->peaks);
        assert_int_equal(ckm_i_snapshot_take(s->held, s->df->n_tensors, s->total_cost, s->excess, &parents[k], &err),
                         CKM_OK);
    }
    return n;
}

static void start_search(const ckm_dataflow *df, ckm_i_rng *rng, ckm_i_search **s, ckm_i_mover *mover)
{
    ckm_error err = CKM_ERROR_INIT;
    int64_t budget = df->floor_bytes + below(rng, 1 + (int32_t)df->floor_bytes / 2);
    assert_int_equal(ckm_i_search_create(df, budget, s, &err), CKM_OK);
    assert_int_equal(ckm_i_mover_create(*s, ckm_i_rng_next(rng), mover, &err), CKM_OK);
    mover->penalty = 0.05 * below(rng, 100);
    mover->temperature = 1.0 + below(rng, 300);
}

static bool holds(const ckm_i_snapshot *parent, int32_t x, int32_t t)
{
    for (int32_t i = parent->first[x]; i < parent->first[x + 1]; i++) {
        if (parent->spans[i].first <= t && t <= parent->spans[i].last) {
            return true;
        }
    }
    return false;
}

// All ways to choose a parent per row, evaluated from scratch.
typedef struct choice {
    const ckm_dataflow *df;
    const ckm_i_snapshot *parents;
    int32_t n;
    int64_t budget_bytes;
    ckm_i_walk *walk;
    double best_excess;
    int64_t best_cost;
} choice;

static void choose_rows(choice *c, int32_t t, const uint64_t *row, double excess, int64_t cost)
{
    const ckm_dataflow *df = c->df;
    if (t == df->n_ops) {
        if (excess < c->best_excess || (excess == c->best_excess && cost < c->best_cost)) {
            c->best_excess = excess;
            c->best_cost = cost;
        }
        return;
    }
    size_t words = ckm_i_bits_words(df->n_tensors);
    uint64_t *next = calloc(words, sizeof *next);
    uint64_t *closed = calloc(words, sizeof *closed);
    uint64_t *r = calloc(ckm_i_bits_words(df->n_ops), sizeof *r);
    for (int32_t k = 0; k < c->n; k++) {
        memset(next, 0, words * sizeof *next);
        for (int32_t x = 0; x < df->n_tensors; x++) {
            if (holds(&c->parents[k], x, t + 1)) {
                ckm_i_bits_set(next, x);
            }
        }
        memcpy(closed, row, words * sizeof *row);
        int64_t more = ckm_i_walk_close(c->walk, t, closed, next, r);
        if (memcmp(closed, row, words * sizeof *row) == 0) {
            int64_t peak = ckm_i_walk_peak(c->walk, t, ckm_i_walk_held(c->walk, row), row, next, r);
            double over = peak > c->budget_bytes ? (double)(peak - c->budget_bytes) : 0.0;
            choose_rows(c, t + 1, next, excess + over, cost + more);
        }
    }
    free(next);
    free(closed);
    free(r);
}

// The child as a state: no worse than it claims, and a schedule of that cost and peak.
static void check_child(ckm_i_search *s, const ckm_i_snapshot *child)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_schedule *schedule = NULL;
    ckm_verdict verdict;
    assert_int_equal(ckm_i_snapshot_load(child, s, &err), CKM_OK);
    assert_true(s->total_cost <= child->cost);
    assert_true(s->excess <= child->excess);
    int64_t peak = ckm_i_profile_peak(&s->peaks, ckm_i_profile_highest(&s->peaks, 0, s->df->n_ops - 1));
    assert_int_equal(ckm_i_search_emit(s, &schedule, &err), CKM_OK);
    assert_int_equal(ckm_schedule_verify(s->df, schedule, -1, &verdict, &err), CKM_OK);
    assert_true(verdict.ok);
    assert_int_equal(verdict.cost, s->total_cost);
    assert_int_equal(verdict.peak_bytes, peak);
    ckm_schedule_free(schedule);
}

static bool better_than_all(const ckm_i_snapshot *child, const ckm_i_snapshot *parents, int32_t n)
{
    bool better = true;
    for (int32_t k = 0; k < n; k++) {
        better = better && ckm_i_snapshot_better(child, &parents[k]);
    }
    return better;
}

static void the_best_of_all_combinations(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 11};
    ckm_error err = CKM_ERROR_INIT;
    int gained = 0;
    for (int64_t round = oracle_scaled(2000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_search *s = NULL;
        ckm_i_mover mover;
        ckm_i_snapshot parents[most_parents];
        ckm_i_snapshot child = {0};
        start_search(df, &rng, &s, &mover);
        int32_t n = random_parents(s, &mover, &rng, parents);
        assert_int_equal(ckm_i_recombine(df, s->peaks.budget_bytes, parents, n, NULL, NULL, &child, &err), CKM_OK);
        choice c = {df, parents, n, s->peaks.budget_bytes, NULL, 1e300, INT64_MAX};
        assert_int_equal(ckm_i_walk_create(df, &c.walk, &err), CKM_OK);
        uint64_t *nothing = calloc(ckm_i_bits_words(df->n_tensors), sizeof *nothing);
        choose_rows(&c, 0, nothing, 0.0, 0);
        assert_true(child.excess == c.best_excess);  // small integers
        assert_int_equal(child.cost, c.best_cost);
        for (int32_t k = 0; k < n; k++) {
            assert_false(ckm_i_snapshot_better(&parents[k], &child));
        }
        gained += better_than_all(&child, parents, n);
        check_child(s, &child);
        free(nothing);
        ckm_i_walk_free(c.walk);
        ckm_i_snapshot_dispose(&child);
        for (int32_t k = 0; k < n; k++) {
            ckm_i_snapshot_dispose(&parents[k]);
        }
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(gained > 0);  // or there was nothing to combine
}

// What takes windows over from another state never makes it worse, leaves it as a state has to be.
static void crossing_never_makes_worse(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 13};
    ckm_error err = CKM_ERROR_INIT;
    int gained = 0;
    for (int64_t round = oracle_scaled(2000); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 1, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_search *s = NULL;
        ckm_i_mover mover;
        ckm_i_snapshot parents[most_parents];
        ckm_i_snapshot child = {0};
        bool improved = false;
        start_search(df, &rng, &s, &mover);
        int32_t n = random_parents(s, &mover, &rng, parents);
        assert_int_equal(ckm_i_snapshot_load(&parents[0], s, &err), CKM_OK);
        assert_int_equal(ckm_i_cross(s, &parents[n - 1], NULL, NULL, &improved, &err), CKM_OK);
        assert_int_equal(ckm_i_snapshot_take(s->held, df->n_tensors, s->total_cost, s->excess, &child, &err), CKM_OK);
        // Trying everything of the other at once comes first.
        assert_false(ckm_i_snapshot_better(&parents[n - 1], &child));
        assert_int_equal(improved, ckm_i_snapshot_better(&child, &parents[0]));
        assert_true(improved || child.cost == parents[0].cost);
        gained += better_than_all(&child, parents, n);
        check_child(s, &child);
        assert_int_equal(s->total_cost, child.cost);
        assert_true(s->excess == child.excess);
        ckm_i_snapshot_dispose(&child);
        for (int32_t k = 0; k < n; k++) {
            ckm_i_snapshot_dispose(&parents[k]);
        }
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(gained > 0);
}

static bool at_once(void *user)
{
    (void)user;
    return true;
}

static void stops_when_asked(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 12};
    ckm_error err = CKM_ERROR_INIT;
    oracle_graph g;
    oracle_random_graph(&rng, ORACLE_MAX_OPS, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
    ckm_dataflow *df = oracle_build(&g);
    ckm_i_search *s = NULL;
    ckm_i_snapshot parent;
    ckm_i_snapshot child = {.cost = 5};
    assert_int_equal(ckm_i_search_create(df, df->floor_bytes, &s, &err), CKM_OK);
    assert_int_equal(ckm_i_snapshot_take(s->held, df->n_tensors, s->total_cost, s->excess, &parent, &err), CKM_OK);
    assert_int_equal(ckm_i_recombine(df, df->floor_bytes, &parent, 1, at_once, NULL, &child, &err), CKM_OK);
    assert_int_equal(child.n_tensors, 0);
    ckm_i_snapshot_dispose(&parent);
    ckm_i_search_free(s);
    ckm_dataflow_free(df);
}

// The best come first, none twice, and the worst makes room.
static void the_pool_keeps_the_best(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_pool pool = {0};
    for (int32_t i = 0; i < 3 * CKM_I_POOL_SIZE; i++) {
        int32_t cost = i * 7 % (3 * CKM_I_POOL_SIZE);
        ckm_i_span span = {cost, cost};
        ckm_i_spans spans = {1, 1, &span};
        ckm_i_snapshot snapshot;
        assert_int_equal(ckm_i_snapshot_take(&spans, 1, cost, cost == 3 ? 1.0 : 0.0, &snapshot, &err), CKM_OK);
        ckm_i_pool_add(&pool, &snapshot);
        assert_int_equal(snapshot.n_tensors, 0);
        assert_int_equal(ckm_i_snapshot_take(&spans, 1, cost, cost == 3 ? 1.0 : 0.0, &snapshot, &err), CKM_OK);
        assert_false(ckm_i_pool_add(&pool, &snapshot));
    }
    assert_int_equal(pool.n, CKM_I_POOL_SIZE);
    for (int32_t i = 0; i < pool.n; i++) {
        assert_int_equal(pool.at[i].cost, i < 3 ? i : i + 1);  // what exceeds the budget is behind all of them
    }
    ckm_i_pool_dispose(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_all_combinations),
        cmocka_unit_test(crossing_never_makes_worse),
        cmocka_unit_test(stops_when_asked),
        cmocka_unit_test(the_pool_keeps_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
