// SPDX-License-Identifier: Apache-2.0
// The paper's integer program and its linear relaxation.
// ilp: the paper's mixed-integer program, solutions by CBC from the best schedule that local search finds, proofs by our own
// branch and bound.
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/core/solver.h"
#include "solve/ilp/ilp.h"
#include "solve/search/local_search.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_local_search_briefly(solver, err));
    return ckm_i_solver_should_stop(solver) ? CKM_OK : ckm_i_ilp_run(solver, INFINITY, err);
}

const ckm_i_strategy ckm_i_strategy_ilp = {
    .name = "ilp",
    .summary = "the paper's integer program, warm-started; proves optimality on small graphs",
    .run = run,
    .has_formulations = true,
    .is_thorough = true,
    .begins_plain = true,
};

// lp-bound, lp-round and lp-random: the linear relaxation of the paper's program, as a lower bound and as a
// guide for S (paper, section 5, algorithm 2: two-phase rounding).

static const int64_t max_entries = 40000000;

// Solves the relaxation for a budget. *ilp and *result belong to the caller, who releases both on any status. *ilp is NULL where there
// is no time to set it up.
static ckm_status solve_relaxation(ckm_i_solver *solver, int64_t budget_bytes, ckm_formulation formulation,
                                   bool to_round, ckm_i_ilp **ilp, ckm_i_milp_result *result, ckm_error *err)
{
    ckm_i_milp_options limits = {
        .relax = true,
        .cutoff = INFINITY,
        .threads = 1,
        .stop = solver->options->stop,
        .user = solver->options->user,
    };
    if (ckm_i_ilp_is_too_large(solver->df, max_entries)) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "the linear relaxation of the paper's program is too large for %d "
                           "operators; strategy stage-bound has a smaller one",
                           solver->df->n_ops);
    }
    CKM_I_CHECK(
        ckm_i_ilp_build(solver->df, budget_bytes, formulation, max_entries, ckm_i_solver_stops, solver, ilp, err));
    if (*ilp == NULL) {
        ckm_i_solver_log(solver, CKM_LOG_INFO, "linear relaxation: no time to set it up");
        return CKM_OK;
    }
    limits.seconds = fmax(solver->deadline_seconds - ckm_i_clock_seconds(), 0.01);
    CKM_I_CHECK(to_round ? ckm_i_ilp_relax_to_round(*ilp, &limits, result, err)
                         : ckm_i_milp_solve(&(*ilp)->milp, &limits, result, err));
    if (result->missing) {
        ckm_i_solver_log(solver, CKM_LOG_WARN, "%s; continuing without it", result->detail);
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "linear relaxation: %s, %d rows, %d columns", result->detail,
                     (*ilp)->milp.n_rows, (*ilp)->milp.n_cols);
    return CKM_OK;
}

// Hands in the bound that the multipliers prove, whatever the engine claims.
static void hand_in_bound(ckm_i_solver *solver, const ckm_i_ilp *ilp, const ckm_i_milp_result *result)
{
    if (result->row_dual != NULL) {
        double bound = ckm_i_milp_safe_bound(&ilp->milp, result->row_dual);
        if (bound > -INFINITY) {
            ckm_i_solver_bound(solver, ckm_i_ilp_cost_bound(ilp, bound), CKM_BOUND_FRONTIER, "lp-bound");
        }
    }
    // Clp's own word does not count, only what its ray proves.
    if (result->proven == INFINITY) {
        ckm_i_solver_infeasible(solver, CKM_BOUND_FRONTIER, "lp-bound");
    }
}

static ckm_status run_bound(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_ilp *ilp = NULL;
    ckm_i_milp_result result = {0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(solve_relaxation(solver, solver->budget_bytes, solver->options->formulation, false, &ilp, &result, err));
    if (ilp != NULL) {
        hand_in_bound(solver, ilp, &result);
    }
cleanup:
    ckm_i_milp_result_dispose(&result);
    ckm_i_ilp_free(ilp);
    return status;
}

// Rounds S deterministically, as the paper does above 0.5, and at every other threshold.
static ckm_status round_at_thresholds(ckm_i_solver *solver, const ckm_i_ilp *ilp, const double *x, ckm_i_stages *stages,
                                      ckm_error *err)
{
    int32_t n = 0;
    double *thresholds = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_ilp_thresholds(ilp, x, &thresholds, &n, err));
    for (int32_t i = 0; i < n && !ckm_i_solver_should_stop(solver); i++) {
        ckm_i_ilp_take(ilp, x, thresholds[i], stages);
        CKM_I_TRY(ckm_i_solver_offer(solver, stages, "lp-round", NULL, NULL, err));
    }
cleanup:
    free(thresholds);
    return status;
}

// Rounds S at random.
static ckm_status round_at_random(ckm_i_solver *solver, const ckm_i_ilp *ilp, const double *x, ckm_i_stages *stages,
                                  ckm_error *err)
{
    int64_t samples = solver->options->iteration_limit > 0 ? solver->options->iteration_limit : 1000;
    ckm_i_rng rng = {solver->options->seed};
    for (int64_t i = 0; i < samples && !ckm_i_solver_should_stop(solver); i++) {
        ckm_i_ilp_sample(ilp, x, &rng, stages);
        CKM_I_CHECK(ckm_i_solver_offer(solver, stages, "lp-random", NULL, NULL, err));
    }
    return CKM_OK;
}

typedef ckm_status rounding(ckm_i_solver *solver, const ckm_i_ilp *ilp, const double *x, ckm_i_stages *stages,
                            ckm_error *err);

// Solves the relaxation for a budget and rounds what it gives. The one at the true budget also gives the bound.
static ckm_status round_at(ckm_i_solver *solver, int64_t budget_bytes, bool is_true_budget, rounding *round,
                           ckm_i_stages *stages, ckm_error *err)
{
    ckm_i_ilp *ilp = NULL;
    ckm_i_milp_result result = {0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(solve_relaxation(solver, budget_bytes, CKM_FORMULATION_FRONTIER, true, &ilp, &result, err));
    if (is_true_budget && ilp != NULL) {
        hand_in_bound(solver, ilp, &result);
    }
    if (result.x != NULL) {
        CKM_I_TRY(round(solver, ilp, result.x, stages, err));
    }
cleanup:
    ckm_i_milp_result_dispose(&result);
    ckm_i_ilp_free(ilp);
    return status;
}

// The relaxation underestimates memory, so rounding at the full budget rarely fits: the paper solves it for a budget
// smaller by an allowance, a tenth. Its artifact takes that of what the fixed bytes leave. Here the full budget
// comes first, which also gives the bound, then the paper's, then others, as shares of what the budget leaves above the
// memory floor: near the floor the paper's is more than that. Where everything fits, there is nothing to round.
static ckm_status run_rounding(ckm_i_solver *solver, rounding *round, ckm_error *err)
{
    static const double allowance = 0.1;
    static const double shares[] = {0.1, 0.3, 0.5, 0.7};
    enum { n_shares = sizeof shares / sizeof shares[0] };
    int64_t budget = solver->budget_bytes;
    int64_t room = budget - solver->df->floor_bytes;
    int64_t less[2 + n_shares] = {0, (int64_t)(allowance * (double)(budget - solver->df->fixed_bytes))};
    for (int i = 0; i < n_shares; i++) {
        less[2 + i] = (int64_t)(shares[i] * (double)room);
    }
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    for (int i = 0; i < 2 + n_shares && !ckm_i_solver_should_stop(solver); i++) {
        if (i == 0 || (less[i] > 0 && less[i] < room)) {
            CKM_I_TRY(round_at(solver, budget - less[i], i == 0, round, stages, err));
        }
    }
cleanup:
    ckm_i_stages_free(stages);
    return status;
}

static ckm_status run_round(ckm_i_solver *solver, ckm_error *err)
{
    return run_rounding(solver, round_at_thresholds, err);
}

static ckm_status run_random(ckm_i_solver *solver, ckm_error *err)
{
    return run_rounding(solver, round_at_random, err);
}

const ckm_i_strategy ckm_i_strategy_lp_bound = {
    .name = "lp-bound",
    .summary = "lower bound only: the linear relaxation of the paper's program",
    .run = run_bound,
    .only_bounds = true,
    .has_formulations = true,
};

const ckm_i_strategy ckm_i_strategy_lp_round = {
    .name = "lp-round",
    .summary = "the paper's two-phase rounding: threshold the relaxation's S, then the least R",
    .run = run_round,
    .owns_plain = true,
};

const ckm_i_strategy ckm_i_strategy_lp_random = {
    .name = "lp-random",
    .summary = "randomised two-phase rounding: sample S from the relaxation",
    .run = run_random,
    .owns_plain = true,
};
