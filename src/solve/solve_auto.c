// SPDX-License-Identifier: Apache-2.0
// auto: what most people want. Runs without rematerialization when that fits, else the best there is.
#include <stdlib.h>

#include "base/error.h"
#include "solve/solver.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_schedule *baseline = NULL;
    ckm_status status = CKM_OK;
    ckm_i_solver_bound(solver, (double)solver->df->total_cost, CKM_BOUND_ANY, "every operator once");
    CKM_I_TRY(ckm_schedule_baseline(solver->df, &baseline, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, baseline, "no-rematerialization", err));
cleanup:
    ckm_schedule_free(baseline);
    return status;
}

const ckm_i_strategy ckm_i_strategy_auto = {
    .name = "auto",
    .summary = "picks by itself: near-optimal quickly, then a proof as far as time allows",
    .run = run,
};
