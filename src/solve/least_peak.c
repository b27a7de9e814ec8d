// SPDX-License-Identifier: Apache-2.0
#include "solve/least_peak.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/leave_out.h"
#include "solve/search/local_search.h"
#include "solve/floor/pebbling_schedule.h"

// Work of the game where a schedule is looked for at the end of a run.
static const int64_t game_work = 8000000;

// Work for writing a schedule of it down, a few million computations.
static const int64_t writing_work = 200000000;

// Of the time left, for each manner of playing, the one that ends most often first; at least so many seconds, where time is up.
static const double share_of_time = 0.4, share_of_first = 0.8, late_seconds = 0.3;

// Above this many operators nothing more is begun when time is up: setting up a game and searches takes a second each.
static const int32_t large_ops = 50000;

// Local search for any schedule within `target` bytes.
static ckm_status try_target(ckm_i_solver *solver, int64_t target_bytes, double seconds, ckm_error *err)
{
    ckm_solve_options options = *solver->options;
    options.cost_limit = INT64_MAX;  // the first schedule that fits will do
    options.progress = NULL;
    options.log = NULL;
    ckm_i_solver attempt;
    ckm_i_solver_init(&attempt, solver->df, &options, target_bytes);
    attempt.deadline_seconds = attempt.start_seconds + seconds;
    ckm_i_local_search_options search = {.seconds = seconds, .moves = options.iteration_limit};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_local_search(&attempt, &search, err));
    if (attempt.least_peak_bytes >= 0 && attempt.least_peak_bytes < solver->least_peak_bytes) {
        solver->least_peak_bytes = attempt.least_peak_bytes;
    }
cleanup:
    ckm_i_solver_dispose(&attempt);
    return status;
}

ckm_status ckm_i_pebbling_least(ckm_i_pebbling *p, int64_t enough_bytes, int64_t below_bytes, int64_t work,
                                const ckm_solve_options *options, ckm_schedule **out, ckm_error *err)
{
    static const int64_t percent_above[] = {0, 1, 5, 20};
    *out = NULL;
    for (size_t i = 0; i < sizeof percent_above / sizeof percent_above[0] && *out == NULL; i++) {
        int64_t budget = enough_bytes + enough_bytes / 100 * percent_above[i];
        if (budget >= below_bytes || (options->stop != NULL && options->stop(options->user))) {
            break;
        }
        for (int manner = 0; manner < CKM_I_PLAY_MANNERS && *out == NULL; manner++) {
            CKM_I_CHECK(ckm_i_pebbling_schedule(p, (ckm_i_play_manner)manner, budget, work / CKM_I_PLAY_MANNERS,
                                                options->stop, options->user, out, err));
        }
    }
    return CKM_OK;
}

// Hands in a schedule of the game. A strategy that answers for a class of schedules need not take it, as it may belong to
// none: then only the least peak is lowered.
static ckm_status take(ckm_i_solver *solver, const ckm_schedule *schedule, bool takes_any, ckm_error *err)
{
    ckm_verdict verdict;
    CKM_I_CHECK(ckm_schedule_verify(solver->df, schedule, -1, &verdict, err));
    if (!verdict.ok) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "the verifier refuses a schedule of the pebble game: %s",
                           verdict.why);
    }
    if (takes_any) {
        CKM_I_CHECK(ckm_i_solver_offer_schedule(solver, schedule, "pebbling", err));
    } else if (verdict.peak_bytes < solver->least_peak_bytes) {
        solver->least_peak_bytes = verdict.peak_bytes;
    }
    ckm_i_solver_note(solver, verdict.cost, verdict.peak_bytes, ckm_i_schedule_class(solver->df, schedule));
    return CKM_OK;
}

// Work for a budget that is less than what was found to be enough: as the time left allows.
static int64_t aiming_work(const ckm_i_solver *solver)
{
    const double units_a_second = 4e7, most = 2e8;
    double left = solver->deadline_seconds - ckm_i_clock_seconds();
    return (int64_t)fmin(fmax(left * units_a_second, (double)game_work), most);
}

typedef struct limit {
    const ckm_solve_options *options;
    double until;
} limit;

static bool is_past(void *context)
{
    const limit *l = context;
    return ckm_i_clock_seconds() >= l->until || (l->options->stop != NULL && l->options->stop(l->options->user));
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
    if (!fits) {
        CKM_I_TRY(ckm_i_memory_floor_aim(game, solver->budget_bytes, aiming_work(solver), &fits, err));
    }
    for (int manner = 0; fits && manner < CKM_I_PLAY_MANNERS; manner++) {
        if (*found && (!takes_any || ckm_i_clock_seconds() >= fmin(solver->deadline_seconds, more_until))) {
            break;
        }
        double now = ckm_i_clock_seconds();
        limit l = {options, now + fmax(late_seconds, (solver->deadline_seconds - now) *
                                                         (manner == 0 ? share_of_first : share_of_time))};
        CKM_I_TRY(ckm_i_pebbling_schedule(game, (ckm_i_play_manner)manner, solver->budget_bytes, writing_work, is_past,
                                          &l, &schedule, err));
        if (schedule != NULL) {
            *found = true;
            CKM_I_TRY(take(solver, schedule, takes_any, err));
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

// The game's schedule for the budget itself, where that is not refuted; else its smallest where that is asked for.
static ckm_status play(ckm_i_solver *solver, bool takes_any, bool or_smallest, double more_until, ckm_error *err)
{
    ckm_i_memory_floor_options limits = {game_work, INT64_MAX};
    ckm_i_memory_floor_result known;
    ckm_schedule *schedule = NULL;
    ckm_i_pebbling game;
    bool found = false;
    ckm_status status;
    CKM_I_CHECK(ckm_i_pebbling_init_again(&game, solver->df, err));
    CKM_I_TRY(ckm_i_memory_floor_find(&game, &limits, &known, err));
    if (!solver->infeasible || solver->infeasible_claimed) {
        CKM_I_TRY(build_within(solver, &game, known.enough_bytes, takes_any, more_until, &found, err));
    }
    if (!found && or_smallest) {
        CKM_I_TRY(ckm_i_pebbling_least(&game, known.enough_bytes, solver->least_peak_bytes, writing_work,
                                       solver->options, &schedule, err));
    }
    if (schedule != NULL) {
        CKM_I_TRY(take(solver, schedule, takes_any, err));
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_i_pebbling_dispose(&game);
    return status;
}

ckm_status ckm_i_offer_pebbling(ckm_i_solver *solver, double more_seconds, ckm_error *err)
{
    return play(solver, true, false, ckm_i_clock_seconds() + more_seconds, err);
}

ckm_status ckm_i_least_peak(ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes, double seconds,
                            ckm_error *err)
{
    enum { steps = 6 };
    const ckm_solve_options *options = solver->options;
    int64_t low = floor_bytes;
    if (solver->df->n_ops > large_ops && ckm_i_clock_seconds() >= solver->deadline_seconds) {
        return CKM_OK;
    }
    CKM_I_CHECK(play(solver, strategy->takes_any_schedule, true, INFINITY, err));
    for (int step = 0; step < steps && low < solver->least_peak_bytes; step++) {
        if (options->stop != NULL && options->stop(options->user)) {
            break;
        }
        int64_t before = solver->least_peak_bytes;
        int64_t target = step == 0 ? low : low + (before - low) / 2;
        CKM_I_CHECK(try_target(solver, target, seconds * (step == 0 ? 0.5 : 0.5 / (steps - 1)), err));
        if (solver->least_peak_bytes > target) {
            low = target;  // not found, which proves nothing: the search simply goes on above
        }
    }
    return CKM_OK;
}
