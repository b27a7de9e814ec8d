// SPDX-License-Identifier: Apache-2.0
// Solving with the order of first executions left open: a few good orders compete, each with the chosen strategy
// on the graph permuted into it.
#include "solve/reorder/reorder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/bounds/prover.h"
#include "solve/presolve/presolve.h"

// Shares of the time: a first schedule in the given order, finding orders, letting them compete. The rest goes to
// the best one. Orders are found in time that grows with the graph, not with the patience of the caller.
static const double first_share = 0.03;
static const double order_share = 0.15;
static const double race_share = 0.25;
static const double order_seconds_per_op = 0.02;

// A graph of up to this many operators is handed to auto as a whole in the end, for this share of what is left.
static const int32_t whole_max_ops = 250;
static const double whole_share = 0.3;

// Where no other order is found whose peak is lower than the graph's own by more than this, that order is tried by the strategy
// itself for this share of the time left. Where another order is proven to gain no more than that, it stays, and has this share
// of what is left then.
static const double little_lower = 0.02, given_share = 0.15, little_gain = 0.005, stay_share = 0.6;

// With one thread, what proofs have of the time left once orders are found.
static const double proof_share = 0.2;

// Orders in the race; a large graph's matrices leave room for fewer.
enum { max_entries = 8, large_entries = 2, large_n_ops = 4000 };

// One order and what has been found for it.
typedef struct entry {
    struct reordering *all;
    int32_t *order;
    ckm_dataflow *df;  // permuted
    ckm_i_solver solver;
    int64_t offered_cost;  // of what has been handed on
} entry;

typedef struct reordering {
    ckm_i_solver *outer;
    const ckm_i_strategy *strategy, *search;
    ckm_solve_options options;  // of the solves on permuted graphs
    double end_seconds;
    bool bound_shows_loss;  // the running entry's bound is no better than the best schedule
    entry entries[max_entries];
    int n_entries;
    int64_t refinements;
    int64_t given_peak_bytes, least_peak_bytes;  // without rematerialization: in the graph's order, in any found
    // Bounds that hold in every order, for the reduced problem where there is one; NULL: none are wanted.
    ckm_i_presolve *reduced;
    ckm_i_prover *prover;
} reordering;

static double time_left(const reordering *all)
{
    return fmax(all->end_seconds - ckm_i_clock_seconds(), 0.0);
}

static bool should_stop(void *user)
{
    const reordering *all = user;
    return all->bound_shows_loss || ckm_i_clock_seconds() >= all->end_seconds || ckm_i_solver_should_stop(all->outer);
}

// With threads to spare, proofs go on in a concurrent process.
static bool proves_concurrently(const reordering *all)
{
    return all->outer->options->threads > 1;
}

static bool attend_and_ask(void *user)
{
    const reordering *all = user;
    ckm_i_solver_attend(all->outer);
    return should_stop(user);
}

static void watch(const ckm_progress *progress, void *user)
{
    reordering *all = user;
    const ckm_i_solver *outer = all->outer;
    all->bound_shows_loss = outer->best_schedule != NULL && progress->bound_cost >= (double)outer->best_cost;
}

static void pass_log(ckm_log_level level, const char *line, void *user)
{
    const reordering *all = user;
    ckm_i_solver_log(all->outer, level, "%s", line);
}

static ckm_status offer_mapped(ckm_i_solver *outer, const ckm_schedule *permuted, const int32_t *order,
                               const char *source, ckm_error *err)
{
    ckm_schedule *mapped = NULL;
    ckm_status status = CKM_OK;
    char name[64];
    snprintf(name, sizeof name, "%.50s, reordered", source);
    CKM_I_TRY(ckm_i_reorder_map_back(permuted, order, &mapped, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(outer, &mapped, name, NULL, err));
cleanup:
    ckm_schedule_free(mapped);
    return status;
}

// Hands on what the entry has found since the last time.
static ckm_status collect(entry *e, ckm_error *err)
{
    ckm_i_solver *outer = e->all->outer;
    const ckm_i_solver *inner = &e->solver;
    if (inner->least_peak_bytes >= 0 &&
        (outer->least_peak_bytes < 0 || inner->least_peak_bytes < outer->least_peak_bytes)) {
        outer->least_peak_bytes = inner->least_peak_bytes;
    }
    // A bound for every order is one for this graph. A proof of infeasibility renames the class of the bound.
    if (inner->bound_covers == CKM_BOUND_ANY && !inner->infeasible) {
        ckm_i_solver_bound(outer, inner->bound_cost, CKM_BOUND_ANY, "reorder");
    }
    if (inner->best_schedule == NULL || (e->offered_cost >= 0 && inner->best_cost >= e->offered_cost)) {
        return CKM_OK;
    }
    e->offered_cost = inner->best_cost;
    return offer_mapped(outer, inner->best_schedule, e->order, inner->best_source, err);
}

// Runs an entry for some seconds: local search, which goes on from what it has, or the strategy itself.
static ckm_status run_entry(entry *e, bool search_only, double seconds, ckm_error *err)
{
    reordering *all = e->all;
    ckm_i_solver_set_slice(&e->solver, all->outer, ckm_i_clock_seconds() + fmin(seconds, time_left(all)));
    all->bound_shows_loss = false;
    bool concurrent = all->prover != NULL && proves_concurrently(all);
    bool busy = concurrent && !ckm_i_prover_has_ended(all->prover);
    all->options.threads = all->outer->options->threads - (busy ? 1 : 0);
    e->solver.background = busy ? all->outer->background : NULL;
    e->solver.background_context = all->outer->background_context;
    ckm_status status = ckm_i_presolve_run(&e->solver, search_only ? all->search : all->strategy, err);
    all->bound_shows_loss = false;
    CKM_I_CHECK(status);
    return collect(e, err);
}

static ckm_status add_entry(reordering *all, const int32_t *order, ckm_error *err)
{
    const ckm_dataflow *df = all->outer->df;
    for (int i = 0; i < all->n_entries; i++) {
        if (memcmp(all->entries[i].order, order, (size_t)df->n_ops * sizeof *order) == 0) {
            return CKM_OK;
        }
    }
    entry *e = &all->entries[all->n_entries];
    ckm_status status = CKM_OK;
    *e = (entry){.all = all, .offered_cost = -1};
    e->order = ckm_i_memdup(order, (size_t)df->n_ops, sizeof *order);
    if (e->order == NULL) {
        return ckm_i_error_memory(err);
    }
    all->n_entries++;
    status = ckm_i_reorder_permute(df, order, &e->df, err);
    ckm_i_solver_init(&e->solver, e->df, &all->options, all->outer->budget_bytes);
    e->solver.accounts = all->outer->accounts;
    e->solver.is_near_floor = all->outer->is_near_floor;
    e->solver.may_find_nothing = all->outer->may_find_nothing;
    e->solver.bound_cost = (double)df->total_cost;
    e->solver.bound_covers = CKM_BOUND_ANY;
    return status;
}

// The run without rematerialization in the order of the last entry.
static ckm_status offer_plain(const reordering *all, ckm_error *err)
{
    const entry *e = &all->entries[all->n_entries - 1];
    ckm_schedule *baseline = NULL;
    CKM_I_CHECK(ckm_schedule_baseline(e->df, &baseline, err));
    ckm_status status = offer_mapped(all->outer, baseline, e->order, "no-rematerialization", err);
    ckm_schedule_free(baseline);
    return status;
}

// Fills the race with orders that ask for little above the budget, found from different starts. One that fits
// without rematerialization ends everything.
static ckm_status find_orders(reordering *all, bool search_only, double seconds, ckm_error *err)
{
    const ckm_dataflow *df = all->outer->df;
    const ckm_solve_options *options = all->outer->options;
    ckm_status status = CKM_OK;
    int room = df->n_ops > large_n_ops ? large_entries : max_entries;
    int32_t *order = ckm_i_malloc((size_t)df->n_ops, sizeof *order);
    if (order == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        order[v] = v;
    }
    CKM_I_TRY(add_entry(all, order, err));
    CKM_I_TRY(ckm_i_order_peak(df, order, &all->given_peak_bytes, err));
    all->least_peak_bytes = all->given_peak_bytes;
    if (search_only) {
        // Large graphs need some time for anything that fits.
        double least = fmin(time_left(all) * 0.3, df->n_ops * 0.0003);
        CKM_I_TRY(run_entry(&all->entries[0], true, fmax(time_left(all) * first_share, least), err));
    }
    for (int i = 1; i < room && !should_stop(all); i++) {
        int64_t peak = 0;
        ckm_i_order_options search = {
            .target_bytes = all->outer->budget_bytes,
            .seconds = seconds / (room - 1),
            .moves = options->iteration_limit,
            .seed = options->seed + (uint64_t)i,
            .stop = attend_and_ask,
            .user = all,
        };
        if (i % 3 == 1) {
            CKM_I_TRY(ckm_i_order_greedy(df, i == 1 ? 0.0 : 0.5, search.seed, order, err));
        } else if (i % 3 == 0) {
            memcpy(order, all->entries[0].order, (size_t)df->n_ops * sizeof *order);
        }
        // Among those with little above the budget, one with the lowest peak.
        CKM_I_TRY(i == 3 ? ckm_i_order_lower_peak(df, &search, order, &peak, err)
                         : ckm_i_order_anneal(df, &search, order, &peak, err));
        ckm_i_solver_log(all->outer, CKM_LOG_INFO, "reorder: order %d peaks at %lld bytes", i, (long long)peak);
        all->least_peak_bytes = peak < all->least_peak_bytes ? peak : all->least_peak_bytes;
        CKM_I_TRY(add_entry(all, order, err));
        CKM_I_TRY(offer_plain(all, err));
    }
cleanup:
    free(order);
    return status;
}

// Cheaper first; what fits before what does not, and then the lower peak.
static int compare(const void *a, const void *b)
{
    const ckm_i_solver *x = &((const entry *)a)->solver;
    const ckm_i_solver *y = &((const entry *)b)->solver;
    bool x_fits = x->best_schedule != NULL;
    bool y_fits = y->best_schedule != NULL;
    if (x_fits != y_fits) {
        return x_fits ? -1 : 1;
    }
    int64_t left = x_fits ? x->best_cost : x->least_peak_bytes;
    int64_t right = y_fits ? y->best_cost : y->least_peak_bytes;
    return left < right ? -1 : left > right;
}

static void free_entry(entry *e)
{
    ckm_i_solver_dispose(&e->solver);
    ckm_dataflow_free(e->df);
    free(e->order);
}

// Rounds of equal time; after each the worse half leaves.
static ckm_status race(reordering *all, bool search_only, double seconds, ckm_error *err)
{
    int rounds = 0;
    for (int n = all->n_entries; n > 1; n = (n + 1) / 2) {
        rounds++;
    }
    while (all->n_entries > 1 && !should_stop(all)) {
        for (int i = 0; i < all->n_entries && !should_stop(all); i++) {
            CKM_I_CHECK(run_entry(&all->entries[i], search_only, seconds / rounds / all->n_entries, err));
        }
        qsort(all->entries, (size_t)all->n_entries, sizeof *all->entries, compare);
        int stay = (all->n_entries + 1) / 2;
        while (all->n_entries > stay) {
            free_entry(&all->entries[--all->n_entries]);
        }
    }
    return CKM_OK;
}

// Replaces all entries by one: the order of a schedule of the graph, with that schedule to start from.
static ckm_status enter_only(reordering *all, const ckm_schedule *schedule, ckm_error *err)
{
    const ckm_dataflow *df = all->outer->df;
    ckm_status status = CKM_OK;
    int32_t *order = ckm_i_malloc((size_t)df->n_ops, sizeof *order);
    if (order == NULL) {
        return ckm_i_error_memory(err);
    }
    while (all->n_entries > 0) {
        free_entry(&all->entries[--all->n_entries]);
    }
    CKM_I_TRY(ckm_i_reorder_first_order(schedule, df->n_ops, order, err));
    CKM_I_TRY(add_entry(all, order, err));
    entry *e = &all->entries[0];
    CKM_I_TRY(ckm_i_reorder_stages(e->df, order, schedule, &e->solver.best_stages, err));
cleanup:
    free(order);
    return status;
}

// One try at a better order from the best schedule: its computations are reordered to lie lower than they have to,
// and the search makes use of the room.
static ckm_status refine_once(reordering *all, int64_t round, double seconds, ckm_error *err)
{
    static const double depths[] = {0.02, 0.05, 0.01, 0.1};
    static const double heats[] = {3.0, 30.0, 1.0, 10.0, 0.3};
    ckm_schedule *reordered = NULL;
    ckm_status status = CKM_OK;
    ckm_i_order_options search = {
        .target_bytes = (int64_t)((double)all->outer->budget_bytes * (1.0 - depths[round % 4])),
        .seconds = seconds * 0.25,
        .moves = all->options.iteration_limit,
        .seed = all->outer->options->seed + 1000 + (uint64_t)round,
        .heat = heats[round % 5],
        .stop = attend_and_ask,
        .user = all,
    };
    CKM_I_TRY(ckm_i_reorder_schedule(all->outer->df, all->outer->best_schedule, &search, &reordered, err));
    CKM_I_TRY(enter_only(all, reordered, err));
    all->options.seed = search.seed;
    CKM_I_TRY(run_entry(&all->entries[0], true, seconds * 0.75, err));
cleanup:
    ckm_schedule_free(reordered);
    return status;
}

// For some seconds, or a fixed number of times when runs are to be repeatable.
static ckm_status refine(reordering *all, double seconds, ckm_error *err)
{
    enum { repeatable_rounds = 4 };
    double end = ckm_i_clock_seconds() + seconds;
    double each = fmax(seconds / 30.0, 0.3);
    while (!should_stop(all) && ckm_i_clock_seconds() < end) {
        if (all->options.iteration_limit > 0 && all->refinements >= repeatable_rounds) {
            break;
        }
        CKM_I_CHECK(refine_once(all, all->refinements++, each, err));
    }
    return CKM_OK;
}

// Order and schedule in turn; for a small graph the whole strategy on the best order, too.
static ckm_status refine_best(reordering *all, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool whole = all->outer->df->n_ops <= whole_max_ops && all->strategy->reorders_whole;
    CKM_I_TRY(refine(all, time_left(all) * (whole ? 1.0 - whole_share : 1.0), err));
    if (whole && !should_stop(all)) {
        all->options.seed = all->outer->options->seed;
        CKM_I_TRY(enter_only(all, all->outer->best_schedule, err));
        CKM_I_TRY(run_entry(&all->entries[0], false, time_left(all), err));
        CKM_I_TRY(refine(all, time_left(all), err));
    }
cleanup:
    return status;
}

// Proofs belong to strategies that are to find any; runs that are to be repeatable do without.
static ckm_status begin_proofs(reordering *all, ckm_error *err)
{
    ckm_i_solver *outer = all->outer;
    if (!all->strategy->is_thorough || !all->strategy->reorders_by_search || outer->options->iteration_limit > 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_presolve_create(outer->df, outer->budget_bytes, CKM_I_PRESOLVE_OPERATORS, &all->reduced, err));
    const ckm_dataflow *df = all->reduced != NULL ? all->reduced->reduced : outer->df;
    int64_t budget = all->reduced != NULL ? all->reduced->budget_bytes : outer->budget_bytes;
    CKM_I_CHECK(ckm_i_prover_create_open(outer, df, budget, &all->prover, err));
    return proves_concurrently(all) ? ckm_i_prover_attach(all->prover, time_left(all), err) : CKM_OK;
}

// What one thread gives to proofs.
static ckm_status prove_first(const reordering *all, ckm_error *err)
{
    bool alone = all->prover != NULL && !proves_concurrently(all);
    return alone ? ckm_i_prover_run(all->prover, proof_share * time_left(all), err) : CKM_OK;
}

// Runs the strategy on the graph's own order, entry 0. *stays: nothing cheaper than that order's bound by more than a little
// is possible in any other.
static ckm_status try_given(reordering *all, bool *stays, ckm_error *err)
{
    const ckm_i_solver *outer = all->outer;
    *stays = false;
    double worth = (double)all->given_peak_bytes * (1.0 - little_lower);
    if (all->prover == NULL || (double)all->least_peak_bytes < worth || should_stop(all)) {
        return CKM_OK;
    }
    CKM_I_CHECK(run_entry(&all->entries[0], false, given_share * time_left(all), err));
    const ckm_i_solver *given = &all->entries[0].solver;
    *stays = given->best_schedule != NULL && given->bound_cost <= outer->bound_cost * (1.0 + little_gain);
    ckm_i_solver_log(outer, CKM_LOG_INFO, "reorder: bound %.9g in the graph's order, %.9g in any%s", given->bound_cost,
                     outer->bound_cost, *stays ? ": it stays" : "");
    return CKM_OK;
}

// Leaves the graph's own order alone in the race, with the strategy itself.
static ckm_status stay(reordering *all, ckm_error *err)
{
    while (all->n_entries > 1) {
        free_entry(&all->entries[--all->n_entries]);
    }
    return should_stop(all) ? CKM_OK : run_entry(&all->entries[0], false, stay_share * time_left(all), err);
}

ckm_status ckm_i_reorder_run(ckm_i_solver *solver, const ckm_i_strategy *strategy, const ckm_i_strategy *search,
                             ckm_error *err)
{
    reordering *all = ckm_i_calloc(1, sizeof *all);
    ckm_status status = CKM_OK;
    if (all == NULL) {
        return ckm_i_error_memory(err);
    }
    double start = ckm_i_clock_seconds();
    double end = ckm_i_solver_end(solver);
    all->outer = solver;
    all->strategy = strategy;
    all->search = search;
    all->end_seconds = end;
    all->options = *solver->options;
    all->options.stop = should_stop;
    all->options.progress = watch;
    all->options.log = solver->options->log != NULL ? pass_log : NULL;
    all->options.user = all;
    // What a strategy proves of one order says nothing of the others: where it searches, that is all that counts here.
    bool search_only = strategy->reorders_by_search;
    bool stays = false;
    if (!should_stop(all)) {
        CKM_I_TRY(begin_proofs(all, err));
    }
    if (!should_stop(all)) {
        double seconds = fmin((end - start) * order_share, 0.1 + order_seconds_per_op * solver->df->n_ops);
        CKM_I_TRY(find_orders(all, search_only, seconds, err));
    }
    CKM_I_TRY(prove_first(all, err));
    CKM_I_TRY(try_given(all, &stays, err));
    if (stays) {
        CKM_I_TRY(stay(all, err));
    } else {
        CKM_I_TRY(race(all, search_only, (end - start) * race_share, err));
    }
    bool refines = search_only && solver->df->n_ops <= large_n_ops && solver->best_schedule != NULL;
    if (refines) {
        CKM_I_TRY(refine_best(all, err));
    } else if (all->n_entries > 0 && !should_stop(all)) {
        CKM_I_TRY(run_entry(&all->entries[0], search_only, time_left(all), err));
    }
cleanup:
    if (all->prover != NULL) {
        ckm_status proof = ckm_i_prover_detach(all->prover, status == CKM_OK ? err : NULL);
        status = status != CKM_OK ? status : proof;
    }
    for (int i = 0; i < all->n_entries; i++) {
        free_entry(&all->entries[i]);
    }
    ckm_i_prover_free(all->prover);
    ckm_i_presolve_free(all->reduced);
    free(all);
    return status;
}
