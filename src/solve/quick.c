// SPDX-License-Identifier: Apache-2.0
#include "solve/quick.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/strategies/solve_registry.h"

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
    double deadline = solver->deadline_seconds;
    ckm_status status = CKM_OK;
    for (size_t i = 0; i < sizeof quick / sizeof quick[0]; i++) {
        double most = fmax(quick[i].share * seconds, i == 0 ? first_seconds : 0.0);
        solver->deadline_seconds = fmin(deadline, ckm_i_clock_seconds() + most);
        if (ckm_i_solver_should_stop(solver)) {
            break;
        }
        CKM_I_TRY(quick[i].strategy->run(solver, err));
    }
cleanup:
    solver->deadline_seconds = deadline;
    return status;
}
