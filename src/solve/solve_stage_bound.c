// SPDX-License-Identifier: Apache-2.0
// stage-bound: a lower bound only, for every schedule that keeps the order.
#include <math.h>

#include "solve/stage_bound.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_stage_bound_run(solver, INFINITY, err);
}

const ckm_i_strategy ckm_i_strategy_stage_bound = {
    .name = "stage-bound",
    .summary = "lower bound only: the relaxation by stages, valid for every schedule that keeps the order",
    .run = run,
};
