// SPDX-License-Identifier: Apache-2.0
// auto: what most people want. Runs without rematerialization when that fits; else good schedules first, a
// bound that covers every order-keeping schedule, and the integer program as far as size and time allow.
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/chain/chain.h"
#include "solve/ilp/ilp_run.h"
#include "solve/search/local_search.h"
#include "solve/bounds/first_bound.h"
#include "solve/bounds/prover.h"
#include "solve/strategies/solve_registry.h"

// Above so many operators search alone may not find anything in the time there is: the published heuristics come first,
// each with a share of it.
static const int32_t large_ops = 3000;
static const double early_share = 0.05;

// An operator's part in setting up a search, roughly.
static const double setup_seconds = 2e-6;

// What each of them has when nothing else has found a schedule.
static const double late_seconds = 0.2;

static bool is_stopped(const ckm_i_solver *solver)
{
    return solver->options->stop != NULL && solver->options->stop(solver->options->user);
}

static double time_left(const ckm_i_solver *solver)
{
    double end = fmin(solver->deadline_seconds, solver->start_seconds + CKM_I_DEFAULT_SECONDS);
    if (isfinite(solver->deadline_seconds)) {
        end = solver->deadline_seconds;
    }
    return fmax(end - ckm_i_clock_seconds(), 0.0);
}

// One thread is the prover's as long as it has something to prove.
static int threads_of_prover(void *prover)
{
    return ckm_i_prover_has_ended(prover) ? 0 : 1;
}

static ckm_i_spans *suggest(void *prover)
{
    return prover != NULL ? ckm_i_prover_take_rounded(prover) : NULL;
}

// Search in all threads but those of the prover when that is at work beside it.
static ckm_status search(ckm_i_solver *solver, ckm_i_prover *prover, bool beside, double seconds, ckm_error *err)
{
    ckm_i_local_search_options options = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    options.seconds = seconds;
    options.moves = solver->options->iteration_limit;
    options.threads = solver->options->threads;
    options.elsewhere = beside ? threads_of_prover : NULL;
    options.suggest = suggest;
    options.context = prover;
    if (ckm_i_solver_should_stop(solver)) {
        return CKM_OK;
    }
    // Setting it up is not cut short, and for nothing where there is no time left for the search itself.
    if (solver->best_schedule != NULL && time_left(solver) < setup_seconds * solver->df->n_ops * options.threads) {
        return CKM_OK;
    }
    return ckm_i_local_search(solver, &options, err);
}

// Search and proofs in turn, one process at a time: what one learns helps the other.
static ckm_status take_turns(ckm_i_solver *solver, ckm_i_prover *prover, ckm_error *err)
{
    ckm_status status = CKM_OK;
    double total = time_left(solver);
    double n = solver->df->n_ops;
    CKM_I_TRY(ckm_i_prover_run(prover, total * 0.4, err));
    CKM_I_TRY(search(solver, prover, false, fmin(total * 0.15, n * 0.02), err));
    if (solver->df->n_ops <= CKM_I_ILP_MAX_OPS && !ckm_i_solver_should_stop(solver)) {
        CKM_I_TRY(ckm_i_ilp_run(solver, time_left(solver) * 0.4, err));
    }
    CKM_I_TRY(ckm_i_prover_run(prover, time_left(solver) * 0.5, err));
    CKM_I_TRY(search(solver, prover, false, time_left(solver), err));
cleanup:
    return status;
}

// Search for so many seconds while the prover goes on; where search ends early, the prover has the rest.
static ckm_status search_beside(ckm_i_solver *solver, ckm_i_prover *prover, double seconds, ckm_error *err)
{
    double end = ckm_i_clock_seconds() + seconds;
    CKM_I_CHECK(search(solver, prover, true, seconds, err));
    double left = end - ckm_i_clock_seconds();
    return left > 0.0 && !ckm_i_solver_should_stop(solver) ? ckm_i_prover_run(prover, left, err) : CKM_OK;
}

// Search, and the paper's program, which knows of peaks within a stage, where the prover leaves a gap.
static ckm_status search_attached(ckm_i_solver *solver, ckm_i_prover *prover, ckm_error *err)
{
    if (solver->df->n_ops <= CKM_I_ILP_MAX_OPS) {
        CKM_I_CHECK(search_beside(solver, prover, time_left(solver) * 0.5, err));
        if (!ckm_i_solver_should_stop(solver) && ckm_i_prover_has_ended(prover)) {
            CKM_I_CHECK(ckm_i_ilp_run(solver, time_left(solver) * 0.8, err));
        }
    }
    return search_beside(solver, prover, time_left(solver), err);
}

// Search here, proofs in a process beside it.
static ckm_status side_by_side(ckm_i_solver *solver, ckm_i_prover *prover, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_prover_attach(prover, time_left(solver), err));
    ckm_status status = search_attached(solver, prover, err);
    ckm_status proof = ckm_i_prover_detach(prover, status == CKM_OK ? err : NULL);
    return status != CKM_OK ? status : proof;
}

// The published heuristics, each for a few times so many seconds. The first takes time in proportion to the graph and is
// not cut short: on a chain it always has a schedule, and late is better than never. The second finds good schedules where
// that one, made for chains, computes everything many times. Revolve is tried in any case, as hardly anything is cheaper
// on long chains, the others where there is no schedule yet.
static ckm_status run_published(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    static const struct {
        const ckm_i_strategy *strategy;
        double times;
        double above;  // tried where the best schedule costs so many times what the plain one does
    } published[] = {
        {&ckm_i_strategy_chen_sqrt, 1.0, INFINITY},
        {&ckm_i_strategy_dtr, 4.0, 1.25},
        {&ckm_i_strategy_griewank, 4.0, 0.0},
        {&ckm_i_strategy_chen_sqrt_ap, 1.0, INFINITY},
        {&ckm_i_strategy_chen_greedy_ap, 1.0, INFINITY},
        {&ckm_i_strategy_chen_greedy, 1.0, INFINITY},
    };
    double deadline = solver->deadline_seconds;
    double plain = (double)solver->df->total_cost;
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        if (i > 0 && (ckm_i_clock_seconds() >= deadline || is_stopped(solver))) {
            break;
        }
        if (solver->best_schedule == NULL || (double)solver->best_cost > published[i].above * plain) {
            solver->deadline_seconds = ckm_i_clock_seconds() + published[i].times * seconds;
            CKM_I_CHECK(published[i].strategy->run(solver, err));
        }
    }
    solver->deadline_seconds = deadline;
    return CKM_OK;
}

// Dynamic programs, with some of the time where the graph is large.
static ckm_status run_chain(ckm_i_solver *solver, ckm_error *err)
{
    double deadline = solver->deadline_seconds;
    if (solver->df->n_ops > large_ops) {
        solver->deadline_seconds = fmin(deadline, ckm_i_clock_seconds() + early_share * time_left(solver));
    }
    ckm_status status = ckm_i_chain_run(solver, err);
    solver->deadline_seconds = deadline;
    return status;
}

// A bound and, on large graphs, a schedule from single cuts. On small ones search has one in no time.
static ckm_status run_first(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_spans *rounded = NULL;
    ckm_status status = CKM_OK;
    double seconds = early_share * time_left(solver);
    CKM_I_TRY(ckm_i_first_bound(solver, seconds, &rounded, err));
    if (rounded != NULL && solver->df->n_ops > large_ops) {
        CKM_I_TRY(ckm_i_first_schedule(solver, rounded, 4.0 * seconds, err));
    }
cleanup:
    ckm_i_spans_free(rounded, solver->df->n_tensors);
    return status;
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_prover *prover = NULL;
    ckm_status status = CKM_OK;
    double n = solver->df->n_ops;
    double total = time_left(solver);
    CKM_I_TRY(ckm_i_solver_offer_plain(solver, err));
    if (!ckm_i_solver_should_stop(solver)) {
        CKM_I_TRY(run_first(solver, err));
    }
    // On large graphs even when time is up already: there would be no answer.
    if (solver->best_schedule == NULL && solver->df->n_ops > large_ops) {
        CKM_I_TRY(run_published(solver, early_share * total, err));
    }
    if (ckm_i_solver_should_stop(solver)) {
        goto cleanup;
    }
    CKM_I_TRY(run_chain(solver, err));
    if (ckm_i_solver_should_stop(solver)) {
        goto cleanup;
    }
    if (solver->proven_elsewhere) {
        CKM_I_TRY(search(solver, NULL, false, time_left(solver), err));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_prover_create(solver, true, &prover, err));
    if (solver->options->threads > 1) {
        CKM_I_TRY(side_by_side(solver, prover, err));
    } else {
        CKM_I_TRY(search(solver, prover, false, fmin(total * 0.1, 0.1 + n * 0.002), err));
        CKM_I_TRY(take_turns(solver, prover, err));
    }
    // Where search has found nothing, time is up; these take next to none on graphs of this size.
    if (solver->best_schedule == NULL && !solver->infeasible && solver->df->n_ops <= large_ops) {
        CKM_I_TRY(run_published(solver, late_seconds, err));
    }
cleanup:
    ckm_i_prover_free(prover);
    return status;
}

const ckm_i_strategy ckm_i_strategy_auto = {
    .name = "auto",
    .summary = "the default: a near-optimal schedule quickly, then a proof as far as time allows",
    .run = run,
    .wants_reduced = true,
    .is_thorough = true,
    .takes_any_schedule = true,
    .begins_plain = true,
    .is_polished = true,
    .reorders_by_search = true,
    .reorders_whole = true,
};
