// SPDX-License-Identifier: Apache-2.0
// Relaxations close the gap on many graphs within a tenth of a second, with a schedule that is the first to be within it.
#include "solve/polish.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/core/component_registry.h"
#include "solve/presolve/presolve.h"
#include "solve/strategies/solve_registry.h"

// Gaps up to which what is left is searched for, and which is as good as none; time for it.
static const double polishable_gap = 1e-4, polished_gap = 1e-7;
static const double shortest_seconds = 0.25, longest_seconds = 1.0;

// Above so many operators, setting up a search takes longer than that.
static const int32_t most_ops = 100000;

const ckm_i_component ckm_i_component_polish = {"polish", CKM_COMPONENT_IMPROVES,
                                                "a little search where the gap is closed, for what is left of it"};

static bool is_worth_it(const ckm_i_solver *solver)
{
    const ckm_solve_options *options = solver->options;
    if (solver->best_schedule == NULL || solver->infeasible || solver->df->n_ops > most_ops ||
        options->gap > polishable_gap || options->cost_limit >= 0 || options->iteration_limit > 0 ||
        (options->stop != NULL && options->stop(options->user))) {
        return false;
    }
    double cost = (double)solver->best_cost;
    return cost <= solver->bound_cost * (1.0 + options->gap) && cost > solver->bound_cost * (1.0 + polished_gap);
}

ckm_status ckm_i_polish(ckm_i_solver *solver, ckm_error *err)
{
    if (!is_worth_it(solver) || !ckm_i_component_begin(solver, &ckm_i_component_polish)) {
        return CKM_OK;
    }
    const ckm_solve_options *options = solver->options;
    double deadline = solver->deadline_seconds;
    double now = ckm_i_clock_seconds();
    ckm_solve_options closer = *options;
    closer.gap = polished_gap;
    solver->options = &closer;
    solver->deadline_seconds = fmin(deadline,
                                    now + fmin(fmax(now - solver->start_seconds, shortest_seconds), longest_seconds));
    ckm_status status = ckm_i_presolve_run(solver, &ckm_i_strategy_local_search, err);
    solver->options = options;
    solver->deadline_seconds = deadline;
    ckm_i_component_end(solver);
    return status;
}
