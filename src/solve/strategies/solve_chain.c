// SPDX-License-Identifier: Apache-2.0
// chain: dynamic programs for chains and sequences of blocks, with a bound of their own for chains.
#include "base/error.h"
#include "solve/chain/chain.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_schedule *baseline = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_baseline(solver->df, &baseline, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, baseline, "no-rematerialization", err));
    if (!ckm_i_solver_should_stop(solver)) {
        CKM_I_TRY(ckm_i_chain_run(solver, err));
    }
cleanup:
    ckm_schedule_free(baseline);
    return status;
}

const ckm_i_strategy ckm_i_strategy_chain = {
    .name = "chain",
    .summary = "dynamic program over the chain or sequence of blocks (Beaumont et al. 2019); proves chains",
    .run = run,
};
