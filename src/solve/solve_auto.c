// SPDX-License-Identifier: Apache-2.0
// auto: what most people want. Runs without rematerialization when that fits; else good schedules first, a
// bound that covers every order-keeping schedule, and the integer program as far as size and time allow.
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/checkpoints.h"
#include "solve/local_search.h"
#include "solve/solve_ilp.h"
#include "solve/solver.h"
#include "solve/stage_bound.h"

// CBC makes progress on programs up to about this many operators.
static const int32_t ilp_max_ops = 400;

static ckm_status search(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    ckm_i_local_search_options options = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    options.seconds = seconds;
    options.moves = solver->options->iteration_limit;
    if (ckm_i_solver_should_stop(solver)) {
        return CKM_OK;
    }
    return ckm_i_local_search(solver, &options, err);
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_schedule *baseline = NULL;
    ckm_status status = CKM_OK;
    double n = solver->df->n_ops;
    ckm_i_solver_bound(solver, (double)solver->df->total_cost, CKM_BOUND_ANY, "every operator once");
    CKM_I_TRY(ckm_schedule_baseline(solver->df, &baseline, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, baseline, "no-rematerialization", err));
    if (ckm_i_solver_should_stop(solver)) {
        goto cleanup;
    }
    double left = solver->deadline_seconds - ckm_i_clock_seconds();
    double total = isfinite(left) ? left : 60.0;
    CKM_I_TRY(search(solver, fmin(total * 0.2, 0.1 + n * 0.01), err));
    if (!ckm_i_solver_should_stop(solver)) {
        CKM_I_TRY(ckm_i_stage_bound_run(solver, total * 0.4, err));
    }
    CKM_I_TRY(search(solver, fmin(total * 0.15, n * 0.02), err));
    if (!ckm_i_solver_should_stop(solver) && n <= ilp_max_ops) {
        CKM_I_TRY(ckm_i_ilp_run(solver, err));
    }
    left = solver->deadline_seconds - ckm_i_clock_seconds();
    if (!ckm_i_solver_should_stop(solver) && n > ilp_max_ops) {
        CKM_I_TRY(search(solver, isfinite(left) ? left : 60.0, err));
    }
cleanup:
    ckm_schedule_free(baseline);
    return status;
}

const ckm_i_strategy ckm_i_strategy_auto = {
    .name = "auto",
    .summary = "picks by itself: near-optimal quickly, then a proof as far as time allows",
    .run = run,
};
