// SPDX-License-Identifier: Apache-2.0
// Recomputing and moving, planned together. Which storages come back by a read is chosen outside; whether and when they and all others
// come back is what the strategies decide on the graph that stands in for the choice (solve/moves/moves_graph.h), where a read costs
// a part of its transfer's time: the price of the links, a Lagrange multiplier between 0, where they are free, and 1, where nothing
// goes on concurrently. First choices are what moving alone moves, then what fills the link up to the time of the peak, those first
// that are dearest to compute for their bytes. Then a search adds what the best schedule recomputes and changes prices, of a few and
// of all; every try begins with the best schedule.
#include "solve/moving.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "solve/bounds/moving_model.h"
#include "solve/core/component_registry.h"
#include "solve/moves/moves_greedy.h"
#include "solve/moving_search.h"

const ckm_i_component ckm_i_component_transfers = {
    .name = "transfers",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "moves tensors to a second memory and back",
};

const ckm_i_component ckm_i_component_recomputing = {
    .name = "recomputing",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "with a second memory: recomputing alone, before anything moves",
};

const ckm_i_component ckm_i_component_moving_alone = {
    .name = "moving-alone",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "moves what rests, and recomputes nothing",
};

const ckm_i_component ckm_i_component_first_choices = {
    .name = "first-choices",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "chooses what moves by the links' room, then plans recomputing",
};

const ckm_i_component ckm_i_component_choices = {
    .name = "choices",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "search over what moves, together with what is recomputed",
};

const ckm_i_component ckm_i_component_moving_bound = {
    .name = "moving-bound",
    .kind = CKM_COMPONENT_BOUNDS,
    .summary = "relaxations of schedules that recompute and move",
};

// Shares of the time: for recomputing alone; then for a bound. Of what is left: for first choices; for the best of them again,
// before the search and after it. Where nothing searches, first choices have the time that it would have.
static const double plain_share = 0.15, bound_share = 0.1, first_share = 0.4, middle_share = 0.2, last_share = 0.1;

// First choices: as much as fills so much of the link's time up to the peak, or, where that is 0, what the best schedule so far moves; with what
// price, and what part of the budget is kept for what is under way.
static const struct {
    double fill, price, reserve;
} firsts[] = {{0.0, 1.0, 0.0},  {1.0, 0.05, 0.0}, {0.6, 0.05, 0.02},
              {1.5, 0.1, 0.05}, {3.0, 0.2, 0.05}, {10.0, 0.3, 0.1}};
enum { n_firsts = sizeof firsts / sizeof firsts[0] };

// Trying each of them once takes short_share of their time; the n_again best are then tried again. Where none gives a schedule, their time
// grows by the share more_time.
static const double short_share = 0.5, more_time = 1.0;
enum { n_again = 2 };

static const double reserves[] = {0.0, 0.01, 0.03, 0.06, 0.12};

// A try of the search has at least this long, and this many operators a second.
static const double least_try_seconds = 0.02, ops_per_second = 3000.0;

double ckm_i_moving_least_cost(const ckm_dataflow *df)
{
    double cost = 0.0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        cost += df->ops[v].kind == CKM_OP_LOAD ? 0.0 : (double)df->ops[v].cost;
    }
    return cost;
}

// Keeps the choice where its schedule is the cheapest that moves.
static void keep(ckm_i_moving_search *m, int64_t cost, double reserve)
{
    if (cost >= m->best_cost) {
        return;
    }
    m->best_cost = cost;
    m->best_reserve = reserve;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->best[x] = m->rate[x];
    }
}

static ckm_status try_and_keep(ckm_i_moving_search *m, double reserve, bool anew, double until, ckm_error *err)
{
    int64_t cost;
    CKM_I_CHECK(ckm_i_moving_try(m, reserve, anew, until, &cost, err));
    keep(m, cost, reserve);
    return CKM_OK;
}

// What moving alone does, where it does: a schedule at once, at budgets that recomputing does not reach among them, and a choice to go on
// from.
static ckm_status move_alone(ckm_i_moving_search *m, ckm_error *err)
{
    ckm_schedule *greedy = NULL;
    ckm_schedule *lowered = NULL;
    int64_t cost = INT64_MAX;
    bool *moved = ckm_i_malloc((size_t)m->solver->df->n_tensors, sizeof *moved);
    if (moved == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = ckm_i_moves_greedy(m->solver->df, m->can, m->solver->budget_bytes, moved, &greedy, &lowered,
                                           err);
    if (status == CKM_OK && greedy != NULL) {
        status = ckm_i_moving_offer(m->solver, &greedy, &cost, err);
        if (cost < m->steps_cost) {
            ckm_schedule_free(m->steps);
            m->steps = lowered;
            m->steps_cost = cost;
            m->only_moved = true;
            lowered = NULL;
        }
        for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
            m->rate[x] = moved[x] || (m->can[x] && ckm_i_is_loaded(m->solver->df, x)) ? firsts[0].price : -1.0;
        }
        keep(m, cost, firsts[0].reserve);
    }
    ckm_schedule_free(lowered);
    free(moved);
    return status;
}

// What the best schedule so far reads is chosen, too, so that it is one of the stand-in's.
static void choose_read(const ckm_i_moving_search *m, double price)
{
    const ckm_schedule *s = m->steps;
    for (int64_t i = 0; s != NULL && i < s->n_steps; i++) {
        int32_t x = s->steps[i].index - m->solver->df->n_ops;
        if (s->steps[i].kind == CKM_STEP_COMPUTE && x >= 0 && m->rate[x] < 0.0) {
            m->rate[x] = price;
        }
    }
}

static ckm_status try_first(ckm_i_moving_search *m, int i, double until, int64_t *cost, ckm_error *err)
{
    if (firsts[i].fill > 0.0) {
        ckm_i_moving_fill_link(m, firsts[i].price, firsts[i].fill * fmax((double)m->peak_at, 1.0));
    } else {
        for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
            m->rate[x] = m->best[x] >= 0.0 ? firsts[i].price : -1.0;
        }
    }
    if (!m->only_moved) {
        choose_read(m, firsts[i].price);
    }
    CKM_I_CHECK(ckm_i_moving_try(m, firsts[i].reserve, firsts[i].fill > 0.0, until, cost, err));
    keep(m, *cost, firsts[i].reserve);
    return CKM_OK;
}

// What the links have room for is chosen first, whatever that leaves to recompute: each way of `firsts` for a short time, then those that
// gave the cheapest schedules for longer.
static ckm_status try_first_choices(ckm_i_moving_search *m, double start, double until, ckm_error *err)
{
    int best[n_firsts] = {0};  // ways by cost
    int64_t cost[n_firsts];
    double middle = start + short_share * (until - start);
    for (int i = 0; i < n_firsts && !ckm_i_solver_should_stop(m->solver); i++) {
        CKM_I_CHECK(try_first(m, i, start + (middle - start) * (i + 1) / (double)n_firsts, &cost[i], err));
        int at = i;
        for (; at > 0 && cost[best[at - 1]] > cost[i]; at--) {
            best[at] = best[at - 1];
        }
        best[at] = i;
    }
    // Where nothing else than moving alone's schedule is known, search needs longer, and what moves most finds something first.
    bool none = m->only_moved || m->steps == NULL;
    double late = until + (none ? more_time : 0.0) * (until - start);
    for (int i = n_firsts - 1;
         none && i > 0 && (m->only_moved || m->steps == NULL) && !ckm_i_solver_should_stop(m->solver); i--) {
        int64_t again;
        CKM_I_CHECK(try_first(m, i, middle + (late - middle) * (n_firsts - i) / (n_firsts - 1.0), &again, err));
    }
    for (int i = 0; !none && i < n_again && !ckm_i_solver_should_stop(m->solver); i++) {
        int64_t again;
        CKM_I_CHECK(try_first(m, best[i], middle + (until - middle) * (i + 1) / (double)n_again, &again, err));
    }
    return CKM_OK;
}

static ckm_status search_choices(ckm_i_moving_search *m, double search_end, ckm_error *err)
{
    double seconds = fmax(least_try_seconds, m->solver->df->n_ops / ops_per_second);
    int64_t counted_cost = -1;
    int64_t tries = 0;
    while (ckm_i_clock_seconds() < search_end && !ckm_i_solver_should_stop(m->solver)) {
        if (m->solver->best_cost != counted_cost) {
            counted_cost = m->solver->best_cost;
            ckm_i_moving_count_repeats(m);
        }
        ckm_i_moving_change(m);
        double reserve = reserves[ckm_i_rng_below(&m->rng, sizeof reserves / sizeof *reserves)];
        bool same = ckm_i_rng_below(&m->rng, 2) == 0;
        CKM_I_CHECK(try_and_keep(m, same ? m->best_reserve : reserve, false,
                                 fmin(ckm_i_clock_seconds() + seconds, search_end), err));
        tries++;
    }
    ckm_i_solver_log(m->solver, CKM_LOG_INFO, "transfers: %lld choices tried, reserve %.0f %%", (long long)tries,
                     m->best_reserve * 100.0);
    return CKM_OK;
}

// The best choice again, for longer; where nothing was found by moving that is cheaper than recomputing alone, that.
static ckm_status try_best_again(ckm_i_moving_search *m, bool anew, double end, ckm_error *err)
{
    bool moves = m->best_cost < m->plain_cost;
    int64_t cost;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->rate[x] = moves ? m->best[x] : -1.0;
    }
    if (moves) {
        return try_and_keep(m, m->best_reserve, anew, end, err);
    }
    return m->plain_cost < INT64_MAX ? ckm_i_moving_try(m, 0.0, true, end, &cost, err) : CKM_OK;
}

// A part in its turn, where it is not left out.
static ckm_status take_turn(ckm_i_moving_search *m, const ckm_i_component *part, double start, double until,
                            ckm_error *err)
{
    ckm_status status;
    if (!ckm_i_component_begin(m->solver, part)) {
        return CKM_OK;
    }
    if (part == &ckm_i_component_moving_alone) {
        status = move_alone(m, err);
    } else if (part == &ckm_i_component_first_choices) {
        status = try_first_choices(m, start, until, err);
    } else {
        status = search_choices(m, until, err);
    }
    ckm_i_component_end(m->solver);
    return status;
}

static ckm_status move(ckm_i_moving_search *m, double end, ckm_error *err)
{
    const ckm_i_solver *solver = m->solver;
    double start = ckm_i_clock_seconds();
    double whole = end - start;
    // What is left out leaves its time to what follows; where nothing searches, first choices have all of it.
    bool searches = !ckm_i_component_is_left_out(solver, &ckm_i_component_choices);
    bool plans = searches || !ckm_i_component_is_left_out(solver, &ckm_i_component_first_choices);
    double first_end = start + (searches ? first_share : 1.0 - last_share) * whole;
    CKM_I_CHECK(take_turn(m, &ckm_i_component_moving_alone, start, start, err));
    CKM_I_CHECK(take_turn(m, &ckm_i_component_first_choices, start, first_end, err));
    if (searches) {
        CKM_I_CHECK(try_best_again(m, true, first_end + middle_share * whole, err));
        CKM_I_CHECK(take_turn(m, &ckm_i_component_choices, start, end - last_share * whole, err));
    }
    if (plans) {
        CKM_I_CHECK(try_best_again(m, !searches, end, err));
    }
    return CKM_OK;
}

static ckm_status run_moving(ckm_i_moving_search *m, ckm_error *err)
{
    ckm_i_solver *solver = m->solver;
    double start = ckm_i_clock_seconds();
    double end = ckm_i_solver_end(solver);
    bool moves = !ckm_i_component_is_left_out(solver, &ckm_i_component_transfers);
    double first_end = moves ? start + plain_share * (end - start) : end - bound_share * (end - start);
    ckm_status status = ckm_i_moving_look_at(m, err);
    if (status == CKM_OK && ckm_i_component_begin(solver, &ckm_i_component_recomputing)) {
        status = ckm_i_moving_try(m, 0.0, true, first_end, &m->plain_cost, err);
        ckm_i_component_end(solver);
    }
    // Before the search, which ends where it comes to what is proven.
    if (status == CKM_OK && ckm_i_component_begin(solver, &ckm_i_component_moving_bound)) {
        double until = ckm_i_clock_seconds() + bound_share * (end - start);
        status = ckm_i_moving_bound(solver, fmin(until, end), err);
        ckm_i_component_end(solver);
    }
    if (status == CKM_OK && ckm_i_component_begin(solver, &ckm_i_component_transfers)) {
        status = move(m, end, err);
        ckm_i_component_end(solver);
    }
    return status;
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    size_t n = (size_t)solver->df->n_tensors;
    ckm_status status = CKM_OK;
    ckm_i_moving_search m = {.solver = solver,
                             .strategy = ckm_i_strategy_find(solver->options->strategy),
                             .rng = {solver->options->seed},
                             .best_cost = INT64_MAX,
                             .plain_cost = INT64_MAX,
                             .steps_cost = INT64_MAX,
                             .best_reserve = firsts[0].reserve};
    m.can = ckm_i_malloc(n, sizeof *m.can);
    m.price = ckm_i_malloc(n, sizeof *m.price);
    m.rate = ckm_i_malloc(n, sizeof *m.rate);
    m.best = ckm_i_malloc(n, sizeof *m.best);
    m.order = ckm_i_malloc(n, sizeof *m.order);
    m.repeated = ckm_i_calloc(n, sizeof *m.repeated);
    m.out_time = ckm_i_calloc(n, sizeof *m.out_time);
    m.made_at = ckm_i_calloc(n, sizeof *m.made_at);
    if (m.can == NULL || m.price == NULL || m.rate == NULL || m.best == NULL || m.order == NULL || m.repeated == NULL ||
        m.out_time == NULL || m.made_at == NULL) {
        status = ckm_i_error_memory(err);
    } else {
        status = run_moving(&m, err);
    }
    ckm_schedule_free(m.steps);
    free(m.can);
    free(m.price);
    free(m.rate);
    free(m.best);
    free(m.order);
    free(m.repeated);
    free(m.out_time);
    free(m.made_at);
    return status;
}

const ckm_i_strategy ckm_i_strategy_moving = {
    .name = "transfers",
    .summary = "recomputing and moving to a second memory, together",
    .run = run,
    .owns_plain = true,
};
