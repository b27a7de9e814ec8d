// SPDX-License-Identifier: Apache-2.0
// The clock of a solve, and the test for stopping. Nothing else sets a deadline: work that has its own gets a slice, and no slice ends
// later than the solve may.
#include <math.h>

#include "base/clock.h"
#include "solve/core/solver.h"

// How long after the limit work may go on that is worth being late for. What is left of a second is for work that does not
// look at the clock.
static const double late_seconds = 0.8;

void ckm_i_solver_set_limit(ckm_i_solver *solver, double seconds)
{
    solver->start_seconds = ckm_i_clock_seconds();
    solver->deadline_seconds = seconds > 0.0 ? solver->start_seconds + seconds : INFINITY;
    solver->give_up_seconds = INFINITY;
    solver->latest_seconds = solver->deadline_seconds + late_seconds;
}

void ckm_i_solver_set_slice(ckm_i_solver *inner, const ckm_i_solver *outer, double until_seconds)
{
    inner->start_seconds = outer->start_seconds;
    inner->deadline_seconds = fmin(until_seconds, outer->latest_seconds);
    inner->give_up_seconds = INFINITY;
    inner->latest_seconds = outer->latest_seconds;
}

ckm_i_limits ckm_i_solver_begin_slice(ckm_i_solver *solver, double until_seconds, double give_up_seconds)
{
    ckm_i_limits before = {solver->deadline_seconds, solver->give_up_seconds};
    solver->deadline_seconds = fmin(until_seconds, solver->latest_seconds);
    solver->give_up_seconds = give_up_seconds;
    return before;
}

void ckm_i_solver_end_slice(ckm_i_solver *solver, ckm_i_limits before)
{
    solver->deadline_seconds = before.deadline_seconds;
    solver->give_up_seconds = before.give_up_seconds;
}

ckm_status ckm_i_solver_run_until(ckm_i_solver *solver, double until_seconds,
                                  ckm_status (*work)(ckm_i_solver *solver, ckm_error *err), ckm_error *err)
{
    ckm_i_limits before = ckm_i_solver_begin_slice(solver, until_seconds, solver->give_up_seconds);
    ckm_status status = work(solver, err);
    ckm_i_solver_end_slice(solver, before);
    return status;
}

ckm_status ckm_i_solver_run_to_end(ckm_i_solver *solver, ckm_status (*work)(ckm_i_solver *solver, ckm_error *err),
                                   ckm_error *err)
{
    double latest = solver->latest_seconds;
    bool is_late = solver->best_schedule == NULL;
    solver->latest_seconds = is_late ? INFINITY : latest;
    ckm_status status = ckm_i_solver_run_until(solver, INFINITY, work, err);
    solver->latest_seconds = latest;
    return status;
}

bool ckm_i_solver_is_told_to_stop(const ckm_i_solver *solver)
{
    return solver->options->stop != NULL && solver->options->stop(solver->options->user);
}

double ckm_i_solver_gap(const ckm_i_solver *solver)
{
    if (solver->best_schedule == NULL || isnan(solver->bound_cost)) {
        return NAN;
    }
    double cost = (double)solver->best_cost;
    double bound = solver->bound_cost;
    if (cost <= bound) {
        return 0.0;
    }
    return bound > 0.0 ? (cost - bound) / bound : INFINITY;
}

bool ckm_i_solver_should_stop(const ckm_i_solver *solver)
{
    const ckm_solve_options *options = solver->options;
    if (solver->infeasible || ckm_i_solver_is_told_to_stop(solver)) {
        return true;
    }
    if (solver->best_schedule != NULL) {
        if (options->cost_limit >= 0 && solver->best_cost <= options->cost_limit) {
            return true;
        }
        if (ckm_i_solver_gap(solver) <= options->gap) {
            return true;
        }
    }
    double end = solver->best_schedule == NULL ? fmin(solver->deadline_seconds, solver->give_up_seconds)
                                               : solver->deadline_seconds;
    return ckm_i_clock_seconds() >= end;
}

bool ckm_i_solver_stops(void *solver)
{
    return ckm_i_solver_should_stop(solver);
}

bool ckm_i_slice_is_over(void *slice)
{
    const ckm_i_slice *s = slice;
    return ckm_i_clock_seconds() >= s->until_seconds || ckm_i_solver_is_told_to_stop(s->solver);
}

double ckm_i_solver_late_until(const ckm_i_solver *solver, double seconds)
{
    double deadline = solver->deadline_seconds;
    double latest = fmin(deadline + late_seconds, solver->latest_seconds);
    return fmax(deadline, fmin(ckm_i_clock_seconds() + seconds, latest));
}

double ckm_i_solver_end(const ckm_i_solver *solver)
{
    return isfinite(solver->deadline_seconds) ? solver->deadline_seconds
                                              : solver->start_seconds + (double)CKM_I_DEFAULT_SECONDS;
}

double ckm_i_solver_seconds_left(const ckm_i_solver *solver)
{
    return fmax(ckm_i_solver_end(solver) - ckm_i_clock_seconds(), 0.0);
}
