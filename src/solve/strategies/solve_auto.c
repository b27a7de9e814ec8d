// SPDX-License-Identifier: Apache-2.0
// auto: what most people want. Runs without rematerialization when that fits; else good schedules first, a
// bound that covers every order-keeping schedule, and the integer program as far as size and time allow.
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/chain/chain.h"
#include "solve/runs/pebbling_play.h"
#include "solve/runs/runs.h"
#include "solve/search/local_search.h"
#include "solve/core/component_registry.h"
#include "solve/bounds/prover.h"
#include "solve/strategies/solve_registry.h"

// Above this many operators search alone may not find anything in the time there is: the published heuristics come first,
// each with a share of it.
static const int32_t large_ops = 3000;

// Above this many, dynamic programs have a share, too.
static const int32_t few_ops = 500;
static const double early_share = 0.05;

// An operator's part in setting up a search, roughly.
static const double setup_seconds = 2e-6;

// Where search on S has found nothing after this share of its time, or leaves such a gap, search on sequences of runs has a share
// of what is left, and all of it where that pays.
static const double trial_share = 0.15, wide_gap = 0.1, runs_share = 0.3, kept_order_share = 0.45,
                    until_found_share = 0.75;

// Near the memory floor, while nothing is found, such search has this share of the time before all else, and of that so much before
// the reverse pebble game, which has a share of the rest.
static const double near_floor_share = 0.6, before_game_share = 0.7, game_share = 0.5;

// In turns, of the time left after the first search: the prover's share, and its share where sequences of runs come next.
static const double proof_share = 0.5, proof_share_before_runs = 0.15;

// What each of them has when nothing else has found a schedule.
static const double late_seconds = 0.2;

// One thread is the prover's as long as it has something to prove.
static int threads_of_prover(void *prover)
{
    return ckm_i_prover_has_ended(prover) ? 0 : 1;
}

static ckm_i_spans *suggest(void *prover)
{
    return prover != NULL ? ckm_i_prover_take_rounded(prover) : NULL;
}

// Sequences of runs are searched where search on S has nothing, or leaves a wide gap.
static bool wants_runs(const ckm_i_solver *solver)
{
    const ckm_solve_options *options = solver->options;
    return options->iteration_limit <= 0 && options->cost_limit < 0 && !solver->infeasible &&
           ckm_i_runs_are_possible(solver->df) &&
           (solver->best_schedule == NULL || solver->best_class < CKM_BOUND_FRONTIER ||
            !(ckm_i_solver_gap(solver) <= wide_gap));
}

// Search in all threads but those of a concurrent prover. On trial, it ends early where sequences of runs
// are to have the rest of the time.
static ckm_status search(ckm_i_solver *solver, ckm_i_prover *prover, bool concurrent, double seconds, bool on_trial,
                         ckm_error *err)
{
    ckm_i_local_search_options options = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    options.seconds = seconds;
    options.moves = solver->options->iteration_limit;
    options.threads = solver->options->threads;
    options.elsewhere = concurrent ? threads_of_prover : NULL;
    options.suggest = suggest;
    options.context = prover;
    options.trial_seconds = trial_share * seconds;
    options.give_up = on_trial ? wants_runs : NULL;
    if (ckm_i_solver_should_stop(solver)) {
        return CKM_OK;
    }
    // Setting it up is not cut short, and for nothing where there is no time left for the search itself.
    if (solver->best_schedule != NULL &&
        ckm_i_solver_seconds_left(solver) < setup_seconds * solver->df->n_ops * options.threads) {
        return CKM_OK;
    }
    return ckm_i_local_search(solver, &options, err);
}

// Sequences of runs in any order, until the deadline.
static ckm_status search_any_order(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_runs_options options = {.keeps_order = false, .seconds = solver->deadline_seconds - ckm_i_clock_seconds()};
    return ckm_i_runs_search(solver, &options, err);
}

static ckm_status search_given(ckm_i_solver *solver, ckm_error *err)
{
    return ckm_i_solver_run_given(solver, search_any_order, err);
}

// Sequences of runs that keep the order; then, near the memory floor and if the order is left open, others, of the problem as it
// was given, because presolve's schedules keep it.
static ckm_status search_runs(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    bool goes_on = solver->is_near_floor && solver->options->reorder &&
                   ckm_i_runs_are_possible(ckm_i_solver_given_df(solver));
    double end = ckm_i_clock_seconds() + seconds;
    ckm_i_runs_options options = {.keeps_order = true, .seconds = seconds};
    if (goes_on) {
        options.seconds = seconds * kept_order_share;
        options.search_seconds = seconds * until_found_share;
    }
    CKM_I_CHECK(ckm_i_runs_search(solver, &options, err));
    if (!goes_on || ckm_i_solver_should_stop(solver)) {
        return CKM_OK;
    }
    return ckm_i_solver_run_until(solver, fmin(end, solver->deadline_seconds), search_given, err);
}

// Near the memory floor, as long as nothing is found: sequences of runs, which alone find something there; then the reverse pebble
// game's schedule, which fits where hardly anything else does and is dear, for them to go on from.
static ckm_status search_near_floor(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    double end = ckm_i_clock_seconds() + seconds;
    CKM_I_CHECK(search_runs(solver, seconds * before_game_share, err));
    if (solver->best_schedule == NULL && !ckm_i_solver_should_stop(solver)) {
        double now = ckm_i_clock_seconds();
        double until = fmin(solver->deadline_seconds, now + game_share * (end - now));
        CKM_I_CHECK(ckm_i_solver_run_until(solver, until, ckm_i_offer_pebbling, err));
    }
    double left = end - ckm_i_clock_seconds();
    return left > 0.0 && wants_runs(solver) && !ckm_i_solver_should_stop(solver) ? search_runs(solver, left, err)
                                                                                 : CKM_OK;
}

static bool begins_with_runs(const ckm_i_solver *solver)
{
    return solver->is_near_floor && solver->best_schedule == NULL && wants_runs(solver);
}

// The same once a short search on S has found nothing.
static bool goes_on_with_runs(const ckm_i_solver *solver)
{
    return solver->may_find_nothing && solver->best_schedule == NULL && wants_runs(solver);
}

// Search for so long. Close to the memory floor, where frontier-advancing schedules are dear or do not fit, sequences of runs
// have a part of it, and all of the rest where that pays.
static ckm_status search_all(ckm_i_solver *solver, ckm_i_prover *prover, bool concurrent, double seconds,
                             ckm_error *err)
{
    double end = ckm_i_clock_seconds() + seconds;
    if (goes_on_with_runs(solver)) {
        CKM_I_CHECK(search_near_floor(solver, seconds * near_floor_share, err));
    }
    CKM_I_CHECK(search(solver, prover, concurrent, fmax(end - ckm_i_clock_seconds(), 0.0), true, err));
    while (wants_runs(solver) && !ckm_i_solver_should_stop(solver) && ckm_i_clock_seconds() < end) {
        bool known = solver->best_schedule != NULL && solver->best_class == CKM_BOUND_FRONTIER;
        int64_t before = solver->best_cost;
        double left = end - ckm_i_clock_seconds();
        CKM_I_CHECK(search_runs(solver, known && !solver->is_near_floor ? left * runs_share : left, err));
        if (known && solver->best_cost == before) {
            break;
        }
    }
    double left = end - ckm_i_clock_seconds();
    return left > 0.0 && !ckm_i_solver_should_stop(solver) ? search(solver, prover, concurrent, left, false, err)
                                                           : CKM_OK;
}

// Search and proofs in turn, one process at a time: what one learns helps the other.
static ckm_status take_turns(ckm_i_solver *solver, ckm_i_prover *prover, ckm_error *err)
{
    ckm_status status = CKM_OK;
    double total = ckm_i_solver_seconds_left(solver);
    double n = solver->df->n_ops;
    if (goes_on_with_runs(solver)) {
        CKM_I_TRY(search_near_floor(solver, total * near_floor_share, err));
        total = ckm_i_solver_seconds_left(solver);
    }
    CKM_I_TRY(ckm_i_prover_run(prover, total * 0.4, err));
    CKM_I_TRY(search(solver, prover, false, fmin(total * 0.15, n * 0.02), false, err));
    double share = wants_runs(solver) ? proof_share_before_runs : proof_share;
    CKM_I_TRY(ckm_i_prover_run(prover, ckm_i_solver_seconds_left(solver) * share, err));
    CKM_I_TRY(search_all(solver, prover, false, ckm_i_solver_seconds_left(solver), err));
cleanup:
    return status;
}

// Search for this many seconds while the prover goes on; where search ends early, the prover has the rest.
static ckm_status search_with_prover(ckm_i_solver *solver, ckm_i_prover *prover, double seconds, ckm_error *err)
{
    double end = ckm_i_clock_seconds() + seconds;
    CKM_I_CHECK(search_all(solver, prover, true, seconds, err));
    double left = end - ckm_i_clock_seconds();
    return left > 0.0 && !ckm_i_solver_should_stop(solver) ? ckm_i_prover_run(prover, left, err) : CKM_OK;
}

// Search in this process, proofs concurrently in another.
static ckm_status side_by_side(ckm_i_solver *solver, ckm_i_prover *prover, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_prover_attach(prover, ckm_i_solver_seconds_left(solver), err));
    ckm_status status = search_with_prover(solver, prover, ckm_i_solver_seconds_left(solver), err);
    ckm_status proof = ckm_i_prover_detach(prover, status == CKM_OK ? err : NULL);
    return status != CKM_OK ? status : proof;
}

const ckm_i_component ckm_i_component_published = {
    .name = "published",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "the published heuristics on graphs that are large or where nothing is found",
};
// The published heuristics, each for a few times this many seconds. The first takes time in proportion to the graph and is
// not cut short: on a chain it always has a schedule, and late is better than never. The second finds good schedules where
// that one, made for chains, computes everything many times. Revolve is tried in any case, as hardly anything is cheaper
// on long chains, the others where there is no schedule yet.
static ckm_status run_published(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    static const struct {
        const ckm_i_strategy *strategy;
        double times;
        double above;  // tried where the best schedule costs this many times what the plain one does
    } published[] = {
        {&ckm_i_strategy_chen_sqrt, 1.0, INFINITY},
        {&ckm_i_strategy_dtr, 4.0, 1.25},
        {&ckm_i_strategy_griewank, 4.0, 0.0},
        {&ckm_i_strategy_chen_sqrt_ap, 1.0, INFINITY},
        {&ckm_i_strategy_chen_greedy_ap, 1.0, INFINITY},
        {&ckm_i_strategy_chen_greedy, 1.0, INFINITY},
    };
    double plain = (double)solver->df->total_cost;
    ckm_status status = CKM_OK;
    if (!ckm_i_component_begin(solver, &ckm_i_component_published)) {
        return CKM_OK;
    }
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        if (i > 0 && (ckm_i_clock_seconds() >= solver->deadline_seconds || ckm_i_solver_is_told_to_stop(solver))) {
            break;
        }
        if (solver->best_schedule == NULL || (double)solver->best_cost > published[i].above * plain) {
            double until = ckm_i_clock_seconds() + published[i].times * seconds;
            CKM_I_TRY(ckm_i_solver_run_until(solver, until, published[i].strategy->run, err));
        }
    }
cleanup:
    ckm_i_component_end(solver);
    return status;
}

// Dynamic programs, with some of the time where the graph is not small.
static ckm_status run_chain(ckm_i_solver *solver, ckm_error *err)
{
    double until = solver->deadline_seconds;
    if (solver->df->n_ops > few_ops) {
        until = fmin(until, ckm_i_clock_seconds() + early_share * ckm_i_solver_seconds_left(solver));
    }
    return ckm_i_solver_run_until(solver, until, ckm_i_chain_run, err);
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_prover *prover = NULL;
    ckm_status status = CKM_OK;
    double n = solver->df->n_ops;
    double total = ckm_i_solver_seconds_left(solver);
    CKM_I_TRY(ckm_i_solver_offer_plain(solver, NULL, err));  // of the graph that presolve has made
    CKM_I_TRY(ckm_i_components_run(solver, err));
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
        CKM_I_TRY(search_all(solver, NULL, false, ckm_i_solver_seconds_left(solver), err));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_prover_create(solver, true, &prover, err));
    if (solver->options->threads > 1) {
        CKM_I_TRY(side_by_side(solver, prover, err));
    } else {
        if (!begins_with_runs(solver)) {
            CKM_I_TRY(search(solver, prover, false, fmin(total * 0.1, 0.1 + n * 0.002), false, err));
        }
        CKM_I_TRY(take_turns(solver, prover, err));
    }
    // Where search has found nothing, time is up; these take next to none on graphs of this size.
    if (solver->best_schedule == NULL && !solver->is_answered && !solver->infeasible &&
        solver->df->n_ops <= large_ops) {
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
    .merges_operators = true,
    .is_thorough = true,
    .takes_any_schedule = true,
    .begins_plain = true,
    .owns_plain = true,
    .reorders_by_search = true,
    .reorders_whole = true,
};
