// SPDX-License-Identifier: Apache-2.0
// When to solve which program, and what to do with its answer.
#include "solve/search/neighbourhood.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/core/component_registry.h"

// Tables take memory in the square of the operators.
static const int32_t max_ops = 2500;

// A program with more columns for R is not solved in the time that there is.
static const int64_t max_pairs = 1200;

// Share of the time to begin with, its limits, and what an improvement or a failure does to it.
static const double first_share = 0.3, least_share = 0.05, most_share = 0.5;
static const double success = 1.5, failure = 0.7;

// Time of one program: a share of what has passed since the beginning, within limits. Before the least of that has
// passed annealing is worth more.
static const double solve_share = 0.25, least_seconds = 3.0, most_seconds = 10.0;

// Gap at which a program counts as solved, of what may be recomputed at most; and passes of CBC's feasibility pump,
// which on these programs finds something in the first few or not at all.
static const double program_gap = 0.001;
enum { pump_passes = 3, n_recent = 6, least_recent = 3 };

// While the engine is waited for, the concurrent work goes on.
static bool attend_and_ask(void *solver)
{
    ckm_i_solver_attend(solver);
    return ckm_i_solver_should_stop(solver);
}

ckm_status ckm_i_neighbourhood_meet(ckm_i_neighbourhood *nb, const ckm_i_search *s, ckm_error *err)
{
    ckm_i_snapshot snapshot = {0};
    if (s->excess > 0.5) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_snapshot_take(s->held, s->df->n_tensors, s->total_cost, 0.0, &snapshot, err));
    ckm_i_snapshot_dispose(&nb->recent[nb->next]);
    nb->recent[nb->next] = snapshot;
    nb->next = (nb->next + 1) % n_recent;
    nb->n_recent += nb->n_recent < n_recent;
    return CKM_OK;
}

void ckm_i_neighbourhood_dispose(ckm_i_neighbourhood *nb)
{
    for (int32_t k = 0; k < nb->n_recent; k++) {
        ckm_i_snapshot_dispose(&nb->recent[k]);
    }
}

// What the best schedule and the last rounds compute again; the state is then the best.
static ckm_status collect(const ckm_i_neighbourhood *nb, const ckm_i_pool *pool, ckm_i_search *s,
                          ckm_i_neighbourhood_set *set, ckm_error *err)
{
    ckm_status status = CKM_OK;
    for (int32_t k = 0; k < nb->n_recent; k++) {
        CKM_I_TRY(ckm_i_snapshot_load(&nb->recent[k], s, err));
        CKM_I_TRY(ckm_i_neighbourhood_set_add(set, s, err));
    }
    CKM_I_TRY(ckm_i_snapshot_load(&pool->at[0], s, err));
    CKM_I_TRY(ckm_i_neighbourhood_set_add(set, s, err));
cleanup:
    return status;
}

static ckm_status solve(ckm_i_solver *solver, const ckm_i_search *s, ckm_i_ilp *ilp, double seconds,
                        ckm_i_milp_result *result, ckm_error *err)
{
    double again = (double)(s->total_cost - s->df->total_cost);
    ckm_i_milp_options limits = {
        .seconds = seconds,
        .gap = program_gap * again / ilp->cost_scale,
        .cutoff = (again - 0.5 * (double)ilp->cost_gcd) / ilp->cost_scale,
        .threads = 1,
        .pump_passes = pump_passes,
        .solution_only = true,
        .enough = INFINITY,
        .stop = attend_and_ask,
        .user = solver,
    };
    return ckm_i_milp_solve(&ilp->milp, &limits, result, err);
}

// Takes a solution over where it is what it claims to be: the state evaluates it in integers.
static ckm_status take(const ckm_i_pool *pool, const ckm_i_ilp *ilp, const double *x, ckm_i_search *s, bool *improved,
                       ckm_error *err)
{
    CKM_I_CHECK(ckm_i_neighbourhood_take(ilp, x, s, err));
    *improved = s->excess <= 0.5 && s->total_cost < pool->at[0].cost;
    return *improved ? CKM_OK : ckm_i_snapshot_load(&pool->at[0], s, err);
}

const ckm_i_component ckm_i_component_neighbourhood = {
    .name = "neighbourhood",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "the best that recomputes only what recent states of search do, by an integer program",
};

ckm_status ckm_i_neighbourhood_improve(ckm_i_neighbourhood *nb, ckm_i_solver *solver, const ckm_i_pool *pool,
                                       ckm_i_search *s, double deadline_seconds, bool *improved, ckm_error *err)
{
    ckm_i_neighbourhood_set set = {0};
    ckm_i_ilp *ilp = NULL;
    ckm_i_milp_result result = {.status = CKM_I_MILP_STOPPED};
    ckm_status status = CKM_OK;
    double begin = ckm_i_clock_seconds();
    *improved = false;
    if (nb->share <= 0.0) {
        nb->share = first_share;
        nb->start_seconds = nb->start_seconds > 0.0 ? nb->start_seconds : begin;
    }
    double passed = begin - nb->start_seconds;
    double seconds = fmin(fmax(solve_share * passed, least_seconds), most_seconds);
    if (s->df->n_ops > max_ops || nb->n_recent < least_recent || pool->at[0].excess > 0.5 ||
        deadline_seconds - begin < 0.3 * least_seconds || passed < least_seconds ||
        nb->spent_seconds > nb->share * passed || pool->at[0].cost <= s->df->total_cost ||
        ckm_i_solver_should_stop(solver)) {
        return CKM_OK;
    }
    CKM_I_TRY(ckm_i_neighbourhood_set_create(s->df->n_ops, &set, err));
    CKM_I_TRY(collect(nb, pool, s, &set, err));
    bool small = set.n <= max_pairs;
    if (small) {
        CKM_I_TRY(ckm_i_neighbourhood_build(s, &set, &ilp, err));
        seconds = fmin(seconds, deadline_seconds - ckm_i_clock_seconds());
    }
    if (small && seconds > 0.0) {
        CKM_I_TRY(solve(solver, s, ilp, seconds, &result, err));
        if (result.x != NULL) {
            CKM_I_TRY(take(pool, ilp, result.x, s, improved, err));
        }
        ckm_i_solver_log(solver, CKM_LOG_DEBUG, "neighbourhood of %d: %lld pairs, %d columns, %s, %s", nb->n_recent,
                         (long long)set.n, ilp->milp.n_cols, result.detail, *improved ? "better" : "no better");
    }
    nb->share = fmin(fmax(nb->share * (*improved ? success : failure), least_share), most_share);
    nb->spent_seconds += ckm_i_clock_seconds() - begin;
cleanup:
    ckm_i_milp_result_dispose(&result);
    ckm_i_ilp_free(ilp);
    ckm_i_neighbourhood_set_dispose(&set);
    return status;
}
