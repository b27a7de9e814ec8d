// SPDX-License-Identifier: Apache-2.0
// griewank: binomial checkpointing (Griewank & Walther 2000) on the chain of articulation points, swept over
// the number of checkpoint slots.
#include <math.h>
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
    CKM_I_CHECK(ckm_i_griewank_stages(gw, slots, stages, err));
    return ckm_i_solver_offer(solver, stages, "griewank", NULL, NULL, err);
}

// Downwards: many slots cost the least, so that the cheapest that fits is met early.
static ckm_status sweep(ckm_i_solver *solver, const ckm_i_griewank *gw, ckm_error *err)
{
    ckm_i_stages *stages = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    for (int32_t slots = ckm_i_griewank_states(gw); slots >= 0 && !ckm_i_solver_should_stop(solver);) {
        CKM_I_TRY(try_slots(solver, gw, slots, stages, err));
        slots -= slots > DENSE ? 1 + (slots - DENSE) / DENSE : 1;
    }
cleanup:
    ckm_i_stages_free(stages);
    return status;
}

// Large graphs: the most slots that fit, by bisection. Peaks grow with slots but for what the parts being unwound take.
static ckm_status bisect(ckm_i_solver *solver, const ckm_i_griewank *gw, ckm_error *err)
{
    ckm_i_holds holds = {.df = solver->df};
    int32_t low = -1;
    int32_t high = ckm_i_griewank_states(gw) + 1;
    ckm_status status = CKM_OK;
    while (high - low > 1 && !ckm_i_solver_should_stop(solver)) {
        // By ratios, as a few slots are enough for chains of any length.
        int32_t slots = (int32_t)sqrt((double)(low + 2) * (double)(high + 1)) - 1;
        slots = slots <= low ? low + 1 : slots;
        int64_t peak = -1;
        ckm_i_holds_dispose(&holds);
        CKM_I_TRY(ckm_i_griewank_hold(gw, slots, &holds, err));
        CKM_I_TRY(ckm_i_holds_offer(solver, &holds, "griewank", &peak, err));
        if (peak >= 0 && peak > solver->budget_bytes) {
            high = slots;
        } else {
            low = slots;
        }
    }
cleanup:
    ckm_i_holds_dispose(&holds);
    return status;
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_forward *fw = NULL;
    ckm_i_griewank *gw = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_forward_create(solver->df, &fw, err));
    CKM_I_TRY(ckm_i_griewank_create(fw, &gw, err));
    CKM_I_TRY((solver->df->n_ops <= CKM_I_MATRIX_MAX_OPS ? sweep : bisect)(solver, gw, err));
cleanup:
    ckm_i_griewank_free(gw);
    ckm_i_forward_free(fw);
    return status;
}

const ckm_i_strategy ckm_i_strategy_griewank = {
    .name = "griewank",
    .summary = "binomial checkpointing of the chain of articulation points (Griewank & Walther 2000)",
    .run = run,
    .is_published = true,
};
