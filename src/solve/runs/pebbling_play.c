// SPDX-License-Identifier: Apache-2.0
// The reverse pebble game as a source of schedules: for the budget, and of little memory.
#include "solve/runs/pebbling_play.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "solve/core/component_registry.h"
#include "solve/floor/pebbling_schedule.h"
#include "solve/runs/leave_out.h"

// Work of the game where a schedule is looked for at the end of a run.
static const int64_t game_work = 8000000;

// Work for writing a schedule of it down, a few million computations.
static const int64_t writing_work = 200000000;

// Of the time left, for each manner of playing, the one that ends most often first; at least this many seconds, where time is up.
static const double share_of_time = 0.4, share_of_first = 0.8, late_seconds = 0.3;

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

ckm_status ckm_i_take_least(ckm_i_solver *solver, const ckm_schedule *schedule, const char *source, bool takes_any,
                            ckm_error *err)
{
    ckm_schedule *copy = NULL;
    CKM_I_CHECK(ckm_i_solver_note_least(solver, schedule, err));
    if (!takes_any) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_schedule_copy(schedule, &copy, err));
    return ckm_i_solver_offer_schedule(solver, &copy, source, NULL, err);
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
        ckm_i_slice slice = {solver, fmin(now + fmax(late_seconds, (solver->deadline_seconds - now) * share),
                                          ckm_i_solver_late_until(solver, late_seconds))};
        CKM_I_TRY(ckm_i_pebbling_schedule(game, (ckm_i_play_manner)manner, solver->budget_bytes, writing_work,
                                          ckm_i_slice_is_over, &slice, &schedule, err));
        if (schedule != NULL) {
            *found = true;
            CKM_I_TRY(ckm_i_take_least(solver, schedule, "pebbling", takes_any, err));
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

ckm_status ckm_i_play_pebbling(ckm_i_solver *solver, bool takes_any, double smallest_until, double more_until,
                               ckm_error *err)
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
        ckm_i_slice slice = {solver, smallest_until};
        CKM_I_TRY(ckm_i_pebbling_least(&game, known.enough_bytes, solver->least_peak_bytes, writing_work,
                                       ckm_i_slice_is_over, &slice, &schedule, err));
    }
    if (schedule != NULL) {
        CKM_I_TRY(ckm_i_take_least(solver, schedule, "pebbling", takes_any, err));
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_i_pebbling_dispose(&game);
    return status;
}

const ckm_i_component ckm_i_component_pebbling = {
    .name = "pebbling",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "the reverse pebble game's schedule, near the memory floor",
};

static ckm_status play_all(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_play_pebbling(solver, true, INFINITY, -INFINITY, err);
}

ckm_status ckm_i_offer_pebbling(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_component_run(solver, &ckm_i_component_pebbling, play_all, err);
}
