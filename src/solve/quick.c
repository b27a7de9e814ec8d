// SPDX-License-Identifier: Apache-2.0
#include "solve/solve_above.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/core/component_registry.h"
#include "solve/strategies/solve_registry.h"

// Where a run begins, on graphs of up to this many operators: up to the first number, all of them to their ends. Above, all together have a
// share of the time, but the slowest, first of all, at least so much, and all of them end so long after the limit at most.
static const int32_t most_ops = 3000, few_ops = 500;
static const double share_of_time = 0.15, first_least_seconds = 0.4, late_seconds = 0.6;

// The one that is best as a rule first; the others' schedules are then looked at only as far as their cost. Shares add up to 1.
static const struct {
    const ckm_i_strategy *strategy;
    double share;
} quick[] = {
    {&ckm_i_strategy_dtr, 6.0 / 18.0},
    {&ckm_i_strategy_chen_sqrt, 1.0 / 18.0},
    {&ckm_i_strategy_chen_sqrt_ap, 1.0 / 18.0},
    {&ckm_i_strategy_chen_greedy, 2.0 / 18.0},
    {&ckm_i_strategy_chen_greedy_ap, 2.0 / 18.0},
    {&ckm_i_strategy_griewank, 3.0 / 18.0},
    {&ckm_i_strategy_checkpoint_all, 1.0 / 18.0},
    {&ckm_i_strategy_checkpoint_all_ap, 1.0 / 18.0},
    {&ckm_i_strategy_checkpoint_last, 1.0 / 18.0},
};

ckm_status ckm_i_quick_run(ckm_i_solver *solver, double seconds, double first_seconds, ckm_error *err)
{
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++) {
        double most = fmax(quick[i].share * seconds, i == 0 ? first_seconds : 0.0);
        if (most <= 0.0 || ckm_i_solver_should_stop(solver)) {
            break;
        }
        double until = fmin(solver->deadline_seconds, ckm_i_clock_seconds() + most);
        CKM_I_CHECK(ckm_i_solver_run_until(solver, until, quick[i].strategy->run, err));
    }
    return CKM_OK;
}

static bool is_small(const ckm_i_solver *solver)
{
    return solver->df->n_ops <= most_ops;
}

const ckm_i_component ckm_i_component_quick = {
    .name = "quick",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "the published heuristics that take next to no time, before all else",
};

// On graphs that are not large neither the limit nor a caller who wants to stop cuts them short.
static ckm_status begin(ckm_i_solver *solver, ckm_error *err)
{
    solver->began_quickly = true;
    const ckm_solve_options *options = solver->options;
    double deadline = solver->deadline_seconds;
    bool hurries = solver->df->n_ops > few_ops;
    double seconds = hurries ? fmax(share_of_time * (deadline - ckm_i_clock_seconds()), 0.0) : INFINITY;
    ckm_solve_options unhurried = *options;
    if (!hurries) {
        unhurried.stop = NULL;
    }
    ckm_i_limits before = ckm_i_solver_begin_slice(solver, hurries ? deadline + late_seconds : INFINITY,
                                                   solver->give_up_seconds);
    solver->options = &unhurried;
    ckm_status status = ckm_i_quick_run(solver, seconds, first_least_seconds, err);
    solver->options = options;
    ckm_i_solver_end_slice(solver, before);
    return status;
}

ckm_status ckm_i_quick_begin(ckm_i_solver *solver, ckm_error *err)
{
    return is_small(solver) ? ckm_i_component_run(solver, &ckm_i_component_quick, begin, err) : CKM_OK;
}
