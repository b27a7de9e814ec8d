// SPDX-License-Identifier: Apache-2.0
// ckm_solve_frontier: budgets take turns, three rounds of them, each in a slice of the time. A slice begins with the bounds that
// the multipliers of all others give, with the best schedule of this and all smaller budgets, and with a look at that of the next
// larger one. Every fourth budget is proven and searched first: its multipliers are nearly as good as their own for those
// around it, which then need only search. In the last round those are proven that were not. A budget whose gap is closed gets no
// more time.
#include <checkmate/schedule.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/core/solve_options.h"
#include "solve/core/solver.h"
#include "solve/floor/memory_floor.h"
#include "solve/moving.h"
#include "schedule/schedule.h"
#include "solve/solve_above.h"

// Shares of the time left for each round. Schedules of smaller budgets fit larger ones, and larger ones' only need repair, so
// rounds go down and up in turns.
static const double shares[] = {0.4, 0.5, 1.0};
enum { n_rounds = sizeof shares / sizeof shares[0] };

// Of this many budgets one is proven first, where there are several times as many.
enum { apart = 4 };

// Less than this is no use: what is set up and proven first takes longer.
static const double shortest_seconds = 0.02;

// How long after its limit a solve of one budget may look for what would fit.
static const double late_seconds = 0.8;

static const double default_seconds = 6.0 * (double)CKM_I_DEFAULT_SECONDS;

// "optimal" means within 0.01 %.
static const double optimal_gap = 1e-4;

typedef struct frontier {
    const ckm_dataflow *df;
    const ckm_solve_options *options;
    int64_t floor_bytes;
    int32_t n;
    int32_t *order;           // budgets by size
    const int64_t *budgets;   // as given
    ckm_solve_result *found;  // as given
    bool *solved;             // as given: there is a result
    ckm_i_bound_lines lines;
    double end_seconds;
} frontier;

static ckm_solve_result *at(const frontier *f, int32_t i)
{
    return &f->found[f->order[i]];
}

static bool is_solved(const frontier *f, int32_t i)
{
    return i >= 0 && i < f->n && f->solved[f->order[i]];
}

static double gap_of(const ckm_solve_result *r)
{
    double cost = (double)r->cost;
    return cost <= r->bound_cost ? 0.0 : r->bound_cost > 0.0 ? (cost - r->bound_cost) / r->bound_cost : INFINITY;
}

static bool is_open(const frontier *f, int32_t i)
{
    const ckm_solve_result *r = at(f, i);
    return !is_solved(f, i) || (r->status != CKM_SOLVE_INFEASIBLE && !(r->cost >= 0 && r->gap <= f->options->gap));
}

static bool is_first(const frontier *f, int32_t i)
{
    return f->n < 2 * apart || i % apart == apart / 2;
}

// Whether a budget has its turn in a round: those proven first, the others, all.
static bool has_turn(const frontier *f, int round, int32_t i)
{
    return is_open(f, i) && (round > 1 || is_first(f, i) == (round == 0) || f->n < 2 * apart);
}

static bool should_stop(const frontier *f)
{
    return f->options->stop != NULL && f->options->stop(f->options->user);
}

static ckm_status copy_schedule(const ckm_schedule *from, ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *copy = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_create(&copy, err));
    for (int64_t i = 0; i < ckm_schedule_step_count(from); i++) {
        ckm_step step = ckm_schedule_get_step(from, i);
        CKM_I_TRY(ckm_schedule_append(copy, &step, err));
    }
    ckm_schedule_set_info(copy, ckm_schedule_get_info(from));
    *out = copy;
    copy = NULL;
cleanup:
    ckm_schedule_free(copy);
    return status;
}

// The cheapest schedule known for this budget or a smaller one; -1: none.
static int32_t best_below(const frontier *f, int32_t i)
{
    int32_t best = -1;
    for (int32_t k = 0; k < f->n && f->budgets[f->order[k]] <= f->budgets[f->order[i]]; k++) {
        if (is_solved(f, k) && at(f, k)->schedule != NULL && (best < 0 || at(f, k)->cost <= at(f, best)->cost)) {
            best = k;
        }
    }
    return best;
}

// The next larger budget with a schedule that keeps the order; NULL: none.
static const ckm_schedule *hint_for(const frontier *f, int32_t i)
{
    for (int32_t k = i + 1; k < f->n; k++) {
        if (is_solved(f, k) && at(f, k)->schedule != NULL) {
            bool ordered = ckm_i_schedule_class(f->df, at(f, k)->schedule) >= CKM_BOUND_ORDER;
            return ordered && at(f, k)->peak_bytes > f->budgets[f->order[i]] ? at(f, k)->schedule : NULL;
        }
    }
    return NULL;
}

// The largest bound reported for this budget or a larger one.
static ckm_i_known known_for(frontier *f, int32_t i)
{
    ckm_i_known known = {.bound_cost = NAN, .lines = &f->lines, .hint = hint_for(f, i)};
    for (int32_t k = i; k < f->n; k++) {
        if (is_solved(f, k) && at(f, k)->bound_covers != CKM_BOUND_NONE && at(f, k)->status != CKM_SOLVE_INFEASIBLE &&
            !(at(f, k)->bound_cost <= known.bound_cost)) {
            known.bound_cost = at(f, k)->bound_cost;
            known.bound_covers = at(f, k)->bound_covers;
        }
    }
    return known;
}

static ckm_status solve_slice(frontier *f, int32_t i, double seconds, int round, ckm_error *err)
{
    ckm_solve_options options = *f->options;
    ckm_solve_result result;
    int32_t best = best_below(f, i);
    ckm_i_known known = known_for(f, i);
    // Where nothing is found at last, neither here nor for less, what would fit is looked for, as for one budget.
    bool lacks_all = round + 1 == n_rounds && best < 0 && f->options->start == NULL;
    seconds = lacks_all ? fmax(seconds - late_seconds, 0.5 * seconds) : seconds;
    known.of_many = f->n > 1 && !lacks_all;
    known.comes_back = round + 1 < n_rounds;
    known.proven_elsewhere = f->n >= 2 * apart && (round == 1 || (round > 1 && is_first(f, i)));
    options.budget_bytes = f->budgets[f->order[i]];
    options.time_limit_seconds = seconds;
    options.start = best >= 0 ? at(f, best)->schedule : f->options->start;
    CKM_I_CHECK(ckm_i_solve_known(f->df, &options, f->floor_bytes, &known, &result, err));
    result.seconds += is_solved(f, i) ? at(f, i)->seconds : 0.0;
    ckm_solve_result_dispose(at(f, i));
    *at(f, i) = result;
    f->solved[f->order[i]] = true;
    return CKM_OK;
}

static int32_t count_turns(const frontier *f, int round, int32_t from, int32_t step)
{
    int32_t n = 0;
    for (int32_t i = from; i >= 0 && i < f->n; i += step) {
        n += has_turn(f, round, i);
    }
    return n;
}

// What every schedule costs at least, whatever the budget.
static double least_cost(const ckm_dataflow *df)
{
    return ckm_dataflow_get_second_memory(df, NULL) ? ckm_i_moving_least_cost(df) : (double)df->total_cost;
}

// The best bound of what is known for this budget and larger ones. One that the schedule contradicts would be wrong.
static void take_bound(frontier *f, int32_t i)
{
    ckm_solve_result *r = at(f, i);
    ckm_i_known known = known_for(f, i);
    double line = ckm_i_bound_lines_for(&f->lines, r->budget_bytes);
    bool wrong = r->schedule != NULL && known.bound_cost > (double)r->cost &&
                 ckm_i_schedule_class(f->df, r->schedule) >= known.bound_covers;
    if (isnan(known.bound_cost) || wrong) {
        known.bound_cost = least_cost(f->df);
        known.bound_covers = CKM_BOUND_ANY;
    }
    bool by_line = line > known.bound_cost;
    r->bound_cost = by_line ? line : known.bound_cost;
    r->bound_covers = by_line ? CKM_BOUND_ORDER : known.bound_covers;
}

// Takes for each budget what the others have: a schedule of a smaller one, bounds.
static ckm_status share(frontier *f, ckm_error *err)
{
    for (int32_t i = f->n - 1; i >= 0; i--) {
        ckm_solve_result *r = at(f, i);
        if (!is_solved(f, i)) {
            continue;
        }
        if (is_solved(f, i + 1) && at(f, i + 1)->status == CKM_SOLVE_INFEASIBLE && r->status == CKM_SOLVE_UNKNOWN) {
            r->status = CKM_SOLVE_INFEASIBLE;
            r->bound_covers = at(f, i + 1)->bound_covers;
        }
        int32_t best = best_below(f, i);
        if (r->status == CKM_SOLVE_INFEASIBLE && best < 0) {
            continue;
        }
        if (best >= 0 && best != i && (r->schedule == NULL || at(f, best)->cost < r->cost)) {
            ckm_schedule *copy = NULL;
            CKM_I_CHECK(copy_schedule(at(f, best)->schedule, &copy, err));
            ckm_schedule_free(r->schedule);
            r->schedule = copy;
            r->cost = at(f, best)->cost;
            r->peak_bytes = at(f, best)->peak_bytes;
            memcpy(r->strategy, at(f, best)->strategy, sizeof r->strategy);
        }
        take_bound(f, i);
        if (r->schedule != NULL) {
            // Of a narrower class a bound may be above a schedule's cost.
            r->bound_cost = fmin(r->bound_cost, (double)r->cost);
            r->gap = gap_of(r);
            r->status = r->gap <= optimal_gap ? CKM_SOLVE_OPTIMAL : CKM_SOLVE_FEASIBLE;
        }
    }
    return CKM_OK;
}

// One round, down or up, in at most this many seconds.
static ckm_status run_round(frontier *f, int round, double seconds, ckm_error *err)
{
    bool down = round % 2 == 0;
    double end = fmin(ckm_i_clock_seconds() + seconds, f->end_seconds);
    int32_t step = down ? -1 : 1;
    for (int32_t i = down ? f->n - 1 : 0; i >= 0 && i < f->n; i += step) {
        double left = end - ckm_i_clock_seconds();
        bool first = !is_solved(f, i);
        if (!has_turn(f, round, i) || should_stop(f) || (!first && left <= 0.0)) {
            continue;
        }
        double slice = left / fmax(count_turns(f, round, i, step), 1.0);
        CKM_I_CHECK(solve_slice(f, i, fmax(slice, shortest_seconds), round, err));
    }
    return share(f, err);
}

// Where the search was stopped before a budget's first turn, what is known without one.
static ckm_status fill_unsolved(frontier *f, ckm_error *err)
{
    ckm_schedule *plain = NULL;
    ckm_simulation facts;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_baseline(f->df, &plain, err));
    CKM_I_TRY(ckm_i_schedule_try(f->df, plain, NULL, &facts, err));
    for (int32_t i = 0; i < f->n; i++) {
        bool refuted = f->budgets[f->order[i]] < f->floor_bytes;
        if (is_solved(f, i)) {
            continue;
        }
        *at(f, i) = (ckm_solve_result){
            .status = refuted ? CKM_SOLVE_INFEASIBLE : CKM_SOLVE_UNKNOWN,
            .cost = -1,
            .peak_bytes = -1,
            .budget_bytes = f->budgets[f->order[i]],
            .baseline_cost = facts.cost,
            .baseline_peak_bytes = facts.peak_bytes,
            .floor_bytes = f->floor_bytes,
            .least_peak_bytes = facts.peak_bytes,
            .bound_cost = least_cost(f->df),
            .bound_covers = CKM_BOUND_ANY,
            .gap = NAN,
        };
        f->solved[f->order[i]] = true;
    }
    CKM_I_TRY(share(f, err));
cleanup:
    ckm_schedule_free(plain);
    return status;
}

static int by_budget(const void *a, const void *b, const int64_t *budgets)
{
    int32_t p = *(const int32_t *)a;
    int32_t q = *(const int32_t *)b;
    return budgets[p] != budgets[q] ? (budgets[p] < budgets[q] ? -1 : 1) : p - q;
}

// Insertion: they are few, and most often in order.
static void sort(frontier *f)
{
    for (int32_t i = 0; i < f->n; i++) {
        int32_t at = i;
        for (; at > 0 && by_budget(&i, &f->order[at - 1], f->budgets) < 0; at--) {
            f->order[at] = f->order[at - 1];
        }
        f->order[at] = i;
    }
}

static ckm_status check(const int64_t *budgets, int32_t n, ckm_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        if (budgets[i] < 0) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "budgets[%d] is %lld; it must not be negative", i,
                               (long long)budgets[i]);
        }
    }
    return n >= 0 ? CKM_OK : ckm_i_error(err, CKM_ERR_ARGUMENT, "a negative number of budgets");
}

static ckm_status run(frontier *f, ckm_error *err)
{
    double limit = f->options->time_limit_seconds;
    f->end_seconds = ckm_i_clock_seconds() + (limit > 0.0 ? limit : default_seconds);
    sort(f);
    for (int round = 0; round < n_rounds; round++) {
        double left = f->end_seconds - ckm_i_clock_seconds();
        CKM_I_CHECK(run_round(f, round, fmax(left, 0.0) * shares[round], err));
    }
    return should_stop(f) ? fill_unsolved(f, err) : CKM_OK;
}

ckm_status ckm_solve_frontier(const ckm_dataflow *df, const ckm_solve_options *options, const int64_t *budgets,
                              int32_t n, ckm_solve_result *results, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(budgets, err);
    CKM_I_NEED(results, err);
    ckm_solve_options o;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(ckm_i_solve_options_read(options, default_seconds, &o, err));
    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    CKM_I_CHECK(check(budgets, n, err));
    frontier f = {.df = df, .options = &o, .n = n, .budgets = budgets};
    CKM_I_CHECK(ckm_i_memory_floor_of(df, &f.floor_bytes, err));
    f.order = ckm_i_malloc((size_t)n, sizeof *f.order);
    f.found = ckm_i_calloc((size_t)n, sizeof *f.found);
    f.solved = ckm_i_calloc((size_t)n, sizeof *f.solved);
    if (f.order == NULL || f.found == NULL || f.solved == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(run(&f, err));
    for (int32_t i = 0; i < n; i++) {
        results[i] = f.found[i];
        f.found[i].schedule = NULL;
    }
cleanup:
    for (int32_t i = 0; i < n && f.found != NULL; i++) {
        ckm_solve_result_dispose(&f.found[i]);
    }
    free(f.order);
    free(f.found);
    free(f.solved);
    ckm_i_bound_lines_dispose(&f.lines);
    return status;
}
