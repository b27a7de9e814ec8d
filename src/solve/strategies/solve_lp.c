// SPDX-License-Identifier: Apache-2.0
// lp-bound, lp-round and lp-random: the linear relaxation of the paper's program, as a lower bound and as a
// guide for S (paper, section 5: two-phase rounding).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "solve/ilp/ilp_model.h"
#include "solve/core/solver.h"

static const int64_t max_entries = 40000000;

// Solves the relaxation for a budget. *ilp and *result belong to the caller, who releases both on any status.
static ckm_status solve_relaxation(ckm_i_solver *solver, int64_t budget_bytes, ckm_formulation formulation,
                                   ckm_i_ilp **ilp, ckm_i_milp_result *result, ckm_error *err)
{
    ckm_i_milp_options limits = {
        .relax = true,
        .seconds = fmax(solver->deadline_seconds - ckm_i_clock_seconds(), 0.01),
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
    CKM_I_CHECK(ckm_i_ilp_build(solver->df, budget_bytes, formulation, max_entries, ilp, err));
    CKM_I_CHECK(ckm_i_milp_solve(&(*ilp)->milp, &limits, result, err));
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
    CKM_I_TRY(solve_relaxation(solver, solver->budget_bytes, solver->options->formulation, &ilp, &result, err));
    hand_in_bound(solver, ilp, &result);
cleanup:
    ckm_i_milp_result_dispose(&result);
    ckm_i_ilp_free(ilp);
    return status;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x < y) - (x > y);
}

// Rounds S at every distinct value it takes, from large to small: all that thresholding can give. Beyond
// `most` distinct values, evenly spaced ones.
static ckm_status round_at_thresholds(ckm_i_solver *solver, const ckm_i_ilp *ilp, const double *x, ckm_i_stages *stages,
                                      ckm_error *err)
{
    enum { most = 200 };
    ckm_status status = CKM_OK;
    int32_t n = 0;
    double *values = ckm_i_malloc((size_t)ilp->milp.n_cols, sizeof *values);
    if (values == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t j = 0; j < ilp->milp.n_cols; j++) {
        bool is_s = ilp->milp.integer[j] && ilp->milp.obj[j] == 0.0;
        if (is_s && x[j] > 1e-6) {
            values[n++] = floor(x[j] * 1e5) * 1e-5;  // just below, so that equal values fall on one side
        }
    }
    qsort(values, (size_t)n, sizeof *values, compare_double);
    int32_t distinct = 0;
    for (int32_t i = 0; i < n; i++) {
        if (distinct == 0 || values[i] < values[distinct - 1] - 1e-5) {
            values[distinct++] = values[i];
        }
    }
    int32_t step = distinct / most + 1;
    for (int32_t i = 0; i < distinct && !ckm_i_solver_should_stop(solver); i += step) {
        ckm_i_ilp_take(ilp, x, values[i], stages);
        CKM_I_TRY(ckm_i_solver_offer(solver, stages, "lp-round", NULL, NULL, err));
    }
cleanup:
    free(values);
    return status;
}

// Sets each bit of S with the probability the relaxation gives it.
static ckm_status round_at_random(ckm_i_solver *solver, const ckm_i_ilp *ilp, const double *x, ckm_i_stages *stages,
                                  ckm_error *err)
{
    int64_t samples = solver->options->iteration_limit > 0 ? solver->options->iteration_limit : 1000;
    ckm_i_rng rng = {solver->options->seed};
    ckm_status status = CKM_OK;
    double *sample = ckm_i_malloc((size_t)ilp->milp.n_cols, sizeof *sample);
    if (sample == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < samples && !ckm_i_solver_should_stop(solver); i++) {
        for (int32_t j = 0; j < ilp->milp.n_cols; j++) {
            sample[j] = ckm_i_rng_unit(&rng) < x[j] ? 1.0 : 0.0;
        }
        ckm_i_ilp_take(ilp, sample, 0.5, stages);
        CKM_I_TRY(ckm_i_solver_offer(solver, stages, "lp-random", NULL, NULL, err));
    }
cleanup:
    free(sample);
    return status;
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
    CKM_I_TRY(solve_relaxation(solver, budget_bytes, CKM_FORMULATION_FRONTIER, &ilp, &result, err));
    if (is_true_budget) {
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

// The relaxation underestimates memory, so rounding at the full budget rarely fits: the paper solves for a
// budget smaller by an allowance. Here several are tried, the true budget first, which also gives the bound.
static ckm_status run_rounding(ckm_i_solver *solver, rounding *round, ckm_error *err)
{
    static const double allowances[] = {0.0, 0.05, 0.1, 0.2, 0.3};
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    for (size_t a = 0; a < sizeof allowances / sizeof allowances[0]; a++) {
        if (ckm_i_solver_should_stop(solver)) {
            break;
        }
        int64_t room = solver->budget_bytes - solver->df->floor_bytes;
        int64_t budget = solver->budget_bytes - (int64_t)((double)room * allowances[a]);
        CKM_I_TRY(round_at(solver, budget, a == 0, round, stages, err));
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
};

const ckm_i_strategy ckm_i_strategy_lp_random = {
    .name = "lp-random",
    .summary = "randomised two-phase rounding: sample S from the relaxation",
    .run = run_random,
};
