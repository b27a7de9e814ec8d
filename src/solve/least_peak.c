// SPDX-License-Identifier: Apache-2.0
#include "solve/least_peak.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/search/local_search.h"
#include "solve/floor/pebbling_schedule.h"

// Work of the game where a schedule is looked for at the end of a run.
static const int64_t game_work = 8000000;

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
        CKM_I_CHECK(ckm_i_pebbling_schedule(p, budget, work, options->stop, options->user, out, err));
    }
    return CKM_OK;
}

// The game's schedule for the budget itself, where that is not refuted; else its smallest. A strategy that
// answers for a class of schedules need not take it, as it may belong to none: then only the least peak is lowered.
static ckm_status play(ckm_i_solver *solver, bool takes_any, ckm_error *err)
{
    const ckm_solve_options *options = solver->options;
    ckm_i_memory_floor_options limits = {game_work, INT64_MAX};
    ckm_i_memory_floor_result found;
    ckm_schedule *schedule = NULL;
    ckm_verdict verdict;
    ckm_i_pebbling game;
    ckm_status status;
    CKM_I_CHECK(ckm_i_pebbling_init(&game, solver->df, err));
    CKM_I_TRY(ckm_i_memory_floor_find(&game, &limits, &found, err));
    bool open = !solver->infeasible || solver->infeasible_claimed;
    if (open && solver->budget_bytes >= found.enough_bytes) {
        CKM_I_TRY(ckm_i_pebbling_schedule(&game, solver->budget_bytes, game_work, options->stop, options->user,
                                          &schedule, err));
    }
    if (schedule == NULL) {
        CKM_I_TRY(ckm_i_pebbling_least(&game, found.enough_bytes, solver->least_peak_bytes, game_work, options,
                                       &schedule, err));
    }
    if (schedule != NULL) {
        // Where operators run only once, the game's schedules need not be legal.
        CKM_I_TRY(ckm_schedule_verify(solver->df, schedule, -1, &verdict, err));
        if (verdict.ok && takes_any) {
            CKM_I_TRY(ckm_i_solver_offer_schedule(solver, schedule, "pebbling", err));
        } else if (verdict.ok && verdict.peak_bytes < solver->least_peak_bytes) {
            solver->least_peak_bytes = verdict.peak_bytes;
        }
        if (verdict.ok) {
            ckm_bound_class belongs = ckm_i_schedule_class(solver->df, schedule);
            ckm_i_solver_note(solver, verdict.cost, verdict.peak_bytes, belongs);
        }
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_i_pebbling_dispose(&game);
    return status;
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
    CKM_I_CHECK(play(solver, strategy->takes_any_schedule, err));
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
