// SPDX-License-Identifier: Apache-2.0
// Strategies that are one part of auto alone.
// stage-bound and stage-program: lower bounds for every schedule that keeps the order.
#include <math.h>

#include "base/error.h"
#include "solve/bounds/prover.h"
#include "solve/chain/chain.h"
#include "solve/search/local_search.h"

static ckm_status prove(ckm_i_solver *solver, bool programs, ckm_error *err)
{
    ckm_i_prover *prover = NULL;
    CKM_I_CHECK(ckm_i_prover_create(solver, programs, &prover, err));
    ckm_status status = ckm_i_prover_run(prover, INFINITY, err);
    ckm_i_prover_free(prover);
    return status;
}

static ckm_status run_bound(ckm_i_solver *solver, ckm_error *err)
{
    return prove(solver, false, err);
}

static ckm_status run_program(ckm_i_solver *solver, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_local_search_briefly(solver, err));
    return ckm_i_solver_should_stop(solver) ? CKM_OK : prove(solver, true, err);
}

const ckm_i_strategy ckm_i_strategy_stage_bound = {
    .name = "stage-bound",
    .summary = "lower bound only: the relaxation by stages, valid for every schedule that keeps the order",
    .run = run_bound,
    .only_bounds = true,
    .wants_reduced = true,
};

const ckm_i_strategy ckm_i_strategy_stage_program = {
    .name = "stage-program",
    .summary = "local search, and the same relaxation with binaries, by branch and bound",
    .run = run_program,
    .wants_reduced = true,
};

// local-search: annealing on S alone, without a bound.

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_local_search_options options = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    options.seconds = ckm_i_solver_seconds_left(solver);
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

// chain: dynamic programs for chains and sequences of blocks, with a bound of their own for chains.

const ckm_i_strategy ckm_i_strategy_chain = {
    .name = "chain",
    .summary = "dynamic program over the chain or sequence of blocks (Beaumont et al. 2019); proves chains",
    .run = ckm_i_chain_run,
    .owns_plain = true,
};
