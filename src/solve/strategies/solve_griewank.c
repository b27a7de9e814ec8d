// SPDX-License-Identifier: Apache-2.0
// griewank: binomial checkpointing (Griewank & Walther 2000) on the chain of articulation points, swept over
// the number of checkpoint slots.
#include <string.h>

#include "base/error.h"
#include "solve/checkpoints/checkpoints.h"

// Every number of slots up to this one is tried; beyond, numbers about 1/DENSE apart, where neighbours hardly
// differ.
enum { DENSE = 256 };

static ckm_status try_slots(ckm_i_solver *solver, const ckm_i_griewank *gw, int32_t slots, ckm_i_stages *stages,
                            ckm_error *err)
{
    memset(stages->s, 0, ((size_t)stages->n_ops + 1) * stages->s_words * sizeof *stages->s);
    ckm_status status = ckm_i_griewank_stages(gw, slots, stages, err);
    return status == CKM_OK ? ckm_i_solver_offer(solver, stages, "griewank", NULL, NULL, err) : status;
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_forward *fw = NULL;
    ckm_i_griewank *gw = NULL;
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_forward_create(solver->df, &fw, err));
    CKM_I_TRY(ckm_i_griewank_create(fw, &gw, err));
    CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    int32_t most = ckm_i_griewank_states(gw);
    // Downwards: many slots cost the least, so that the cheapest that fits is met early.
    for (int32_t slots = most; slots >= 0 && !ckm_i_solver_should_stop(solver);) {
        CKM_I_TRY(try_slots(solver, gw, slots, stages, err));
        slots -= slots > DENSE ? 1 + (slots - DENSE) / DENSE : 1;
    }
cleanup:
    ckm_i_griewank_free(gw);
    ckm_i_forward_free(fw);
    ckm_i_stages_free(stages);
    return status;
}

const ckm_i_strategy ckm_i_strategy_griewank = {
    .name = "griewank",
    .summary = "binomial checkpointing of the chain of articulation points (Griewank & Walther 2000)",
    .run = run,
};
