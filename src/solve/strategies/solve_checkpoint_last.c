// SPDX-License-Identifier: Apache-2.0
// checkpoint-last: keep nothing but the operator computed last, and recompute everything else for every stage.
// The cheapest in memory among the simple strategies on chains, and quadratic in cost.
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    CKM_I_TRY(ckm_i_checkpoints_last_stages(solver->df, stages, err));
    CKM_I_TRY(ckm_i_checkpoints_offer(solver, stages, "checkpoint-last", NULL, err));
cleanup:
    ckm_i_stages_free(stages);
    return status;
}

const ckm_i_strategy ckm_i_strategy_checkpoint_last = {
    .name = "checkpoint-last",
    .summary = "keep only the operator computed last; recompute all the rest",
    .run = run,
};
