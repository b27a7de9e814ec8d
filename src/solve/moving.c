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
#include "base/rng.h"
#include "schedule/schedule.h"
#include "solve/bounds/moving_model.h"
#include "solve/core/component_registry.h"
#include "solve/moves/moves_expand.h"
#include "solve/moves/moves_greedy.h"
#include "solve/moves/moves_lift.h"
#include "solve/presolve/presolve.h"
#include "solve/solve_above.h"

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

// Stand-ins are searched, not proven: nothing is, for their bounds are none of the graph's. Where a schedule is there to begin with, nothing
// begins anew.
static const char no_proofs[] = "relaxations,branching,programs,single-cut,ilp",
                  search_alone[] = "relaxations,branching,programs,single-cut,ilp,chain,chain-blocks,runs";

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

static const double prices[] = {0.02, 0.05, 0.1, 0.3, 1.0}, reserves[] = {0.0, 0.01, 0.03, 0.06, 0.12};

// A try of the search makes a few storages dearer by the first factor, or all of them by one of the others, up to a limit.
static const double dearer = 4.0, factors[] = {0.5, 0.7, 1.4, 2.0}, dearest = 3.0;

// Budgets up to this many times the floor are near it: search on what is held may find nothing there.
static const double near_floor = 1.4;

// A try of the search has at least this long, and this many operators a second.
static const double least_try_seconds = 0.02, ops_per_second = 3000.0;

// A storage, and what its operator costs for each unit of its transfer's time.
typedef struct candidate {
    double worth;
    int32_t storage;
} candidate;

typedef struct moving {
    ckm_i_solver *solver;
    const ckm_i_strategy *strategy;
    ckm_i_rng rng;
    bool *can;       // by storage
    int64_t *price;  // by storage: of the choice at hand; -1: not chosen
    double *rate;    // by storage: the same as a part of its transfer's time; below 0: not chosen
    double *best;    // by storage: the same of the best choice so far
    double best_reserve;
    int64_t best_cost;    // of the schedules that move; INT64_MAX: none
    int64_t plain_cost;   // of the one that only recomputes; INT64_MAX: none
    ckm_schedule *steps;  // of the stand-in that gave the cheapest schedule (solve/moves/moves_lift.h); NULL: none yet
    int64_t steps_cost;
    bool only_moved;   // they come from moving alone: too dear to begin with where something may be found anew
    candidate *order;  // storages that can be moved, dearest for their bytes first
    int32_t n_order;
    int64_t *repeated;  // by storage: what the best schedule spends on computing it again
    int64_t *out_time;  // by storage: of its transfer; and when it is made without rematerialization
    int64_t *made_at;
    int64_t peak_at;  // when the run without rematerialization has its peak
} moving;

double ckm_i_moving_least_cost(const ckm_dataflow *df)
{
    double cost = 0.0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        cost += df->ops[v].kind == CKM_OP_LOAD ? 0.0 : (double)df->ops[v].cost;
    }
    return cost;
}

// The schedule with its transfers waited for at once, and with them spread over time. *cost is the lesser, of those that fit. Takes
// ownership of *taken, which is NULL afterwards, on any status.
static ckm_status offer_moves(ckm_i_solver *solver, ckm_schedule **taken, int64_t *cost, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *plain = *taken;
    ckm_schedule *overlapped = NULL;
    ckm_simulation facts;
    *taken = NULL;
    int64_t *timeline = ckm_i_malloc((size_t)plain->n_steps, sizeof *timeline);
    if (timeline == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    // Illegal where the stand-in's schedule reads late, or copies exceed the second memory: it is left.
    if (ckm_i_schedule_try(solver->df, plain, timeline, &facts, NULL) != CKM_OK ||
        facts.peak_bytes > solver->budget_bytes) {
        goto cleanup;
    }
    *cost = facts.cost;
    if (plain->n_transfers == 0) {
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &plain, "transfers", NULL, err));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_moves_overlap(solver->df, plain, timeline, solver->budget_bytes, &overlapped, err));
    CKM_I_TRY(ckm_i_schedule_try(solver->df, overlapped, NULL, &facts, err));
    bool better = facts.cost <= *cost && facts.peak_bytes <= solver->budget_bytes;
    *cost = better ? facts.cost : *cost;
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, better ? &overlapped : &plain, "transfers", NULL, err));
cleanup:
    free(timeline);
    ckm_schedule_free(overlapped);
    ckm_schedule_free(plain);
    return status;
}

// The same of a stand-in's schedule.
static ckm_status offer(ckm_i_solver *solver, const ckm_i_moves_graph *m, const ckm_schedule *from, int64_t *cost,
                        ckm_error *err)
{
    ckm_schedule *plain = NULL;
    CKM_I_CHECK(ckm_i_moves_expand(m, from, solver->budget_bytes, &plain, err));
    return offer_moves(solver, &plain, cost, err);
}

// A stand-in being solved.
typedef struct trial {
    moving *m;
    ckm_i_moves_graph stand_in;
    ckm_i_solver inner;
    double until;
    bool anew;
    int64_t taken;  // cost in the stand-in of the last schedule that was looked at; -1: none
    int64_t cost;   // the least with transfers; INT64_MAX: none
    ckm_status status;
    ckm_error error;
} trial;

static bool should_stop(void *user)
{
    const trial *t = user;
    return t->status != CKM_OK || ckm_i_clock_seconds() >= t->until || ckm_i_solver_should_stop(t->m->solver);
}

// Every schedule that is the stand-in's cheapest so far is tried with transfers: prices are a guess, and a later one may be dearer.
static ckm_status take(trial *t, ckm_error *err)
{
    moving *m = t->m;
    int64_t cost = INT64_MAX;
    if (t->inner.best_schedule == NULL || (t->taken >= 0 && t->inner.best_cost >= t->taken)) {
        return CKM_OK;
    }
    t->taken = t->inner.best_cost;
    CKM_I_CHECK(offer(m->solver, &t->stand_in, t->inner.best_schedule, &cost, err));
    t->cost = cost < t->cost ? cost : t->cost;
    if (cost < m->steps_cost) {
        ckm_schedule_free(m->steps);
        m->steps = NULL;
        m->steps_cost = cost;
        m->only_moved = m->only_moved && !t->anew;
        return ckm_i_moves_lower(&t->stand_in, t->inner.best_schedule, &m->steps, err);
    }
    return CKM_OK;
}

static void watch(const ckm_progress *progress, void *user)
{
    trial *t = user;
    (void)progress;
    t->status = t->status == CKM_OK ? take(t, &t->error) : t->status;
}

// The best schedule so far, where it reads nothing else than is chosen here: to begin with, or, where it is over the stand-in's budget, to come
// from.
static ckm_status offer_start(const moving *m, ckm_i_solver *inner, const ckm_i_moves_graph *stand_in,
                              ckm_schedule **hint, ckm_error *err)
{
    ckm_simulation facts;
    if (m->steps == NULL) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_moves_lift(stand_in, m->steps, hint, err));
    // The read right after an operator may take more room than its output had in place.
    if (*hint != NULL && ckm_i_schedule_try(inner->df, *hint, NULL, &facts, NULL) != CKM_OK) {
        ckm_schedule_free(*hint);
        *hint = NULL;
    } else if (*hint != NULL && facts.peak_bytes <= inner->budget_bytes) {
        return ckm_i_solver_offer_schedule(inner, hint, "transfers", NULL, err);
    }
    inner->hint = *hint;
    return CKM_OK;
}

// Solves the stand-in of the choice at hand until then: anew, with the best schedule so far as a rival, or by search from that alone. *cost is
// that of the cheapest schedule it gives, or INT64_MAX.
static ckm_status try_choice(moving *m, double reserve, bool anew, double until, int64_t *cost, ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_dataflow *df = m->solver->df;
    trial t = {.m = m, .until = until, .anew = anew, .taken = -1, .cost = INT64_MAX, .error = CKM_ERROR_INIT};
    ckm_i_solver *inner = &t.inner;
    ckm_solve_options options = *m->solver->options;
    ckm_schedule *hint = NULL;
    ckm_i_accounts accounts;
    options.stop = should_stop;
    options.user = &t;
    options.log = NULL;
    options.progress = NULL;
    options.start = NULL;
    options.without = no_proofs;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->price[x] = m->rate[x] >= 0.0 ? (int64_t)(m->rate[x] * (double)m->out_time[x]) : -1;
    }
    *cost = INT64_MAX;
    double room = (double)(m->solver->budget_bytes - df->resident_bytes);
    int64_t budget = m->solver->budget_bytes - (int64_t)(reserve * room);
    CKM_I_CHECK(ckm_i_moves_graph_make(df, m->price, &t.stand_in, err));
    ckm_i_solver_init(inner, t.stand_in.stand_in, &options, budget);
    ckm_i_solver_set_slice(inner, m->solver, until);
    inner->proven_elsewhere = !anew;
    if (budget >= t.stand_in.stand_in->floor_bytes) {
        CKM_I_TRY(anew && m->only_moved ? CKM_OK : offer_start(m, inner, &t.stand_in, &hint, err));
        bool begins = !anew && (inner->best_schedule != NULL || hint != NULL);
        int64_t known_cost = m->steps_cost;
        CKM_I_TRY(take(&t, err));
        t.cost = t.cost < known_cost ? t.cost : INT64_MAX;
        options.progress = watch;
        CKM_I_TRY(ckm_i_accounts_init(&accounts, begins ? search_alone : no_proofs, inner, err));
        inner->accounts = &accounts;
        CKM_I_TRY(ckm_i_solver_offer_plain(inner, NULL, err));
        inner->is_near_floor = !begins && inner->best_schedule == NULL &&
                               (double)budget < near_floor * (double)inner->df->floor_bytes;
        CKM_I_TRY(begins ? CKM_OK : ckm_i_quick_run(inner, 0.3 * fmax(until - ckm_i_clock_seconds(), 0.0), 0.02, err));
        CKM_I_TRY(ckm_i_presolve_run(inner, m->strategy, err));
    }
    CKM_I_TRY(take(&t, err));
    if (t.status != CKM_OK) {
        status = t.status;
        if (err != NULL) {
            *err = t.error;
        }
    }
    *cost = t.cost;
cleanup:
    ckm_i_solver_dispose(inner);
    ckm_schedule_free(hint);
    ckm_i_moves_graph_dispose(&t.stand_in);
    return status;
}

// Keeps the choice where its schedule is the cheapest that moves.
static void keep(moving *m, int64_t cost, double reserve)
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

static int by_worth(const void *left, const void *right)
{
    const candidate *a = left;
    const candidate *b = right;
    return a->worth != b->worth ? (a->worth > b->worth ? -1 : 1)
                                : (a->storage > b->storage) - (a->storage < b->storage);
}

// Facts about the storages, and the order in which they are chosen first.
static ckm_status look_at(moving *m, ckm_error *err)
{
    const ckm_dataflow *df = m->solver->df;
    ckm_status status = CKM_OK;
    ckm_schedule *plain = NULL;
    int64_t *timeline = NULL;
    ckm_simulation facts;
    int64_t now = 0;
    ckm_i_moves_which(df, m->can);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *own = &df->tensors[x];
        m->rate[x] = m->best[x] = -1.0;
        bool loaded = ckm_i_is_loaded(df, x);
        m->can[x] = m->can[x] &&
                    ckm_i_transfer_cost(df, loaded ? ckm_i_bytes_in(df, x) : own->bytes, !loaded, &m->out_time[x]);
        if (m->can[x]) {
            const ckm_i_dataflow_op *op = &df->ops[own->producer];
            double worth = op->recomputable ? (double)op->cost / fmax((double)m->out_time[x], 1.0) : INFINITY;
            m->order[m->n_order++] = (candidate){worth, x};
        }
    }
    if (m->n_order > 0) {
        qsort(m->order, (size_t)m->n_order, sizeof *m->order, by_worth);
    }
    CKM_I_TRY(ckm_schedule_baseline(df, &plain, err));
    timeline = ckm_i_malloc((size_t)plain->n_steps, sizeof *timeline);
    if (timeline == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_simulate(df, plain, timeline, &facts, err));
    for (int64_t i = 0; i < plain->n_steps; i++) {
        const ckm_i_step *step = &plain->steps[i];
        m->peak_at = i == facts.peak_step ? now : m->peak_at;
        if (step->kind == CKM_STEP_COMPUTE) {
            const ckm_i_dataflow_op *op = &df->ops[step->index];
            now += op->cost;
            for (int32_t k = 0; k < op->n_outputs; k++) {
                m->made_at[op->outputs[k]] = now;
            }
        }
    }
cleanup:
    free(timeline);
    ckm_schedule_free(plain);
    return status;
}

// Chooses in order as long as all ways out could be done by `until`, those made late included: what is made in the last part of that
// time must leave in it.
static void fill_link(const moving *m, double price, double until)
{
    enum { n_parts = 64 };
    double load[n_parts] = {0.0};
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->rate[x] = -1.0;
    }
    for (int32_t i = 0; i < m->n_order; i++) {
        int32_t x = m->order[i].storage;
        double made = (double)m->made_at[x];
        if (ckm_i_is_loaded(m->solver->df, x)) {  // never leaves
            m->rate[x] = price;
            continue;
        }
        if (made >= until) {
            continue;
        }
        int part = (int)(made / until * (double)n_parts);
        double takes = (double)m->out_time[x];
        double after = takes;
        bool fits = true;
        for (int k = n_parts - 1; k >= 0; k--) {
            after += load[k];
            fits = fits && (k > part || after <= until * (double)(n_parts - k) / (double)n_parts);
        }
        if (fits) {
            load[part] += takes;
            m->rate[x] = price;
        }
    }
}

// What the best schedule spends on each storage again.
static void count_repeats(const moving *m)
{
    const ckm_dataflow *df = m->solver->df;
    const ckm_schedule *s = m->solver->best_schedule;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->repeated[x] = m->can[x] && !ckm_i_is_loaded(df, x) ? -df->ops[df->tensors[x].producer].cost : 0;
    }
    for (int64_t i = 0; s != NULL && i < s->n_steps; i++) {
        if (s->steps[i].kind == CKM_STEP_COMPUTE) {
            const ckm_i_dataflow_op *op = &df->ops[s->steps[i].index];
            for (int32_t k = 0; k < op->n_outputs; k++) {
                m->repeated[op->outputs[k]] += m->can[op->outputs[k]] ? op->cost : 0;
            }
        }
    }
}

// What counts for being added: recomputed at such cost for the time of its transfer. 0: not to be added.
static double worth_adding(const moving *m, int32_t x)
{
    return m->repeated[x] > 0 && m->best[x] < 0.0 ? (double)m->repeated[x] / fmax((double)m->out_time[x], 1.0) : 0.0;
}

static void add_few(moving *m)
{
    double total = 0.0;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        total += worth_adding(m, x);
    }
    uint32_t n = 1 + ckm_i_rng_below(&m->rng, 4);
    double price = prices[ckm_i_rng_below(&m->rng, sizeof prices / sizeof *prices)];
    for (uint32_t i = 0; i < n && total > 0.0; i++) {
        double left = ckm_i_rng_unit(&m->rng) * total;
        for (int32_t x = 0; x < m->solver->df->n_tensors && left >= 0.0; x++) {
            double worth = worth_adding(m, x);
            left -= worth;
            m->rate[x] = worth > 0.0 && left < 0.0 ? price : m->rate[x];
        }
    }
}

// So dear that the search does without them where it can. They stay chosen, so that the best schedule is one of the stand-in's.
static void make_few_dearer(moving *m)
{
    int32_t n_chosen = 0;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        n_chosen += m->best[x] >= 0.0;
    }
    uint32_t n = 1 + ckm_i_rng_below(&m->rng, 4);
    for (uint32_t i = 0; i < n && n_chosen > 0; i++) {
        int32_t left = (int32_t)ckm_i_rng_below(&m->rng, (uint32_t)n_chosen);
        for (int32_t x = 0; x < m->solver->df->n_tensors && left >= 0; x++) {
            if (m->best[x] >= 0.0 && left-- == 0) {
                m->rate[x] = fmin(fmax(m->best[x], prices[0]) * dearer, dearest);
            }
        }
    }
}

static void change(moving *m)
{
    double factor = factors[ckm_i_rng_below(&m->rng, sizeof factors / sizeof *factors)];
    uint32_t what = ckm_i_rng_below(&m->rng, 4);
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->rate[x] = what == 3 && m->best[x] >= 0.0 ? fmin(m->best[x] * factor, dearest) : m->best[x];
    }
    if (what == 0 || what == 2) {
        add_few(m);
    }
    if (what == 1 || what == 2) {
        make_few_dearer(m);
    }
}

static ckm_status try_and_keep(moving *m, double reserve, bool anew, double until, ckm_error *err)
{
    int64_t cost;
    CKM_I_CHECK(try_choice(m, reserve, anew, until, &cost, err));
    keep(m, cost, reserve);
    return CKM_OK;
}

// What moving alone does, where it does: a schedule at once, at budgets that recomputing does not reach among them, and a choice to go on
// from.
static ckm_status move_alone(moving *m, ckm_error *err)
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
        status = offer_moves(m->solver, &greedy, &cost, err);
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
static void choose_read(const moving *m, double price)
{
    const ckm_schedule *s = m->steps;
    for (int64_t i = 0; s != NULL && i < s->n_steps; i++) {
        int32_t x = s->steps[i].index - m->solver->df->n_ops;
        if (s->steps[i].kind == CKM_STEP_COMPUTE && x >= 0 && m->rate[x] < 0.0) {
            m->rate[x] = price;
        }
    }
}

static ckm_status try_first(moving *m, int i, double until, int64_t *cost, ckm_error *err)
{
    if (firsts[i].fill > 0.0) {
        fill_link(m, firsts[i].price, firsts[i].fill * fmax((double)m->peak_at, 1.0));
    } else {
        for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
            m->rate[x] = m->best[x] >= 0.0 ? firsts[i].price : -1.0;
        }
    }
    if (!m->only_moved) {
        choose_read(m, firsts[i].price);
    }
    CKM_I_CHECK(try_choice(m, firsts[i].reserve, firsts[i].fill > 0.0, until, cost, err));
    keep(m, *cost, firsts[i].reserve);
    return CKM_OK;
}

// What the links have room for is chosen first, whatever that leaves to recompute: each way of `firsts` for a short time, then those that
// gave the cheapest schedules for longer.
static ckm_status try_first_choices(moving *m, double start, double until, ckm_error *err)
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

static ckm_status search_choices(moving *m, double search_end, ckm_error *err)
{
    double seconds = fmax(least_try_seconds, m->solver->df->n_ops / ops_per_second);
    int64_t counted_cost = -1;
    int64_t tries = 0;
    while (ckm_i_clock_seconds() < search_end && !ckm_i_solver_should_stop(m->solver)) {
        if (m->solver->best_cost != counted_cost) {
            counted_cost = m->solver->best_cost;
            count_repeats(m);
        }
        change(m);
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
static ckm_status try_best_again(moving *m, bool anew, double end, ckm_error *err)
{
    bool moves = m->best_cost < m->plain_cost;
    int64_t cost;
    for (int32_t x = 0; x < m->solver->df->n_tensors; x++) {
        m->rate[x] = moves ? m->best[x] : -1.0;
    }
    if (moves) {
        return try_and_keep(m, m->best_reserve, anew, end, err);
    }
    return m->plain_cost < INT64_MAX ? try_choice(m, 0.0, true, end, &cost, err) : CKM_OK;
}

// A part in its turn, where it is not left out.
static ckm_status take_turn(moving *m, const ckm_i_component *part, double start, double until, ckm_error *err)
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

static ckm_status move(moving *m, double end, ckm_error *err)
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

static ckm_status run_moving(moving *m, ckm_error *err)
{
    ckm_i_solver *solver = m->solver;
    double start = ckm_i_clock_seconds();
    double end = ckm_i_solver_end(solver);
    bool moves = !ckm_i_component_is_left_out(solver, &ckm_i_component_transfers);
    double first_end = moves ? start + plain_share * (end - start) : end - bound_share * (end - start);
    ckm_status status = look_at(m, err);
    if (status == CKM_OK && ckm_i_component_begin(solver, &ckm_i_component_recomputing)) {
        status = try_choice(m, 0.0, true, first_end, &m->plain_cost, err);
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
    moving m = {.solver = solver,
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
