// SPDX-License-Identifier: Apache-2.0
// chen-sqrt: Chen et al. 2016, every sqrt(n)-th forward operator, in layer order, is a checkpoint. On graphs
// that are not chains this is the "linearized sqrt(n)" of the Checkmate paper. chen-sqrt-ap: the same among the
// articulation points of the forward graph.
#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

static ckm_status run_with(ckm_i_solver *solver, ckm_i_candidates which, const char *source, ckm_error *err)
{
    ckm_i_forward *fw = NULL;
    ckm_i_positions candidates = {0};
    ckm_i_positions chosen = {0};
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_forward_create(solver->df, &fw, err));
    CKM_I_TRY(ckm_i_candidates_find(fw, which, &candidates, err));
    CKM_I_TRY(ckm_i_positions_create(fw, &chosen, err));
    if (solver->df->n_ops <= CKM_I_MATRIX_MAX_OPS) {
        CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    }
    ckm_i_checkpoints_sqrt(&candidates, &chosen);
    CKM_I_TRY(ckm_i_checkpoints_offer_set(solver, fw, &chosen, stages, source, NULL, err));
cleanup:
    ckm_i_forward_free(fw);
    ckm_i_positions_dispose(&candidates);
    ckm_i_positions_dispose(&chosen);
    ckm_i_stages_free(stages);
    return status;
}

static ckm_status offer_all(ckm_i_solver *solver, ckm_error *err)
{
    return run_with(solver, CKM_I_CANDIDATES_ALL, "chen-sqrt", err);
}

static ckm_status offer_articulation(ckm_i_solver *solver, ckm_error *err)
{
    return run_with(solver, CKM_I_CANDIDATES_ARTICULATION, "chen-sqrt-ap", err);
}

static ckm_status run_all(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_solver_run_to_end(solver, offer_all, err);
}

static ckm_status run_articulation(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_solver_run_to_end(solver, offer_articulation, err);
}

const ckm_i_strategy ckm_i_strategy_chen_sqrt = {
    .name = "chen-sqrt",
    .summary = "checkpoint every sqrt(n)-th forward operator (Chen et al. 2016; linearized on branching graphs)",
    .run = run_all,
    .is_published = true,
};

const ckm_i_strategy ckm_i_strategy_chen_sqrt_ap = {
    .name = "chen-sqrt-ap",
    .summary = "checkpoint every sqrt(n)-th articulation point",
    .run = run_articulation,
    .is_published = true,
};
