// SPDX-License-Identifier: Apache-2.0
// chain: dynamic programs for chains and sequences of blocks, with a bound of their own for chains.
#include "base/error.h"
#include "solve/chain/chain.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_solver_offer_plain(solver, err));
    return ckm_i_solver_should_stop(solver) ? CKM_OK : ckm_i_chain_run(solver, err);
}

const ckm_i_strategy ckm_i_strategy_chain = {
    .name = "chain",
    .summary = "dynamic program over the chain or sequence of blocks (Beaumont et al. 2019); proves chains",
    .run = run,
};
