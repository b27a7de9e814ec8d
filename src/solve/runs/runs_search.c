// SPDX-License-Identifier: Apache-2.0
#include "solve/runs/runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"
#include "solve/core/component_registry.h"

// A first annealing from the run without rematerialization, the best of a few: changes tried for each operator, the share of the time
// that it may take, and temperatures at its beginning and at the end of any, in mean costs of an operator.
static const double first_states = 140.0, first_share = 0.25, first_hot = 3.0, coldest = 1e-3;

// Where results take at most this share of the budget, it holds them once they are made. If it ends this many budgets over the budget,
// summed over runs, it begins again without; else most perturbations hold them, too, all but one in this many. A result that is let go of early,
// while much is over the budget, has to be made again in the end from most of the forward pass, and then each saves little by being
// held, as long as others need that pass. Further ones are tried in this share of the time.
static const double small_share = 0.25, far_over = 1.0, tries_share = 0.1;
enum { first_tries = 8, free_kicks = 8 };

// After that, perturbations: one or two changes that are made whatever they cost, and a short annealing that makes good for them or
// does not. One draws its states and its temperature at the beginning from these.
static const int64_t kick_states[] = {600, 1500, 1500, 4000};
static const double kick_hot[] = {0.1, 0.3, 0.3, 1.0};

// One perturbation in this many is a deep one: all runs of a stretch are left out. The price drops to a random share, at least the lowest, and is
// back at its height after so much of the annealing. So whole recomputations go that many results share.
enum { deep_kicks = 16 };
static const int64_t deep_states[] = {4000, 8000, 16000};
static const double lowest_share = 0.003, rising_share = 0.8;

// A perturbation is given up after a third of its states where it is so much worse than before, and undone after all of them where
// it is worse than a little, in mean costs of an operator; and so much of the price of the excess before.
static const double hopeless = 40.0, hopeless_share = 0.3, tolerable = 0.2;

// Perturbations without a better sequence until the search goes back to the best.
enum { idle_kicks = 100 };

// Where the annealing ends above the budget, but the best that fits costs more than this many times as much, perturbations bring it down to the
// budget, for at most this share of the time: what is cheap and nearly fits leads further than what fits and is dear.
static const double dear = 1.2, down_share = 0.4;

// The price of a byte over the budget: the whole cost for so much of the budget, to begin with. Every time this many states of the
// first annealing, and after each perturbation, up while there is one, down to that while there is none.
static const double first_price = 8.0, kick_price = 20.0, much_dearer = 1.06, dearer = 1.02, cheaper = 0.98;
static const double highest_price = 60.0;  // from there it begins again
enum { states_a_price = 512, states_a_look = 64 };

// On the way to the least peak, a step down is this share of what is above the least at first and at most, and at last, and has so
// much of the time.
static const double first_descent = 0.25, last_descent = 0.004, descent_slice = 0.1;
static const int64_t descent_states = 2000;  // at most, for each operator

// The share of the time in which it begins with the run without rematerialization.
static const double plain_share = 0.5;

// Where the first annealings end above the budget: down to it from far above in at most this share of the time, by steps towards this
// share of it.
static const double approach_share = 0.3, below_budget = 0.8;

// Rooms for runs, for each operator and in bytes of rows.
enum { most_runs = 24 };
static const int64_t most_row_bytes = INT64_C(64) << 20;

typedef struct search {
    ckm_i_solver *solver;
    ckm_i_runs q;
    ckm_i_runs_mover m;
    int32_t *best, n_best;  // the cheapest sequence met that fits
    int64_t best_cost;      // INT64_MAX: none
    int64_t handed_cost;
    int32_t *nearest, n_nearest;  // as long as none fits, the one with least over the budget
    int64_t nearest_excess;
    int32_t *plain, *kept;
    bool results_are_small;                         // compared with the budget, by storage
    bool keeps_results;                             // most perturbations do
    bool is_first;                                  // of the solver's
    double price, end_seconds, search_end_seconds;  // the second where nothing fits
    int64_t states, most_states;                    // 0: no limit
} search;

static void remember(search *s)
{
    const ckm_i_runs *q = &s->q;
    if (q->excess == 0 && q->cost < s->best_cost) {
        s->best_cost = q->cost;
        s->n_best = q->n;
        memcpy(s->best, q->at.op, (size_t)q->n * sizeof *s->best);
    }
    if (s->best_cost == INT64_MAX && q->excess < s->nearest_excess) {
        s->nearest_excess = q->excess;
        s->n_nearest = q->n;
        memcpy(s->nearest, q->at.op, (size_t)q->n * sizeof *s->nearest);
    }
}

static ckm_status offer(const search *s, const int32_t *order, int32_t n, ckm_error *err)
{
    ckm_schedule *made = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_schedule_from_order(s->q.df, order, n, &made, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(s->solver, &made, "runs", NULL, err));
cleanup:
    ckm_schedule_free(made);
    return status;
}

static ckm_status hand_in(search *s, ckm_error *err)
{
    if (s->best_cost >= s->handed_cost) {
        return CKM_OK;
    }
    s->handed_cost = s->best_cost;
    return offer(s, s->best, s->n_best, err);
}

// What was nearest where nothing fits: a little more memory than the budget may be enough for it.
static ckm_status hand_in_nearest(const search *s, ckm_error *err)
{
    return s->best_cost < INT64_MAX || s->n_nearest == 0 ? CKM_OK : offer(s, s->nearest, s->n_nearest, err);
}

static bool is_over(const search *s)
{
    double end = s->best_cost < INT64_MAX ? s->end_seconds : s->search_end_seconds;
    return (s->most_states > 0 && s->states >= s->most_states) || ckm_i_clock_seconds() >= end ||
           ckm_i_solver_should_stop(s->solver);
}

static double mean_cost(const search *s)
{
    return (double)s->q.df->total_cost / s->q.df->n_ops;
}

static double price_of(const search *s, double times)
{
    return times * (double)s->q.df->total_cost / (double)(s->q.budget_bytes + 1);
}

static double worth(const search *s)
{
    return (double)s->q.cost + s->price * (double)s->q.excess;
}

// One change, at a temperature.
static void take_step(search *s, double temperature)
{
    ckm_i_runs *q = &s->q;
    s->states++;
    if (!ckm_i_runs_draw(&s->m) || !ckm_i_runs_try(q)) {
        return;
    }
    double worse = (double)(q->trial_cost - q->cost) + s->price * (double)(q->trial_excess - q->excess);
    if (worse <= 0.0 || ckm_i_rng_unit(&s->m.rng) < exp(-worse / temperature)) {
        ckm_i_runs_accept(q);
        remember(s);
    }
}

// From the run without rematerialization, by states or by the time that it may take, whichever ends first.
static void anneal_first(search *s)
{
    double begin = ckm_i_clock_seconds();
    double seconds = (s->end_seconds - begin) * first_share;
    double states = first_states * s->q.df->n_ops;
    double done = 0.0;
    double temperature = first_hot * mean_cost(s);
    s->price = price_of(s, first_price);
    ckm_i_runs_load(&s->q, s->plain, s->q.df->n_ops);
    remember(s);
    for (int64_t k = 0; done < 1.0; k++) {
        if (k % states_a_look == 0) {
            ckm_i_solver_attend(s->solver);
            if (is_over(s)) {
                break;
            }
            done = fmax((double)k / states, (ckm_i_clock_seconds() - begin) / seconds);
            temperature = mean_cost(s) * first_hot * pow(coldest / first_hot, done);
        }
        if (k > 0 && k % states_a_price == 0) {
            s->price *= s->q.excess > 0 ? much_dearer : cheaper;
        }
        take_step(s, temperature);
    }
}

// A result that is a view keeps the storage that it lies in.
static ckm_status measure_results(search *s, ckm_error *err)
{
    const ckm_dataflow *df = s->q.df;
    double bytes = 0.0;
    bool *counted = ckm_i_calloc((size_t)df->n_tensors, sizeof *counted);
    if (counted == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t owner = df->tensors[x].storage;
        if (df->tensors[x].is_result && !df->tensors[owner].pinned && !counted[owner]) {
            counted[owner] = true;
            bytes += (double)df->tensors[owner].bytes;
        }
    }
    free(counted);
    s->results_are_small = bytes <= small_share * (double)(s->q.budget_bytes - df->resident_bytes);
    return CKM_OK;
}

static void keep(search *s)
{
    memcpy(s->kept, s->q.at.op, (size_t)s->q.n * sizeof *s->kept);
}

// Anneals a few times, while that takes little of the time, and goes on from the best end.
static void find_first(search *s)
{
    double begin = ckm_i_clock_seconds();
    double seconds = (s->end_seconds - begin) * tries_share;
    double best = INFINITY;
    int32_t n = 0;
    s->keeps_results = s->results_are_small;
    for (int k = 0; k == 0 || (k < first_tries && ckm_i_clock_seconds() - begin < seconds && !is_over(s)); k++) {
        s->m.keeps_results = s->keeps_results;
        anneal_first(s);
        if (s->keeps_results && (double)s->q.excess > far_over * (double)s->q.budget_bytes) {
            s->keeps_results = false;
            s->m.keeps_results = false;
            anneal_first(s);
        }
        ckm_i_solver_log(s->solver, CKM_LOG_INFO,
                         "runs: a first annealing, results %s: cost %lld, %lld bytes over the budget",
                         s->keeps_results ? "held" : "not held", (long long)s->q.cost, (long long)s->q.excess);
        s->price = price_of(s, kick_price);
        if (worth(s) < best) {
            best = worth(s);
            n = s->q.n;
            keep(s);
        }
    }
    ckm_i_runs_load(&s->q, s->kept, n);
    s->m.keeps_results = false;
}

// A short annealing, in which the price rises from a share of it to what it is. False where time is up, or where what there is after a
// third of the states is worth giving up: more than `most`.
static bool anneal_briefly(search *s, int64_t n, double share, double most)
{
    double price = s->price;
    double hot = kick_hot[ckm_i_rng_below(&s->m.rng, sizeof kick_hot / sizeof kick_hot[0])];
    double fall = pow(coldest / hot, 1.0 / (double)n);
    double temperature = hot * mean_cost(s);
    bool goes_on = true;
    for (int64_t k = 0; k < n && goes_on; k++) {
        if (k % states_a_look == 0) {
            ckm_i_solver_attend(s->solver);
            s->price = price * pow(share, fmax(0.0, 1.0 - (double)k / (rising_share * (double)n)));
            goes_on = !is_over(s);
        }
        goes_on = goes_on && !(k == n / 3 && worth(s) > most);
        if (goes_on) {
            take_step(s, temperature);
            temperature *= fall;
        }
    }
    s->price = price;
    return goes_on;
}

static void make_change(search *s)
{
    if (ckm_i_runs_try(&s->q)) {
        ckm_i_runs_accept(&s->q);
        remember(s);
    }
}

static void set_next_price(search *s)
{
    s->price = s->q.excess > 0 ? s->price * dearer : fmax(s->price * cheaper, price_of(s, kick_price));
    if (s->price > price_of(s, highest_price)) {
        s->price = price_of(s, first_price);
    }
}

static void perturb(search *s)
{
    ckm_i_runs *q = &s->q;
    double before = worth(s);
    double most = before + hopeless * mean_cost(s) + hopeless_share * s->price * (double)q->excess;
    int32_t n = q->n;
    keep(s);
    for (uint32_t k = 0; k <= ckm_i_rng_below(&s->m.rng, 2); k++) {
        if (ckm_i_runs_draw_far(&s->m)) {
            make_change(s);
        }
    }
    int64_t states = kick_states[ckm_i_rng_below(&s->m.rng, sizeof kick_states / sizeof kick_states[0])];
    if (!anneal_briefly(s, states, 1.0, most) || worth(s) > before + tolerable * mean_cost(s)) {
        ckm_i_runs_load(q, s->kept, n);
    }
    set_next_price(s);
}

static void perturb_deep(search *s)
{
    ckm_i_runs *q = &s->q;
    double before = worth(s);
    int32_t n = q->n;
    keep(s);
    if (!ckm_i_runs_draw_stretch(&s->m)) {
        return;
    }
    make_change(s);
    double share = pow(lowest_share, ckm_i_rng_unit(&s->m.rng));
    int64_t states = deep_states[ckm_i_rng_below(&s->m.rng, sizeof deep_states / sizeof deep_states[0])];
    anneal_briefly(s, states, share, INFINITY);
    if (worth(s) > before + tolerable * mean_cost(s)) {
        ckm_i_runs_load(q, s->kept, n);
    }
}

static void go_back(search *s)
{
    if (s->best_cost < INT64_MAX) {
        ckm_i_runs_load(&s->q, s->best, s->n_best);
    }
}

// Loads a schedule's runs. False where there is none, it is not of the class, or there is no room for it.
static bool load_schedule(search *s, const ckm_schedule *from)
{
    int32_t n = 0;
    if (from == NULL || (s->q.keeps_order && ckm_i_schedule_class(s->q.df, from) < CKM_BOUND_ORDER)) {
        return false;
    }
    for (int64_t i = 0; i < from->n_steps && n < s->q.cap; i++) {
        if (from->steps[i].kind == CKM_STEP_COMPUTE) {
            s->best[n++] = from->steps[i].index;
        }
    }
    if (n == s->q.cap) {
        return false;
    }
    ckm_i_runs_load(&s->q, s->best, n);
    return true;
}

static int64_t peak_of(const ckm_i_runs *q)
{
    int64_t peak = 0;
    for (int32_t i = 0; i < q->n; i++) {
        peak = q->at.used[i] > peak ? q->at.used[i] : peak;
    }
    return peak;
}

// Perturbs until a sequence is within `target_bytes`, for this many seconds.
static bool get_within(search *s, const int32_t *from, int32_t n, int64_t target_bytes, double until)
{
    s->q.budget_bytes = target_bytes;
    s->price = price_of(s, kick_price);
    s->best_cost = INT64_MAX;
    s->nearest_excess = INT64_MAX;
    s->search_end_seconds = until;
    s->most_states = s->states + descent_states * s->q.df->n_ops;
    ckm_i_runs_load(&s->q, from, n);
    remember(s);
    while (!is_over(s)) {
        if (ckm_i_rng_below(&s->m.rng, deep_kicks) == 0) {
            perturb_deep(s);
        } else {
            perturb(s);
        }
    }
    return s->best_cost < INT64_MAX;
}

// From the sequence at hand, the budget comes down to `least_bytes`, by less each time that nothing is found within it, and ends
// where a sequence is within `enough_bytes`. What is found on the way is handed in where `hands_in`.
static ckm_status descend(search *s, int64_t least_bytes, int64_t enough_bytes, double end, bool hands_in,
                          ckm_error *err)
{
    ckm_i_runs *q = &s->q;
    double slice = (end - ckm_i_clock_seconds()) * descent_slice;
    double share = first_descent;
    ckm_status status = CKM_OK;
    int32_t *lowest = ckm_i_malloc((size_t)q->cap, sizeof *lowest);
    if (lowest == NULL) {
        return ckm_i_error_memory(err);
    }
    s->end_seconds = -INFINITY;  // the first sequence within a budget will do
    for (int64_t peak = peak_of(q); peak > enough_bytes && share >= last_descent;) {
        int32_t n = q->n;
        int64_t target = peak - 1 - (int64_t)((double)(peak - 1 - least_bytes) * share);
        double now = ckm_i_clock_seconds();
        if (now >= end || ckm_i_solver_should_stop(s->solver)) {
            break;
        }
        target = target > enough_bytes ? target : enough_bytes;
        memcpy(lowest, q->at.op, (size_t)n * sizeof *lowest);
        if (get_within(s, lowest, n, target, fmin(end, now + slice))) {
            ckm_i_runs_load(q, s->best, s->n_best);
            peak = peak_of(q);
            if (hands_in) {
                s->handed_cost = INT64_MAX;
                CKM_I_TRY(hand_in(s, err));
            }
            share = fmin(2.0 * share, first_descent);
        } else {
            ckm_i_runs_load(q, lowest, n);
            share *= 0.5;
        }
    }
cleanup:
    free(lowest);
    return status;
}

// From the run without rematerialization, in a share of the time; then from that or the schedule known to need least.
static ckm_status come_down(search *s, int64_t least_bytes, ckm_error *err)
{
    ckm_i_runs *q = &s->q;
    double begin = ckm_i_clock_seconds();
    double end = s->end_seconds;
    ckm_i_runs_load(q, s->plain, q->df->n_ops);
    CKM_I_CHECK(descend(s, least_bytes, least_bytes, begin + plain_share * (end - begin), true, err));
    if (load_schedule(s, s->solver->least_schedule)) {
        CKM_I_CHECK(descend(s, least_bytes, least_bytes, end, true, err));
    }
    return CKM_OK;
}

// Where no first annealing ends within the budget: from the run without rematerialization, later from the schedule known to need least,
// by budgets that come down to it.
static ckm_status approach(search *s, ckm_error *err)
{
    int64_t budget_bytes = s->q.budget_bytes;
    int64_t below = s->q.df->resident_bytes +
                    (int64_t)((double)(budget_bytes - s->q.df->resident_bytes) * below_budget);
    double end = s->end_seconds;
    double search_end = s->search_end_seconds;
    double now = ckm_i_clock_seconds();
    int64_t most_states = s->most_states;
    if (s->is_first || !load_schedule(s, s->solver->least_schedule)) {
        ckm_i_runs_load(&s->q, s->plain, s->q.df->n_ops);
    }
    ckm_status status = descend(s, below, budget_bytes, now + (fmax(end, search_end) - now) * approach_share, false,
                                err);
    s->end_seconds = end;
    s->search_end_seconds = search_end;
    s->most_states = most_states;
    s->q.budget_bytes = budget_bytes;
    s->best_cost = INT64_MAX;
    s->nearest_excess = INT64_MAX;
    int32_t n = s->q.n;
    keep(s);
    ckm_i_runs_load(&s->q, s->kept, n);
    remember(s);
    ckm_i_solver_log(s->solver, CKM_LOG_INFO, "runs: by budgets that come down, in %.2f s: cost %lld, %lld bytes over",
                     ckm_i_clock_seconds() - now, (long long)s->q.cost, (long long)s->q.excess);
    return status;
}

static ckm_status run(search *s, ckm_error *err)
{
    int idle = 0;
    double begin = ckm_i_clock_seconds();
    bool coming_down = false;
    if (s->q.keeps_order || s->best_cost == INT64_MAX) {
        find_first(s);
        if (s->best_cost == INT64_MAX) {
            CKM_I_CHECK(approach(s, err));
        }
        coming_down = s->q.excess > 0 && (double)s->best_cost > dear * (double)s->q.cost;
    }
    if (!coming_down) {
        go_back(s);
    }
    s->price = price_of(s, kick_price);
    while (!is_over(s)) {
        int64_t best = s->best_cost;
        int64_t nearest = s->nearest_excess;
        CKM_I_CHECK(hand_in(s, err));
        s->m.keeps_results = s->keeps_results && ckm_i_rng_below(&s->m.rng, free_kicks) > 0;
        if (ckm_i_rng_below(&s->m.rng, deep_kicks) == 0) {
            perturb_deep(s);
        } else {
            perturb(s);
        }
        idle = s->best_cost < best || s->nearest_excess < nearest || coming_down ? 0 : idle + 1;
        if (s->best_cost < best) {
            coming_down = false;
        } else if (coming_down && ckm_i_clock_seconds() - begin > down_share * (s->end_seconds - begin)) {
            coming_down = false;
            go_back(s);
        } else if (idle == idle_kicks) {
            go_back(s);
            idle = 0;
        }
    }
    return hand_in(s, err);
}

// The solver's best schedule to begin with, where it keeps the order.
static void take_best(search *s)
{
    if (load_schedule(s, s->solver->best_schedule)) {
        remember(s);
    }
}

static int64_t most_places(const ckm_dataflow *df)
{
    return (int64_t)most_runs * df->n_ops;
}

const ckm_i_component ckm_i_component_runs = {
    .name = "runs",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "iterated local search on the sequence of computations, near the memory floor",
};

bool ckm_i_runs_are_possible(const ckm_dataflow *df)
{
    int32_t n_again = 0;
    for (int32_t v = 0; v < df->n_ops; v++) {
        n_again += df->ops[v].recomputable;
    }
    return n_again > 0 && most_places(df) < INT32_MAX / 2 &&
           most_places(df) * (df->n_tensors / 8 + 1) <= most_row_bytes;
}

ckm_status ckm_i_runs_search(ckm_i_solver *solver, const ckm_i_runs_options *options, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    search s = {.solver = solver, .best_cost = INT64_MAX, .nearest_excess = INT64_MAX, .most_states = options->states};
    ckm_status status = CKM_OK;
    int64_t cap = most_places(df);
    if (!ckm_i_runs_are_possible(df) || !ckm_i_component_begin(solver, &ckm_i_component_runs)) {
        return CKM_OK;
    }
    s.end_seconds = ckm_i_clock_seconds() + options->seconds;
    s.search_end_seconds = ckm_i_clock_seconds() + fmax(options->seconds, options->search_seconds);
    s.handed_cost = solver->best_schedule != NULL ? solver->best_cost : INT64_MAX;
    CKM_I_TRY(ckm_i_runs_init(&s.q, df, solver->budget_bytes, options->keeps_order, (int32_t)cap, err));
    // Another search is another chance.
    s.is_first = solver->n_runs_searches == 0;
    CKM_I_TRY(ckm_i_runs_mover_init(&s.m, &s.q, solver->options->seed + (uint64_t)solver->n_runs_searches++, err));
    s.best = ckm_i_malloc((size_t)cap, sizeof *s.best);
    s.nearest = ckm_i_malloc((size_t)cap, sizeof *s.nearest);
    s.kept = ckm_i_malloc((size_t)cap, sizeof *s.kept);
    s.plain = ckm_i_malloc((size_t)df->n_ops, sizeof *s.plain);
    if (s.best == NULL || s.nearest == NULL || s.kept == NULL || s.plain == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        s.plain[v] = v;
    }
    CKM_I_TRY(measure_results(&s, err));
    if (options->least_bytes > 0) {
        CKM_I_TRY(come_down(&s, options->least_bytes, err));
    } else {
        take_best(&s);
        CKM_I_TRY(run(&s, err));
        CKM_I_TRY(hand_in_nearest(&s, err));
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "runs: %lld states in sequences of %d runs", (long long)s.states, s.q.n);
cleanup:
    free(s.best);
    free(s.nearest);
    free(s.plain);
    free(s.kept);
    ckm_i_runs_mover_dispose(&s.m);
    ckm_i_runs_dispose(&s.q);
    ckm_i_component_end(solver);
    return status;
}
