// SPDX-License-Identifier: Apache-2.0
// ilp: the paper's mixed-integer program, solutions by CBC from the best schedule that local search finds, proofs by our own
// branch and bound.
#include <math.h>

#include "base/error.h"
#include "solve/ilp/ilp_run.h"
#include "solve/search/local_search.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_local_search_briefly(solver, err));
    return ckm_i_solver_should_stop(solver) ? CKM_OK : ckm_i_ilp_run(solver, INFINITY, err);
}

const ckm_i_strategy ckm_i_strategy_ilp = {
    .name = "ilp",
    .summary = "the paper's integer program, warm-started; proves optimality on small graphs",
    .run = run,
    .has_formulations = true,
    .is_thorough = true,
    .begins_plain = true,
};
