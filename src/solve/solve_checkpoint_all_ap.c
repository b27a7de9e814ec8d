// SPDX-License-Identifier: Apache-2.0
// checkpoint-all-ap: every articulation point of the forward graph is a checkpoint.
#include "solve/checkpoints.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_checkpoint_all_run(solver, CKM_I_CANDIDATES_ARTICULATION, "checkpoint-all-ap", err);
}

const ckm_i_strategy ckm_i_strategy_checkpoint_all_ap = {
    .name = "checkpoint-all-ap",
    .summary = "keep every articulation point of the forward graph",
    .run = run,
};
