// SPDX-License-Identifier: Apache-2.0
// chen-greedy-ap: the greedy rule of Chen et al. 2016 among the articulation points of the forward graph.
#include "solve/checkpoints.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_chen_greedy_run(solver, CKM_I_CANDIDATES_ARTICULATION, "chen-greedy-ap", err);
}

const ckm_i_strategy ckm_i_strategy_chen_greedy_ap = {
    .name = "chen-greedy-ap",
    .summary = "checkpoint articulation points when a segment's bytes pass a limit, over 60 limits",
    .run = run,
};
