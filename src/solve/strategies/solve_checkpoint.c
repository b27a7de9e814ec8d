// SPDX-License-Identifier: Apache-2.0
// Strategies that hold the same everywhere.
// checkpoint-all: every forward operator is a checkpoint, kept to the end of the step as the paper's
// artifact does; nothing is recomputed. checkpoint-all-ap: every articulation point of the forward graph is one.
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

static ckm_status run_with(ckm_i_solver *solver, ckm_i_candidates which, const char *source, ckm_error *err)
{
    ckm_i_forward *fw = NULL;
    ckm_i_positions candidates = {0};
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_forward_create(solver->df, &fw, err));
    CKM_I_TRY(ckm_i_candidates_find(fw, which, &candidates, err));
    if (solver->df->n_ops <= CKM_I_MATRIX_MAX_OPS) {
        CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    }
    CKM_I_TRY(ckm_i_checkpoints_offer_set(solver, fw, &candidates, stages, source, NULL, err));
cleanup:
    ckm_i_forward_free(fw);
    ckm_i_positions_dispose(&candidates);
    ckm_i_stages_free(stages);
    return status;
}

static ckm_status run_all(ckm_i_solver *solver, ckm_error *err)
{
    return run_with(solver, CKM_I_CANDIDATES_ALL, "checkpoint-all", err);
}

static ckm_status run_articulation(ckm_i_solver *solver, ckm_error *err)
{
    return run_with(solver, CKM_I_CANDIDATES_ARTICULATION, "checkpoint-all-ap", err);
}

const ckm_i_strategy ckm_i_strategy_checkpoint_all = {
    .name = "checkpoint-all",
    .summary = "keep every forward activation; no recomputation",
    .run = run_all,
    .is_published = true,
};

const ckm_i_strategy ckm_i_strategy_checkpoint_all_ap = {
    .name = "checkpoint-all-ap",
    .summary = "keep every articulation point of the forward graph",
    .run = run_articulation,
    .is_published = true,
};

// checkpoint-last: keep nothing but the operator computed last, and recompute everything else for every stage.
// The cheapest in memory among the simple strategies on chains, and quadratic in cost.

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
