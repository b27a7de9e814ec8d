// SPDX-License-Identifier: Apache-2.0
// Simulated annealing on S with an oscillating penalty for bytes over the budget: the course of rounds, what happens
// between them, results.
#include "solve/search/local_search.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/core/component_registry.h"
#include "solve/search/search_pool.h"
#include "solve/search/neighbourhood.h"
#include "solve/search/search_team.h"

// Start temperatures of successive rounds, in mean operator costs.
static const double heat[] = {0.3, 0.1, 0.3, 1.0, 0.1, 0.03, 0.3, 3.0};
enum { n_heat = sizeof heat / sizeof heat[0] };

// States per tensor in the descent, and in the first round; later rounds are longer by this factor.
enum { descent = 5, first_round = 200 };
static const double longer = 1.2;

// A round that begins with what the relaxation suggests begins no hotter than this, in mean operator costs.
static const double fresh_heat = 0.03;

// Where there is not the time for this many first rounds, they are shorter, down to this many states per tensor.
enum { early_rounds = 4, shortest_round = 20 };

// Time to repair what a round ends with: a share of what there is, within limits.
static const double repair_share = 0.05, shortest_repair = 0.05, longest_repair = 0.5;

// A schedule that computes everything this many times is no start: each state near it takes as many times longer to look at.
static const double most_times = 16.0;

// Above this many operators results are handed in as steps: matrices take memory in the square of it.
static const int32_t max_matrix_ops = 4000;

const ckm_i_component ckm_i_component_local_search = {
    .name = "local-search",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "annealing on what is held in each stage, in several threads",
};
const ckm_i_component ckm_i_component_rounding = {
    .name = "rounding",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "what relaxations hold, brought within the budget, where search goes on",
};
const ckm_i_component ckm_i_component_recombination = {
    .name = "recombination",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "the best rows of several states of search, by a shortest path",
};

typedef struct course {
    ckm_i_solver *solver;
    const ckm_i_local_search_options *options;
    ckm_i_team *team;
    ckm_i_pool pool;  // the best first, while there is any
    ckm_i_neighbourhood nb;
    ckm_i_stages *stages;  // to hand results in; NULL: as steps
    double start_seconds;
    int64_t states_left;     // -1: no limit
    ckm_i_spans *suggested;  // to be looked at between rounds; NULL: nothing
    ckm_i_snapshot fresh;    // as it was suggested, for the next round to begin from
} course;

static const ckm_i_snapshot *best_of(const course *c)
{
    return c->pool.n > 0 && c->pool.at[0].excess <= 0.5 ? &c->pool.at[0] : NULL;
}

static int64_t best_cost(const course *c)
{
    return best_of(c) != NULL ? best_of(c)->cost : INT64_MAX;
}

// Hands in the state of a searcher when the solver knows of nothing as good.
static ckm_status hand_in(course *c, ckm_i_search *s, const char *source, ckm_error *err)
{
    ckm_i_solver *solver = c->solver;
    if (s->excess > 0.5 || (solver->best_schedule != NULL && s->total_cost >= solver->best_cost)) {
        return CKM_OK;
    }
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    if (c->stages != NULL) {
        ckm_i_search_to_stages(s, c->stages);
        CKM_I_TRY(ckm_i_solver_offer(solver, c->stages, source, NULL, NULL, err));
    } else {
        CKM_I_TRY(ckm_i_search_emit(s, &schedule, err));
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &schedule, source, NULL, err));
    }
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

static ckm_status add_to_pool(course *c, const ckm_i_search *s, ckm_error *err)
{
    ckm_i_snapshot snapshot = {0};
    CKM_I_CHECK(ckm_i_snapshot_take(s->held, s->df->n_tensors, s->total_cost, s->excess > 0.5 ? s->excess : 0.0,
                                    &snapshot, err));
    ckm_i_pool_add(&c->pool, &snapshot);
    return CKM_OK;
}

// Lets the concurrent work go on, and takes a suggestion where that has one.
static void attend(void *context)
{
    course *c = context;
    ckm_i_solver_attend(c->solver);
    if (c->suggested == NULL && c->options->suggest != NULL) {
        c->suggested = c->options->suggest(c->options->context);
    }
}

// For a suggestion everything else is cut short.
static bool should_end(void *context)
{
    const course *c = context;
    return ckm_i_solver_should_stop(c->solver) || c->suggested != NULL;
}

// Both, for what takes long between rounds.
static bool attend_and_ask(void *context)
{
    attend(context);
    return should_end(context);
}

// What the searchers ended with, and the best that they met, goes into the pool.
static ckm_status gather(course *c, int n, ckm_error *err)
{
    ckm_status status = CKM_OK;
    for (int i = 0; i < n; i++) {
        ckm_i_searcher *searcher = &c->team->searchers[i];
        CKM_I_TRY(add_to_pool(c, searcher->s, err));
        CKM_I_TRY(ckm_i_neighbourhood_meet(&c->nb, searcher->s, err));
        if (searcher->found) {
            CKM_I_TRY(ckm_i_search_restore(searcher->s, err));
            CKM_I_TRY(hand_in(c, searcher->s, "local-search", err));
            CKM_I_TRY(add_to_pool(c, searcher->s, err));
        }
    }
cleanup:
    return status;
}

// The best combination of the pool, into the pool as well.
static ckm_status combine(course *c, ckm_error *err)
{
    const ckm_i_solver *solver = c->solver;
    ckm_i_search *s = c->team->searchers[0].s;
    ckm_i_snapshot child = {0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_recombine(solver->df, solver->budget_bytes, c->pool.at, c->pool.n, attend_and_ask, c, &child, err));
    if (child.n_tensors > 0 && ckm_i_snapshot_better(&child, &c->pool.at[0])) {
        ckm_i_solver_log(solver, CKM_LOG_DEBUG, "recombination: %lld from %lld", (long long)child.cost,
                         (long long)c->pool.at[0].cost);
        CKM_I_TRY(ckm_i_snapshot_load(&child, s, err));
        CKM_I_TRY(hand_in(c, s, "recombination", err));
        CKM_I_TRY(add_to_pool(c, s, err));
    }
cleanup:
    ckm_i_snapshot_dispose(&child);
    return status;
}

// Tries what the others in the pool do otherwise on the best one.
static ckm_status cross(course *c, ckm_error *err)
{
    ckm_i_search *s = c->team->searchers[0].s;
    ckm_i_pool *pool = &c->pool;
    bool improved = false;
    ckm_status status = CKM_OK;
    int64_t before = pool->at[0].cost;
    CKM_I_TRY(ckm_i_snapshot_load(&pool->at[0], s, err));
    for (int32_t k = 1; k < pool->n && !attend_and_ask(c); k++) {
        bool now = false;
        CKM_I_TRY(ckm_i_cross(s, &pool->at[k], attend_and_ask, c, &now, err));
        improved = improved || now;
    }
    if (improved) {
        ckm_i_solver_log(c->solver, CKM_LOG_DEBUG, "crossing: %lld from %lld", (long long)s->total_cost,
                         (long long)before);
        CKM_I_TRY(hand_in(c, s, "recombination", err));
        CKM_I_TRY(add_to_pool(c, s, err));
    }
cleanup:
    return status;
}

// The best that computes again only what recent rounds did. By the clock, so not where runs have to repeat.
static ckm_status join(course *c, ckm_error *err)
{
    ckm_i_search *s = c->team->searchers[0].s;
    bool improved = false;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_neighbourhood_improve(&c->nb, c->solver, &c->pool, s, c->team->deadline_seconds, &improved, err));
    if (improved) {
        CKM_I_TRY(hand_in(c, s, "neighbourhood", err));
        CKM_I_TRY(add_to_pool(c, s, err));
    }
cleanup:
    return status;
}

// Takes in a schedule that somebody else has handed in meanwhile, unless holding everything is a better start.
static ckm_status adopt(course *c, ckm_error *err)
{
    const ckm_i_solver *solver = c->solver;
    ckm_i_search *s = c->team->searchers[0].s;
    ckm_status status = CKM_OK;
    double most = most_times * (double)solver->df->total_cost;
    if (solver->best_schedule != NULL && solver->best_cost < best_cost(c) && (double)solver->best_cost <= most) {
        CKM_I_TRY(ckm_i_search_load(s, solver->best_schedule, err));
        CKM_I_TRY(hand_in(c, s, "local-search", err));
        CKM_I_TRY(add_to_pool(c, s, err));
    }
cleanup:
    return status;
}

// Brings what was suggested within the budget, and takes it in.
static ckm_status follow(course *c, ckm_error *err)
{
    ckm_i_searcher *searcher = &c->team->searchers[0];
    ckm_status status = CKM_OK;
    while (c->suggested != NULL) {
        CKM_I_TRY(ckm_i_search_take(searcher->s, c->suggested, err));
        ckm_i_spans_free(c->suggested, c->solver->df->n_tensors);
        c->suggested = NULL;
        ckm_i_snapshot_dispose(&c->fresh);
        CKM_I_TRY(ckm_i_snapshot_take(searcher->s->held, searcher->s->df->n_tensors, searcher->s->total_cost,
                                      searcher->s->excess, &c->fresh, err));
        ckm_i_mover_repair(&searcher->mover, ckm_i_team_repair_deadline(c->team));
        if (searcher->s->failed) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        CKM_I_TRY(hand_in(c, searcher->s, "relaxation", err));
        CKM_I_TRY(add_to_pool(c, searcher->s, err));
    }
cleanup:
    return status;
}

static ckm_status run_component(course *c, const ckm_i_component *component,
                                ckm_status (*work)(course *c, ckm_error *err), ckm_error *err)
{
    if (!ckm_i_component_begin(c->solver, component)) {
        return CKM_OK;
    }
    ckm_status status = work(c, err);
    ckm_i_component_end(c->solver);
    return status;
}

// What happens between two rounds, on the calling thread alone.
static ckm_status meet(course *c, int n, ckm_error *err)
{
    ckm_status status = CKM_OK;
    CKM_I_TRY(gather(c, n, err));
    if (c->suggested != NULL) {
        CKM_I_TRY(run_component(c, &ckm_i_component_rounding, follow, err));
    }
    if (c->pool.n > 1) {
        CKM_I_TRY(run_component(c, &ckm_i_component_recombination, combine, err));
        CKM_I_TRY(run_component(c, &ckm_i_component_crossing, cross, err));
    }
    if (c->team->by_clock) {
        CKM_I_TRY(run_component(c, &ckm_i_component_neighbourhood, join, err));
    }
    CKM_I_TRY(adopt(c, err));
cleanup:
    return status;
}

// A schedule of another budget, brought within this one.
static ckm_status follow_hint(course *c, ckm_error *err)
{
    ckm_i_searcher *searcher = &c->team->searchers[0];
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_search_load(searcher->s, c->solver->hint, err));
    ckm_i_mover_repair(&searcher->mover, ckm_i_team_repair_deadline(c->team));
    if (searcher->s->failed) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(hand_in(c, searcher->s, "local-search", err));
    CKM_I_TRY(add_to_pool(c, searcher->s, err));
cleanup:
    return status;
}

static ckm_status set_up(course *c, ckm_error *err)
{
    const ckm_dataflow *df = c->solver->df;
    ckm_status status = CKM_OK;
    int n = c->options->threads > 1 ? c->options->threads : 1;
    CKM_I_TRY(ckm_i_team_create(c->solver, n, &c->team, err));
    if (df->n_ops <= max_matrix_ops) {
        CKM_I_TRY(ckm_i_stages_create(df, &c->stages, err));
    }
    ckm_i_searcher *first = &c->team->searchers[0];
    c->team->attend = attend;
    c->team->should_end = should_end;
    c->team->context = c;
    c->team->by_clock = c->states_left < 0;
    c->team->repair_seconds = fmin(fmax(repair_share * c->options->seconds, shortest_repair), longest_repair);
    c->team->deadline_seconds = fmin(c->start_seconds + c->options->seconds, c->solver->deadline_seconds);
    c->team->price = ckm_i_mover_price(&first->mover);
    if (c->team->price <= 0.0) {
        double budget = c->solver->budget_bytes > 0 ? (double)c->solver->budget_bytes : 1.0;
        c->team->price = (double)df->total_cost / budget / df->n_ops;
    }
    for (int i = 0; i < n; i++) {
        c->team->searchers[i].mover.penalty = c->team->price;
    }
    CKM_I_TRY(hand_in(c, first->s, "local-search", err));
    if (c->solver->hint != NULL) {
        CKM_I_TRY(follow_hint(c, err));
    }
    CKM_I_TRY(adopt(c, err));
    for (int i = 1; i < n && c->pool.n > 0; i++) {
        CKM_I_TRY(ckm_i_snapshot_load(&c->pool.at[0], c->team->searchers[i].s, err));
    }
cleanup:
    return status;
}

// Of the states that are left, those of one of n searchers in a round of at most this many.
static int64_t share_of_states(const course *c, double states, int n)
{
    double left = c->states_left < 0 ? states : ceil((double)c->states_left / n);
    return (int64_t)fmax(fmin(states, left), 1.0);
}

static ckm_status run_round(course *c, int n, ckm_error *err)
{
    ckm_i_searcher *searchers = c->team->searchers;
    int64_t before = 0;
    int64_t after = 0;
    for (int i = 0; i < n; i++) {
        before += searchers[i].mover.tried;
        searchers[i].best_cost = best_cost(c);
        searchers[i].found = false;
        ckm_i_searcher_keep(&searchers[i]);
    }
    ckm_status status = ckm_i_team_anneal(c->team, n, err);
    for (int i = 0; i < n; i++) {
        after += searchers[i].mover.tried;
    }
    if (c->states_left >= 0) {
        c->states_left = c->states_left > after - before ? c->states_left - (after - before) : 0;
    }
    return status;
}

// States that each of n searchers can still look at.
static double states_in_reach(const course *c, int n)
{
    if (c->states_left >= 0) {
        return ceil((double)c->states_left / n);
    }
    double now = ckm_i_clock_seconds();
    double rate = (double)c->team->searchers[0].mover.tried / fmax(now - c->start_seconds, 1e-3);
    return rate * (c->team->deadline_seconds - now);
}

// Where searcher i starts its round, the j-th of all, from.
static ckm_status start_searcher(course *c, int i, int64_t j, double share, ckm_error *err)
{
    ckm_i_searcher *searcher = &c->team->searchers[i];
    ckm_status status = CKM_OK;
    if (j % 4 == 3) {
        status = ckm_i_search_hold_all(searcher->s, err);  // now and then from scratch, for diversity
    } else if (best_of(c) != NULL) {
        status = ckm_i_snapshot_load(best_of(c), searcher->s, err);
    }
    // Every other round begins lenient, to get elsewhere; the rest with the penalty reached, since the price
    // sampled may be so far off that a round ends before the penalty has come back. So does a round too short
    // for that, and every one until a schedule fits.
    if (j % 2 == 1 && share >= 1.0 && best_of(c) != NULL) {
        searcher->mover.penalty = c->team->price;
    }
    return status;
}

// The first searcher begins with what was suggested, if anything was since the last round: as it was, since bringing it
// within the budget one tensor after the other costs more than looking for better changes with a penalty.
static ckm_status start_fresh(course *c, double hot, ckm_error *err)
{
    ckm_i_searcher *searcher = &c->team->searchers[0];
    if (c->fresh.n_tensors == 0) {
        return CKM_OK;
    }
    ckm_status status = ckm_i_snapshot_load(&c->fresh, searcher->s, err);
    ckm_i_snapshot_dispose(&c->fresh);
    searcher->hot = fmin(searcher->hot, hot);
    searcher->mover.penalty = fmax(searcher->mover.penalty, c->team->price);
    return status;
}

static ckm_status run_rounds(course *c, ckm_error *err)
{
    const ckm_dataflow *df = c->solver->df;
    ckm_i_searcher *searchers = c->team->searchers;
    ckm_status status = CKM_OK;
    double mean_cost = (double)df->total_cost / df->n_ops;
    double cold = mean_cost * 1e-4 + 1e-9;
    int32_t n_candidates = searchers[0].mover.n_candidates;
    double full_round = (double)first_round * n_candidates;
    int64_t rounds = 0;  // of all searchers
    // Straight down, so that there is something early.
    for (int i = 0; i < c->team->n; i++) {
        searchers[i].hot = searchers[i].cold = cold;
        searchers[i].states = share_of_states(c, (double)descent * n_candidates, c->team->n);
    }
    CKM_I_TRY(run_round(c, c->team->n, err));
    CKM_I_TRY(meet(c, c->team->n, err));
    double round_states = fmin(
        full_round, fmax(states_in_reach(c, c->team->n) / (double)early_rounds, (double)shortest_round * n_candidates));
    while (c->states_left != 0 && !ckm_i_solver_should_stop(c->solver)) {
        if (c->states_left < 0 && ckm_i_clock_seconds() >= c->team->deadline_seconds) {
            break;
        }
        if (c->options->give_up != NULL && ckm_i_clock_seconds() - c->start_seconds >= c->options->trial_seconds &&
            c->options->give_up(c->solver)) {
            break;
        }
        int elsewhere = c->options->elsewhere != NULL ? c->options->elsewhere(c->options->context) : 0;
        int n = c->team->n > elsewhere ? c->team->n - elsewhere : 1;
        double reach = states_in_reach(c, n);
        // A short round, or one that time cuts short, cannot cool from as high up.
        double share = fmin(fmax(fmin(round_states, reach) / fmax(round_states, full_round), 0.001), 1.0);
        for (int i = 0; i < n; i++) {
            CKM_I_TRY(start_searcher(c, i, rounds, share, err));
            searchers[i].hot = mean_cost * heat[rounds++ % n_heat] * share + 1e-9;
            searchers[i].states = share_of_states(c, round_states, n);
        }
        CKM_I_TRY(start_fresh(c, mean_cost * fresh_heat * share + 1e-9, err));
        CKM_I_TRY(run_round(c, n, err));
        CKM_I_TRY(meet(c, n, err));
        round_states *= longer;
    }
cleanup:
    return status;
}

static ckm_status run(ckm_i_solver *solver, const ckm_i_local_search_options *options, ckm_error *err)
{
    course c = {
        .solver = solver,
        .options = options,
        .start_seconds = ckm_i_clock_seconds(),
        .states_left = options->moves > 0 ? options->moves : -1,
    };
    ckm_status status = CKM_OK;
    int64_t states = 0;
    CKM_I_TRY(set_up(&c, err));
    if (c.team->searchers[0].mover.n_candidates > 0) {
        CKM_I_TRY(run_rounds(&c, err));
    }
    for (int i = 0; i < c.team->n; i++) {
        states += c.team->searchers[i].mover.tried;
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "local search: %lld states in %.2f s", (long long)states,
                     ckm_i_clock_seconds() - c.start_seconds);
cleanup:
    ckm_i_spans_free(c.suggested, solver->df->n_tensors);
    ckm_i_snapshot_dispose(&c.fresh);
    ckm_i_team_free(c.team);
    ckm_i_neighbourhood_dispose(&c.nb);
    ckm_i_pool_dispose(&c.pool);
    ckm_i_stages_free(c.stages);
    return status;
}

ckm_status ckm_i_local_search(ckm_i_solver *solver, const ckm_i_local_search_options *options, ckm_error *err)
{
    if (!ckm_i_component_begin(solver, &ckm_i_component_local_search)) {
        return CKM_OK;
    }
    ckm_status status = run(solver, options, err);
    ckm_i_component_end(solver);
    return status;
}

ckm_status ckm_i_local_search_briefly(ckm_i_solver *solver, ckm_error *err)
{
    double left = solver->deadline_seconds - ckm_i_clock_seconds();
    ckm_i_local_search_options search = CKM_I_LOCAL_SEARCH_OPTIONS_INIT;
    search.seconds = fmin(isfinite(left) ? left * 0.1 : 10.0, 0.2 + solver->df->n_ops * 0.02);
    search.moves = solver->options->iteration_limit;
    return ckm_i_local_search(solver, &search, err);
}
