// SPDX-License-Identifier: Apache-2.0
#include "solve/least_peak.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/core/component_registry.h"
#include "solve/leave_out.h"
#include "solve/presolve/presolve.h"
#include "solve/quick.h"
#include "solve/runs/runs_search.h"
#include "solve/search/local_search.h"
#include "solve/floor/pebbling_schedule.h"

// Work of the game where a schedule is looked for at the end of a run.
static const int64_t game_work = 8000000;

// Work for writing a schedule of it down, a few million computations.
static const int64_t writing_work = 200000000;

// Of the time left, for each manner of playing, the one that ends most often first; at least so many seconds, where time is up.
static const double share_of_time = 0.4, share_of_first = 0.8, late_seconds = 0.3;

// Of the time for the least peak: the unit of the strategies that take none, and where the graph is too large for search on
// sequences of runs; all that the game may have.
static const double quick_share = 0.03, quick_share_large = 0.1, game_share = 0.25;

// An operator's part in setting up a game and searches, which is not cut short: nothing is begun where there is less time.
static const double setup_seconds = 2e-5;

typedef struct limit {
    const ckm_solve_options *options;
    double until;
} limit;

static bool is_past(void *context)
{
    const limit *l = context;
    return ckm_i_clock_seconds() >= l->until || (l->options->stop != NULL && l->options->stop(l->options->user));
}

ckm_status ckm_i_pebbling_least(ckm_i_pebbling *p, int64_t enough_bytes, int64_t below_bytes, int64_t work,
                                ckm_stop_fn stop, void *user, ckm_schedule **out, ckm_error *err)
{
    static const int64_t percent_above[] = {0, 1, 5, 20};
    *out = NULL;
    for (size_t i = 0; i < sizeof percent_above / sizeof percent_above[0] && *out == NULL; i++) {
        int64_t budget = enough_bytes + enough_bytes / 100 * percent_above[i];
        if (budget >= below_bytes || (stop != NULL && stop(user))) {
            break;
        }
        for (int manner = 0; manner < CKM_I_PLAY_MANNERS && *out == NULL; manner++) {
            CKM_I_CHECK(ckm_i_pebbling_schedule(p, (ckm_i_play_manner)manner, budget, work / CKM_I_PLAY_MANNERS, stop,
                                                user, out, err));
        }
    }
    return CKM_OK;
}

// Hands in a schedule. A strategy that answers for a class of schedules need not take it, as it may belong to none: then it is
// only known to fit.
static ckm_status take(ckm_i_solver *solver, const ckm_schedule *schedule, const char *source, bool takes_any,
                       ckm_error *err)
{
    CKM_I_CHECK(ckm_i_solver_note_least(solver, schedule, err));
    return takes_any ? ckm_i_solver_offer_schedule(solver, schedule, source, err) : CKM_OK;
}

// Work for telling what the game believes in.
static int64_t finding_work(double seconds)
{
    const double units_a_second = 1e7;
    return (int64_t)fmin(fmax(seconds, 0.0) * units_a_second, (double)game_work);
}

// Work for a budget that is less than what was found to be enough: as the time left allows.
static int64_t aiming_work(const ckm_i_solver *solver)
{
    const double units_a_second = 4e7, most = 2e8;
    double left = solver->deadline_seconds - ckm_i_clock_seconds();
    return (int64_t)fmin(fmax(left * units_a_second, (double)game_work), most);
}

// Schedules for the budget itself, in every manner; by more work where the game believes in a larger one only. A strategy
// that takes any has what is left of them after leaving out.
static ckm_status build_within(ckm_i_solver *solver, ckm_i_pebbling *game, int64_t enough_bytes, bool takes_any,
                               double more_until, bool *found, ckm_error *err)
{
    const ckm_solve_options *options = solver->options;
    ckm_status status = CKM_OK;
    ckm_schedule *schedule = NULL;
    bool fits = enough_bytes <= solver->budget_bytes;
    *found = false;
    // In turns, each with twice the work of the one before, as none of them looks at the clock.
    int64_t left = aiming_work(solver);
    for (int64_t work = game_work; !fits && left > 0; work *= 2) {
        CKM_I_TRY(ckm_i_memory_floor_aim(game, solver->budget_bytes, work < left ? work : left, &fits, err));
        left = ckm_i_clock_seconds() < solver->deadline_seconds ? left - work : 0;
    }
    for (int manner = 0; fits && manner < CKM_I_PLAY_MANNERS; manner++) {
        if (*found && (!takes_any || ckm_i_clock_seconds() >= fmin(solver->deadline_seconds, more_until))) {
            break;
        }
        double now = ckm_i_clock_seconds();
        double share = manner == 0 ? share_of_first : share_of_time;
        limit l = {options, fmin(now + fmax(late_seconds, (solver->deadline_seconds - now) * share),
                                 ckm_i_solver_late_until(solver, late_seconds))};
        CKM_I_TRY(ckm_i_pebbling_schedule(game, (ckm_i_play_manner)manner, solver->budget_bytes, writing_work, is_past,
                                          &l, &schedule, err));
        if (schedule != NULL) {
            *found = true;
            CKM_I_TRY(take(solver, schedule, "pebbling", takes_any, err));
            if (takes_any) {
                CKM_I_TRY(ckm_i_leave_out_of(solver, schedule, "pebbling", err));
            }
        }
        ckm_schedule_free(schedule);
        schedule = NULL;
    }
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

// The game's schedule for the budget itself, where that is not refuted; else its smallest, where there is a time until when that is
// looked for.
static ckm_status play(ckm_i_solver *solver, bool takes_any, double smallest_until, double more_until, ckm_error *err)
{
    bool smallest = isfinite(smallest_until);
    bool open = !solver->infeasible;
    double seconds = smallest ? smallest_until - ckm_i_clock_seconds() : INFINITY;
    ckm_i_memory_floor_options limits = {finding_work(seconds), INT64_MAX};
    ckm_i_memory_floor_result known;
    ckm_schedule *schedule = NULL;
    ckm_i_pebbling game;
    bool found = false;
    ckm_status status;
    CKM_I_CHECK(ckm_i_pebbling_init_again(&game, solver->df, err));
    CKM_I_TRY(ckm_i_memory_floor_find(&game, &limits, &known, err));
    if (open && (!smallest || known.enough_bytes <= solver->budget_bytes)) {
        CKM_I_TRY(build_within(solver, &game, known.enough_bytes, takes_any, more_until, &found, err));
    }
    if (!found && smallest) {
        limit l = {solver->options, smallest_until};
        CKM_I_TRY(ckm_i_pebbling_least(&game, known.enough_bytes, solver->least_peak_bytes, writing_work, is_past, &l,
                                       &schedule, err));
    }
    if (schedule != NULL) {
        CKM_I_TRY(take(solver, schedule, "pebbling", takes_any, err));
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_i_pebbling_dispose(&game);
    return status;
}

const ckm_i_component ckm_i_component_pebbling = {"pebbling", CKM_COMPONENT_CONSTRUCTS,
                                                  "the reverse pebble game's schedule, near the memory floor"};
const ckm_i_component ckm_i_component_least_peak = {"least-peak", CKM_COMPONENT_CONSTRUCTS,
                                                    "where nothing fits: the schedule of least peak, for advice"};

ckm_status ckm_i_offer_pebbling(ckm_i_solver *solver, double more_seconds, ckm_error *err)
{
    if (!ckm_i_component_begin(solver, &ckm_i_component_pebbling)) {
        return CKM_OK;
    }
    ckm_status status = play(solver, true, INFINITY, ckm_i_clock_seconds() + more_seconds, err);
    ckm_i_component_end(solver);
    return status;
}

// A search for a schedule within so many bytes, whatever it costs, which goes on from the one of least peak.
static ckm_status begin(ckm_i_solver *attempt, const ckm_i_solver *solver, ckm_solve_options *options,
                        int64_t target_bytes, double until, ckm_error *err)
{
    *options = *solver->options;
    options->cost_limit = -1;
    options->progress = NULL;
    options->log = NULL;
    ckm_i_solver_init(attempt, solver->df, options, target_bytes);
    attempt->accounts = solver->accounts;
    attempt->deadline_seconds = until;
    return solver->least_schedule != NULL ? ckm_i_solver_note_least(attempt, solver->least_schedule, err) : CKM_OK;
}

// Takes over what it has found.
static ckm_status end(ckm_i_solver *attempt, ckm_i_solver *solver, bool takes_any, ckm_error *err)
{
    const ckm_schedule *found = attempt->best_schedule != NULL ? attempt->best_schedule : attempt->least_schedule;
    return found != NULL
               ? take(solver, found, attempt->best_schedule != NULL ? attempt->best_source : "search", takes_any, err)
               : CKM_OK;
}

static ckm_status try_quick(ckm_i_solver *solver, int64_t low_bytes, double seconds, double until, bool takes_any,
                            ckm_error *err)
{
    ckm_solve_options options;
    ckm_i_solver attempt;
    ckm_status status = CKM_OK;
    CKM_I_TRY(begin(&attempt, solver, &options, low_bytes, until, err));
    CKM_I_TRY(ckm_i_quick_run(&attempt, seconds, err));
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
        if (is_past(&(limit){solver->options, until})) {
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
    CKM_I_TRY(ckm_schedule_baseline(solver->df, &plain, err));
    CKM_I_TRY(ckm_i_solver_note_least(solver, plain, err));
    if (!solver->began_quickly || low > solver->budget_bytes) {
        CKM_I_TRY(
            try_quick(solver, low, (until - now) * (runs ? quick_share : quick_share_large), until, takes_any, err));
    }
    tell(solver, "the strategies that take no time", now);
    CKM_I_TRY(play(solver, takes_any, now + (until - now) * game_share, INFINITY, err));
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
