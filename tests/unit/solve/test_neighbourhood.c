// SPDX-License-Identifier: Apache-2.0
// The program over a set of recomputations against the whole integer program with all others forbidden: on small graphs
// both have the same optimum, and the state that a solution makes has that cost and fits.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "oracle_random.h"
#include "solve/core/solve_options.h"
#include "solve/search/neighbourhood.h"
#include "solve/search/search_moves.h"

// Random moves until the budget is kept; false when that does not come about.
static bool find_fitting(ckm_i_search *s, ckm_i_mover *mover)
{
    for (int i = 0; i < 400 && mover->n_candidates > 0; i++) {
        s->excess = ckm_i_profile_excess(&s->peaks);
        if (s->excess <= 0.5 && i > 20) {
            return true;
        }
        ckm_i_mover_step(mover);
    }
    return ckm_i_profile_excess(&s->peaks) <= 0.5;
}

static void solve(ckm_i_ilp *ilp, ckm_i_milp_result *result)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_milp_options options = {.seconds = 60.0, .cutoff = INFINITY, .threads = 1, .enough = INFINITY};
    assert_int_equal(ckm_i_milp_solve(&ilp->milp, &options, result, &err), CKM_OK);
    assert_int_equal(result->status, CKM_I_MILP_OPTIMAL);
}

// The optimum of the paper's program when nothing but the set may be computed again.
static double whole_program(const ckm_i_search *s, const ckm_i_neighbourhood_set *set)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_ilp *ilp = NULL;
    ckm_i_milp_result result = {0};
    int32_t n = s->df->n_ops;
    assert_int_equal(
        ckm_i_ilp_build(s->df, s->peaks.budget_bytes, CKM_FORMULATION_FRONTIER, 10000000, NULL, NULL, &ilp, &err),
        CKM_OK);
    for (int32_t t = 0; t < n; t++) {
        for (int32_t v = 0; v < t; v++) {
            int32_t col = ilp->r_col[t * n + v];
            bool allowed = false;
            for (int32_t i = 0; i < set->ops[t].n; i++) {
                allowed = allowed || set->ops[t].at[i] == v;
            }
            if (col >= 0 && !allowed) {
                ilp->milp.upper[col] = 0.0;
            }
        }
    }
    solve(ilp, &result);
    double optimum = result.objective * ilp->cost_scale;
    ckm_i_milp_result_dispose(&result);
    ckm_i_ilp_free(ilp);
    return optimum;
}

static void same_optimum_as_the_whole_program(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 31};
    ckm_error err = CKM_ERROR_INIT;
    int gained = 0;
    for (int64_t round = oracle_scaled(300); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 3, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_search *s = NULL;
        ckm_i_mover mover = {0};
        ckm_i_neighbourhood_set set = {0};
        ckm_i_snapshot best = {0};
        int64_t room = (int64_t)ckm_i_rng_below(&rng, 1 + (uint32_t)df->floor_bytes / 3);
        assert_int_equal(ckm_i_search_create(df, df->floor_bytes + room, &s, &err), CKM_OK);
        assert_int_equal(ckm_i_mover_create(s, ckm_i_rng_next(&rng), &mover, &err), CKM_OK);
        assert_int_equal(ckm_i_neighbourhood_set_create(df->n_ops, &set, &err), CKM_OK);
        mover.penalty = 20.0;
        mover.temperature = 50.0;
        if (find_fitting(s, &mover) && s->total_cost > df->total_cost) {
            assert_int_equal(ckm_i_neighbourhood_set_add(&set, s, &err), CKM_OK);
            assert_int_equal(ckm_i_snapshot_take(s->held, df->n_tensors, s->total_cost, 0.0, &best, &err), CKM_OK);
            for (int k = 0; k < 3; k++) {  // what other states do, within the budget or not
                for (int i = 0; i < 30; i++) {
                    ckm_i_mover_step(&mover);
                }
                assert_int_equal(ckm_i_neighbourhood_set_add(&set, s, &err), CKM_OK);
            }
            assert_int_equal(ckm_i_snapshot_load(&best, s, &err), CKM_OK);
            ckm_i_ilp *ilp = NULL;
            ckm_i_milp_result result = {0};
            assert_int_equal(ckm_i_neighbourhood_build(s, &set, &ilp, &err), CKM_OK);
            solve(ilp, &result);
            double optimum = result.objective * ilp->cost_scale;
            assert_true(fabs(optimum - whole_program(s, &set)) < 1e-6 * (1.0 + optimum));
            assert_int_equal(ckm_i_neighbourhood_take(ilp, result.x, s, &err), CKM_OK);
            assert_true(s->excess <= 0.5);
            assert_true(fabs((double)(s->total_cost - df->total_cost) - optimum) < 1e-6 * (1.0 + optimum));
            assert_true(s->total_cost <= best.cost);
            gained += s->total_cost < best.cost;
            ckm_i_milp_result_dispose(&result);
            ckm_i_ilp_free(ilp);
        }
        ckm_i_snapshot_dispose(&best);
        ckm_i_neighbourhood_set_dispose(&set);
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(gained > 0);  // or there was nothing to decide
}

// The states of some rounds; returns how many are within the budget.
static int meet_some(ckm_i_search *s, ckm_i_mover *mover, ckm_i_neighbourhood *nb, ckm_i_pool *pool)
{
    ckm_error err = CKM_ERROR_INIT;
    int n = 0;
    for (int k = 0; k < 6; k++) {
        if (find_fitting(s, mover)) {
            ckm_i_snapshot snapshot = {0};
            s->excess = 0.0;
            assert_int_equal(ckm_i_neighbourhood_meet(nb, s, &err), CKM_OK);
            assert_int_equal(ckm_i_snapshot_take(s->held, s->df->n_tensors, s->total_cost, 0.0, &snapshot, &err),
                             CKM_OK);
            ckm_i_pool_add(pool, &snapshot);
            n++;
        }
    }
    return n;
}

// The state is the pool's best afterwards, or one that is cheaper and fits; in the first seconds nothing is tried.
static void improves_or_leaves_the_best(void **state)
{
    (void)state;
    ckm_i_rng rng = {.state = 77};
    ckm_error err = CKM_ERROR_INIT;
    ckm_solve_options options = ckm_i_solve_options_usual();
    int better = 0;
    for (int64_t round = oracle_scaled(100); round > 0; round--) {
        oracle_graph g;
        oracle_random_graph(&rng, 4, ORACLE_MAX_OPS, ORACLE_MAX_PRODUCED, &g);
        ckm_dataflow *df = oracle_build(&g);
        ckm_i_search *s = NULL;
        ckm_i_mover mover = {0};
        ckm_i_pool pool = {0};
        ckm_i_solver solver = {.df = df,
                               .options = &options,
                               .deadline_seconds = INFINITY,
                               .give_up_seconds = INFINITY,
                               .best_cost = -1,
                               .bound_cost = NAN};
        solver.budget_bytes = df->floor_bytes + (int64_t)ckm_i_rng_below(&rng, 1 + (uint32_t)df->floor_bytes / 3);
        ckm_i_neighbourhood nb = {.start_seconds = ckm_i_clock_seconds() - 100.0};
        assert_int_equal(ckm_i_search_create(df, solver.budget_bytes, &s, &err), CKM_OK);
        assert_int_equal(ckm_i_mover_create(s, ckm_i_rng_next(&rng), &mover, &err), CKM_OK);
        mover.penalty = 20.0;
        mover.temperature = 50.0;
        if (meet_some(s, &mover, &nb, &pool) == 6 && pool.at[0].cost > df->total_cost) {
            bool improved = false;
            double deadline = ckm_i_clock_seconds() + 60.0;
            assert_int_equal(ckm_i_neighbourhood_improve(&nb, &solver, &pool, s, deadline, &improved, &err), CKM_OK);
            assert_true(nb.spent_seconds > 0.0);
            assert_true(ckm_i_profile_excess(&s->peaks) <= 0.5);
            assert_true(improved ? s->total_cost < pool.at[0].cost : s->total_cost == pool.at[0].cost);
            better += improved;
            double spent = nb.spent_seconds;
            nb.start_seconds = ckm_i_clock_seconds();
            assert_int_equal(ckm_i_neighbourhood_improve(&nb, &solver, &pool, s, deadline, &improved, &err), CKM_OK);
            assert_false(improved);
            assert_true(nb.spent_seconds == spent);
        }
        ckm_i_neighbourhood_dispose(&nb);
        ckm_i_pool_dispose(&pool);
        ckm_i_mover_dispose(&mover);
        ckm_i_search_free(s);
        ckm_dataflow_free(df);
    }
    assert_true(better > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_optimum_as_the_whole_program),
        cmocka_unit_test(improves_or_leaves_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
