// SPDX-License-Identifier: Apache-2.0
// local-search: annealing on S alone, without a bound.
#include <math.h>

#include "base/clock.h"
#include "solve/search/local_search.h"

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_local_search_options options = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    double left = solver->deadline_seconds - ckm_i_clock_seconds();
    options.seconds = isfinite(left) ? left : (double)CKM_I_DEFAULT_SECONDS;
    options.moves = solver->options->iteration_limit;
    options.threads = solver->options->threads;
    return ckm_i_local_search(solver, &options, err);
}

const ckm_i_strategy ckm_i_strategy_local_search = {
    .name = "local-search",
    .summary = "annealing on what is held from stage to stage; good schedules fast, no bound",
    .run = run,
    .wants_reduced = true,
    .begins_plain = true,
    .reorders_by_search = true,
};
