// SPDX-License-Identifier: Apache-2.0
// ilp: the paper's mixed-integer program through CBC, started from the best schedule that local search finds.
#include <math.h>

#include "base/clock.h"
#include "solve/ilp/ilp_run.h"
#include "solve/search/local_search.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    double left = solver->deadline_seconds - ckm_i_clock_seconds();
    ckm_i_local_search_options search = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    search.seconds = fmin(isfinite(left) ? left * 0.1 : 10.0, 0.2 + solver->df->n_ops * 0.02);
    search.moves = solver->options->iteration_limit;
    ckm_status status = ckm_i_local_search(solver, &search, err);
    if (status != CKM_OK || ckm_i_solver_should_stop(solver)) {
        return status;
    }
    return ckm_i_ilp_run(solver, INFINITY, err);
}

const ckm_i_strategy ckm_i_strategy_ilp = {
    .name = "ilp",
    .summary = "the paper's integer program through CBC, warm-started; proves optimality on small graphs",
    .run = run,
};
