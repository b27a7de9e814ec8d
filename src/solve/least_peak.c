// SPDX-License-Identifier: Apache-2.0
#include "solve/solve_above.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/core/component_registry.h"
#include "solve/presolve/presolve.h"
#include "solve/runs/pebbling_play.h"
#include "solve/runs/runs.h"
#include "solve/search/local_search.h"

// Time for the least peak: at least this many seconds, of which this many may be after the time limit; up to this share of the limit,
// and at most this many.
static const double least_seconds = 1.0, late_seconds = 0.8, share_of_limit = 0.5, most_seconds = 6.0;

// Where a search may find nothing, some of the time is kept for it, up to a share and a number of seconds, unless something is found
// before it begins.
static const double kept_share = 0.3, most_kept_seconds = 5.0;

// Of that time: all that the strategies that take none may have, and where the graph is too large for search on
// sequences of runs; the game.
static const double quick_share = 0.3, quick_share_large = 0.8, game_share = 0.25;

// An operator's part in setting up a game and searches, which is not cut short: nothing is begun where there is less time.
static const double setup_seconds = 2e-5;

const ckm_i_component ckm_i_component_least_peak = {
    .name = "least-peak",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "where nothing fits: the schedule of least peak, for advice",
};

// A search for a schedule within this many bytes, whatever it costs, which goes on from the one of least peak.
static ckm_status begin(ckm_i_solver *attempt, const ckm_i_solver *solver, ckm_solve_options *options,
                        int64_t target_bytes, double until, ckm_error *err)
{
    *options = *solver->options;
    options->cost_limit = -1;
    options->progress = NULL;
    options->log = NULL;
    ckm_i_solver_init(attempt, solver->df, options, target_bytes);
    attempt->accounts = solver->accounts;
    ckm_i_solver_set_slice(attempt, solver, until);
    return solver->least_schedule != NULL ? ckm_i_solver_note_least(attempt, solver->least_schedule, err) : CKM_OK;
}

// Takes over what it has found.
static ckm_status end(ckm_i_solver *attempt, ckm_i_solver *solver, bool takes_any, ckm_error *err)
{
    const ckm_schedule *found = attempt->best_schedule != NULL ? attempt->best_schedule : attempt->least_schedule;
    return found != NULL
               ? ckm_i_take_least(solver, found, attempt->best_schedule != NULL ? attempt->best_source : "search",
                                  takes_any, err)
               : CKM_OK;
}

static ckm_status try_quick(ckm_i_solver *solver, int64_t low_bytes, double seconds, double until, bool takes_any,
                            ckm_error *err)
{
    ckm_solve_options options;
    ckm_i_solver attempt;
    ckm_status status = CKM_OK;
    CKM_I_TRY(begin(&attempt, solver, &options, low_bytes, until, err));
    CKM_I_TRY(ckm_i_quick_run(&attempt, seconds, 0.0, err));
    CKM_I_TRY(end(&attempt, solver, takes_any, err));
cleanup:
    ckm_i_solver_dispose(&attempt);
    return status;
}

static bool least_keeps_order(const ckm_i_solver *solver)
{
    return ckm_i_schedule_class(solver->df, solver->least_schedule) >= CKM_BOUND_ORDER;
}

// Sequences of runs, from the one of least peak downwards to the budget.
static ckm_status come_down(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_runs_options search = {.keeps_order = solver->least_schedule == NULL || least_keeps_order(solver),
                                 .seconds = solver->deadline_seconds - ckm_i_clock_seconds(),
                                 .least_bytes = solver->budget_bytes};
    return ckm_i_runs_search(solver, &search, err);
}

static ckm_status try_runs(ckm_i_solver *solver, int64_t low_bytes, double until, bool takes_any, ckm_error *err)
{
    static const ckm_i_strategy coming_down = {.name = "runs", .run = come_down, .wants_reduced = true};
    ckm_solve_options options;
    ckm_i_solver attempt;
    ckm_status status = CKM_OK;
    CKM_I_TRY(begin(&attempt, solver, &options, low_bytes, until, err));
    // Presolve is for schedules that keep the order.
    CKM_I_TRY(least_keeps_order(&attempt) ? ckm_i_presolve_run(&attempt, &coming_down, err) : come_down(&attempt, err));
    CKM_I_TRY(end(&attempt, solver, takes_any, err));
cleanup:
    ckm_i_solver_dispose(&attempt);
    return status;
}

// Local search for any schedule within `target` bytes.
static ckm_status try_target(ckm_i_solver *solver, int64_t target_bytes, double until, bool takes_any, ckm_error *err)
{
    ckm_solve_options options;
    ckm_i_solver attempt;
    ckm_status status = CKM_OK;
    CKM_I_TRY(begin(&attempt, solver, &options, target_bytes, until, err));
    options.cost_limit = INT64_MAX;  // the first schedule that fits will do
    ckm_i_local_search_options search = {.seconds = until - ckm_i_clock_seconds(), .moves = options.iteration_limit};
    CKM_I_TRY(ckm_i_local_search(&attempt, &search, err));
    CKM_I_TRY(end(&attempt, solver, takes_any, err));
cleanup:
    ckm_i_solver_dispose(&attempt);
    return status;
}

// Local search at the floor first, then halfway between the last failure and the least known.
static ckm_status bisect(ckm_i_solver *solver, int64_t low_bytes, double until, bool takes_any, ckm_error *err)
{
    enum { steps = 6 };
    int64_t low = low_bytes;
    for (int step = 0; step < steps && low < solver->least_peak_bytes; step++) {
        double now = ckm_i_clock_seconds();
        int64_t target = step == 0 ? low : low + (solver->least_peak_bytes - low) / 2;
        if (now >= until || ckm_i_solver_is_told_to_stop(solver)) {
            break;
        }
        CKM_I_CHECK(
            try_target(solver, target, now + (until - now) * (step == 0 ? 0.3 : 1.0 / (steps - step)), takes_any, err));
        if (solver->least_peak_bytes > target) {
            low = target;  // not found, which proves nothing: the search simply goes on above
        }
    }
    return CKM_OK;
}

static void tell(const ckm_i_solver *solver, const char *after, double since)
{
    ckm_i_solver_log(solver, CKM_LOG_INFO, "least peak known after %s: %lld bytes, %.2f s", after,
                     (long long)solver->least_peak_bytes, ckm_i_clock_seconds() - since);
}

double ckm_i_least_peak_until(const ckm_i_solver *solver)
{
    double limit = solver->options->time_limit_seconds;
    double now = ckm_i_clock_seconds();
    double most = limit > 0.0 ? fmin(fmax(limit * share_of_limit, least_seconds), most_seconds) : most_seconds;
    return limit > 0.0 ? fmin(now + most, solver->start_seconds + limit + late_seconds) : now + most;
}

double ckm_i_least_peak_kept(const ckm_i_solver *solver)
{
    double limit = solver->options->time_limit_seconds;
    return limit > 0.0 && solver->best_schedule == NULL ? fmin(limit * kept_share, most_kept_seconds) : 0.0;
}

ckm_status ckm_i_least_peak(ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes, double until,
                            ckm_error *err)
{
    bool takes_any = strategy->takes_any_schedule;
    double now = ckm_i_clock_seconds();
    int64_t low = floor_bytes > solver->budget_bytes ? floor_bytes : solver->budget_bytes;
    bool runs = solver->options->iteration_limit <= 0 && ckm_i_runs_are_possible(solver->df);
    ckm_schedule *plain = NULL;
    ckm_status status = CKM_OK;
    if (until - now < setup_seconds * solver->df->n_ops ||
        !ckm_i_component_begin(solver, &ckm_i_component_least_peak)) {
        return CKM_OK;
    }
    solver->looked_for_least = true;
    if (!solver->knows_plain) {
        CKM_I_TRY(ckm_schedule_baseline(solver->df, &plain, err));
        CKM_I_TRY(ckm_i_solver_note_least(solver, plain, err));
    }
    if (!solver->began_quickly || low > solver->budget_bytes) {
        CKM_I_TRY(
            try_quick(solver, low, (until - now) * (runs ? quick_share : quick_share_large), until, takes_any, err));
    }
    tell(solver, "the strategies that take no time", now);
    CKM_I_TRY(ckm_i_play_pebbling(solver, takes_any, now + (until - now) * game_share, INFINITY, err));
    tell(solver, "the game", now);
    if (solver->best_schedule == NULL && solver->least_peak_bytes > low && ckm_i_clock_seconds() < until) {
        CKM_I_TRY((runs ? try_runs : bisect)(solver, low, until, takes_any, err));
        tell(solver, "search", now);
    }
cleanup:
    ckm_schedule_free(plain);
    ckm_i_component_end(solver);
    return status;
}
