// SPDX-License-Identifier: Apache-2.0
// checkpoint-last: keep nothing but the operator computed last, and recompute everything else for every stage.
// The cheapest in memory among the simple strategies on chains, and quadratic in cost.
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_holds holds = {.df = solver->df};
    ckm_status status = CKM_OK;
    if (solver->df->n_ops <= CKM_I_MATRIX_MAX_OPS) {
        CKM_I_TRY(ckm_i_stages_create(solver->df, &holds.stages, err));
        CKM_I_TRY(ckm_i_checkpoints_last_stages(solver->df, holds.stages, err));
    } else {
        ckm_i_checkpoints_hold_last(&holds);
    }
    CKM_I_TRY(ckm_i_holds_offer(solver, &holds, "checkpoint-last", NULL, err));
cleanup:
    ckm_i_stages_free(holds.stages);
    ckm_i_holds_dispose(&holds);
    return status;
}

const ckm_i_strategy ckm_i_strategy_checkpoint_last = {
    .name = "checkpoint-last",
    .summary = "keep only the operator computed last; recompute all the rest",
    .run = run,
    .is_published = true,
};
