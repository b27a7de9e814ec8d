// SPDX-License-Identifier: Apache-2.0
// chen-sqrt-ap: the sqrt(n) rule of Chen et al. 2016 among the articulation points of the forward graph.
#include "solve/checkpoints.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_chen_sqrt_run(solver, CKM_I_CANDIDATES_ARTICULATION, "chen-sqrt-ap", err);
}

const ckm_i_strategy ckm_i_strategy_chen_sqrt_ap = {
    .name = "chen-sqrt-ap",
    .summary = "checkpoint every sqrt(n)-th articulation point",
    .run = run,
};
