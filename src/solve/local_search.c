// SPDX-License-Identifier: Apache-2.0
// Simulated annealing on S with an oscillating penalty for bytes over the budget.
#include "solve/local_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"

// Start temperatures of successive rounds, in mean operator costs.
static const double heat[] = {0.3, 0.1, 0.3, 1.0, 0.1, 0.03, 0.3, 3.0};
enum { n_heat = sizeof heat / sizeof heat[0] };

// Moves between two looks at the clock and the penalty,
// and the most gaps one move flips.
enum { moves_per_check = 512, max_gaps = 8 };

typedef struct search {
    ckm_i_solver *solver;
    const ckm_dataflow *df;
    ckm_i_walk *walk;
    ckm_i_stages *now;     // current S and R
    ckm_i_stages *best;    // best within the budget, S only
    int64_t *cost, *peak;  // per stage of `now`
    int64_t *held;         // per stage of `now`: bytes it begins with
    int64_t total_cost, best_cost;
    double excess;   // sum over stages of bytes over the budget
    double penalty;  // cost per byte of excess
    ckm_i_rng rng;
    bool *alone;          // per tensor: it owns its storage and nothing else is on it
    int32_t *candidates;  // tensors that can be held
    int32_t n_candidates;
    // New values for the stages a move touches, kept until it is accepted.
    int64_t *try_cost, *try_peak;
    uint64_t *try_r;  // rows of R, only where try_full is set
    bool *try_full;
    uint64_t *row;  // scratch copy of a row of S
} search;

static void free_search(search *ls)
{
    ckm_i_walk_free(ls->walk);
    ckm_i_stages_free(ls->now);
    ckm_i_stages_free(ls->best);
    free(ls->cost);
    free(ls->peak);
    free(ls->held);
    free(ls->candidates);
    free(ls->alone);
    free(ls->try_cost);
    free(ls->try_peak);
    free(ls->try_r);
    free(ls->try_full);
    free(ls->row);
}

static double over(const search *ls, int64_t peak)
{
    return peak > ls->solver->budget_bytes ? (double)(peak - ls->solver->budget_bytes) : 0.0;
}

// Evaluates every stage of `now` after completing it.
static ckm_status evaluate_all(search *ls, ckm_error *err)
{
    ckm_status status = ckm_i_stages_complete(ls->now, err);
    if (status != CKM_OK) {
        return status;
    }
    ls->total_cost = 0;
    ls->excess = 0.0;
    for (int32_t t = 0; t < ls->df->n_ops; t++) {
        uint64_t *r = ckm_i_stages_r(ls->now, t);
        uint64_t *s = ckm_i_stages_s(ls->now, t);
        const uint64_t *s_next = ckm_i_stages_s(ls->now, t + 1);
        ls->cost[t] = ckm_i_walk_close(ls->walk, t, s, s_next, r);
        ls->held[t] = ckm_i_walk_held(ls->walk, s);
        ls->peak[t] = ckm_i_walk_peak(ls->walk, t, ls->held[t], s, s_next, r);
        ls->total_cost += ls->cost[t];
        ls->excess += over(ls, ls->peak[t]);
    }
    return CKM_OK;
}

static bool runs(const search *ls, int32_t t, int32_t v)
{
    return v <= t && ckm_i_bits_get(ckm_i_stages_r(ls->now, t), v);
}

// Whether an operator of stage t reads or makes x.
static bool touched(const search *ls, int32_t t, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &ls->df->tensors[x];
    if (runs(ls, t, tensor->producer)) {
        return true;
    }
    for (int32_t u = 0; u < tensor->n_users; u++) {
        if (runs(ls, t, tensor->users[u])) {
            return true;
        }
    }
    return false;
}

// The stages [a, b] over which a move at (t, x) flips S: the gap between two uses of x around t. Returns
// false when there is nothing to flip.
static bool find_gap(const search *ls, int32_t t, int32_t x, int32_t *a, int32_t *b)
{
    const ckm_dataflow *df = ls->df;
    int32_t producer = df->tensors[x].producer;
    bool held = ckm_i_bits_get(ckm_i_stages_s(ls->now, t), x);
    int32_t last = df->n_ops - 1;
    *a = t;
    *b = t;
    if (held) {
        while (*a - 1 > producer && ckm_i_bits_get(ckm_i_stages_s(ls->now, *a - 1), x) && !touched(ls, *a - 1, x)) {
            --*a;
        }
        while (*b < last && ckm_i_bits_get(ckm_i_stages_s(ls->now, *b + 1), x) && !touched(ls, *b, x)) {
            ++*b;
        }
        return true;
    }
    // Up to the next stage that recomputes x, down to the last one that had it.
    while (*b <= last && !runs(ls, *b, producer)) {
        if (ckm_i_bits_get(ckm_i_stages_s(ls->now, *b), x)) {
            return false;
        }
        ++*b;
    }
    if (*b > last) {
        return false;
    }
    while (*a - 1 > producer && !ckm_i_bits_get(ckm_i_stages_s(ls->now, *a - 1), x) && !runs(ls, *a - 1, producer)) {
        --*a;
    }
    return true;
}

// One flip of a move: tensor x over stages [a, b].
typedef struct gap {
    int32_t x, a, b;
} gap;

static void flip(search *ls, const gap *g)
{
    size_t words = ls->now->s_words;
    uint64_t *at = ckm_i_stages_s(ls->now, g->a) + (g->x >> 6);
    uint64_t bit = UINT64_C(1) << (g->x & 63);
    const ckm_i_dataflow_tensor *tensor = &ls->df->tensors[g->x];
    for (int32_t t = g->a; t <= g->b; t++, at += words) {
        *at ^= bit;
        if (ls->alone[g->x]) {
            ls->held[t] += *at & bit ? tensor->bytes : -tensor->bytes;
        } else {
            ls->held[t] = ckm_i_walk_held(ls->walk, ckm_i_stages_s(ls->now, t));
        }
    }
}

// Stage t under the flipped S. False when it is not legal as it stands (a non-recomputable operand would
// have to be held longer).
static bool try_stage(search *ls, int32_t t, int32_t slot)
{
    const ckm_i_stages *st = ls->now;
    uint64_t *r = ls->try_r + (size_t)slot * st->r_words;
    memcpy(ls->row, ckm_i_stages_s(st, t), st->s_words * sizeof *ls->row);
    const uint64_t *s_next = ckm_i_stages_s(st, t + 1);
    ls->try_cost[slot] = ckm_i_walk_close(ls->walk, t, ls->row, s_next, r);
    if (memcmp(ls->row, ckm_i_stages_s(st, t), st->s_words * sizeof *ls->row) != 0) {
        return false;
    }
    ls->try_peak[slot] = ckm_i_walk_peak(ls->walk, t, ls->held[t], ls->row, s_next, r);
    return true;
}

// Decides, with the old R, which stages of [first, first + n) a move changes for good, and which only gain or
// lose the bytes of tensors that pass through untouched. Those get their new peak here.
static void sort_stages(search *ls, const gap *gaps, int n_gaps, int32_t first, int32_t n)
{
    for (int32_t slot = 0; slot < n; slot++) {
        ls->try_full[slot] = false;
        ls->try_cost[slot] = ls->cost[first + slot];
        ls->try_peak[slot] = ls->peak[first + slot];
    }
    for (int g = 0; g < n_gaps; g++) {
        int32_t x = gaps[g].x;
        const ckm_i_dataflow_tensor *tensor = &ls->df->tensors[x];
        bool held = ckm_i_bits_get(ckm_i_stages_s(ls->now, gaps[g].a), x);
        bool plain = tensor->n_users > 0 && ls->alone[x] && !tensor->is_result;
        int64_t bytes = held ? -tensor->bytes : tensor->bytes;
        ls->try_full[gaps[g].a - 1 - first] = true;
        ls->try_full[gaps[g].b - first] = true;
        for (int32_t t = gaps[g].a; t < gaps[g].b; t++) {
            if (!plain || touched(ls, t, x)) {
                ls->try_full[t - first] = true;
            } else {
                ls->try_peak[t - first] += bytes;
            }
        }
    }
}

// Tries to flip all gaps at once; accepts by Metropolis at `temperature`.
static void try_move(search *ls, const gap *gaps, int n_gaps, double temperature)
{
    int64_t cost_change = 0;
    double excess_change = 0.0;
    bool legal = true;
    int32_t first = gaps[0].a - 1;
    int32_t last = gaps[0].b;
    for (int g = 1; g < n_gaps; g++) {
        first = gaps[g].a - 1 < first ? gaps[g].a - 1 : first;
        last = gaps[g].b > last ? gaps[g].b : last;
    }
    int32_t n = last - first + 1;
    sort_stages(ls, gaps, n_gaps, first, n);
    for (int g = 0; g < n_gaps; g++) {
        flip(ls, &gaps[g]);
    }
    for (int32_t slot = 0; slot < n && legal; slot++) {
        int32_t t = first + slot;
        legal = !ls->try_full[slot] || try_stage(ls, t, slot);
        cost_change += ls->try_cost[slot] - ls->cost[t];
        excess_change += over(ls, ls->try_peak[slot]) - over(ls, ls->peak[t]);
    }
    double change = (double)cost_change + ls->penalty * excess_change;
    bool accept = legal &&
                  (change <= 0.0 || (temperature > 0.0 && ckm_i_rng_unit(&ls->rng) < exp(-change / temperature)));
    if (!accept) {
        for (int g = 0; g < n_gaps; g++) {
            flip(ls, &gaps[g]);
        }
        return;
    }
    for (int32_t slot = 0; slot < n; slot++) {
        int32_t t = first + slot;
        ls->cost[t] = ls->try_cost[slot];
        ls->peak[t] = ls->try_peak[slot];
        if (ls->try_full[slot]) {
            memcpy(ckm_i_stages_r(ls->now, t), ls->try_r + (size_t)slot * ls->now->r_words,
                   ls->now->r_words * sizeof *ls->try_r);
        }
    }
    ls->total_cost += cost_change;
    ls->excess += excess_change;
}

// Excess is a sum of differences; recomputing it now and then keeps rounding out.
static void refresh_excess(search *ls)
{
    ls->excess = 0.0;
    for (int32_t t = 0; t < ls->df->n_ops; t++) {
        ls->excess += over(ls, ls->peak[t]);
    }
}

// A stage over the budget, or any stage when none is found in a few draws.
static int32_t random_stage(search *ls, int32_t first)
{
    uint32_t span = (uint32_t)(ls->df->n_ops - first);
    int32_t t = first + (int32_t)ckm_i_rng_below(&ls->rng, span);
    for (int i = 0; i < 4 && ls->excess > 0.5 && ls->peak[t] <= ls->solver->budget_bytes; i++) {
        t = first + (int32_t)ckm_i_rng_below(&ls->rng, span);
    }
    return t;
}

// Dropping a tensor means recomputing it in stage b: holds its operands until then, as far as they are not
// there anyway. Returns the number of gaps.
static int add_operand_gaps(search *ls, gap *gaps)
{
    const ckm_dataflow *df = ls->df;
    const ckm_i_dataflow_op *op = &df->ops[df->tensors[gaps[0].x].producer];
    int32_t b = gaps[0].b;
    int n = 1;
    for (int32_t i = 0; i < op->n_inputs && n < max_gaps; i++) {
        int32_t y = op->inputs[i];
        const ckm_i_dataflow_tensor *operand = &df->tensors[y];
        bool there = operand->pinned || ckm_i_bits_get(ckm_i_stages_s(ls->now, b), y) || runs(ls, b, operand->producer);
        for (int g = 1; g < n; g++) {
            there = there || gaps[g].x == y;
        }
        if (there) {
            continue;
        }
        int32_t a = b;
        while (a - 1 > operand->producer && !ckm_i_bits_get(ckm_i_stages_s(ls->now, a - 1), y) &&
               !runs(ls, a - 1, operand->producer)) {
            a--;
        }
        gaps[n++] = (gap){y, a, b};
    }
    return n;
}

// The larger of two draws, three times in four: what matters for memory is tried more often, nothing never.
static int32_t random_tensor(search *ls)
{
    uint32_t n = (uint32_t)ls->n_candidates;
    int32_t x = ls->candidates[ckm_i_rng_below(&ls->rng, n)];
    if (ckm_i_rng_below(&ls->rng, 4) != 0) {
        int32_t y = ls->candidates[ckm_i_rng_below(&ls->rng, n)];
        x = ls->df->tensors[y].bytes > ls->df->tensors[x].bytes ? y : x;
    }
    return x;
}

static void random_move(search *ls, double temperature)
{
    int32_t x = random_tensor(ls);
    int32_t t = random_stage(ls, ls->df->tensors[x].producer + 1);
    int32_t a;
    int32_t b;
    if (!find_gap(ls, t, x, &a, &b)) {
        return;
    }
    // One time in four only a part of the gap: x is then recomputed in the stage before t, where its own
    // operands may be at hand, and held from there to its use.
    gap gaps[max_gaps] = {{x, a, b}};
    int n_gaps = 1;
    bool held = ckm_i_bits_get(ckm_i_stages_s(ls->now, t), x);
    uint32_t dice = ckm_i_rng_below(&ls->rng, 8);
    if (dice < 2 && a < t) {
        if (held) {
            gaps[0].b = t - 1;
        } else {
            gaps[0].a = t;
        }
    } else if (dice < 5 && held) {
        n_gaps = add_operand_gaps(ls, gaps);
    }
    try_move(ls, gaps, n_gaps, temperature);
}

static ckm_status allocate(search *ls, ckm_error *err)
{
    const ckm_dataflow *df = ls->df;
    size_t n = (size_t)df->n_ops;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_walk_create(df, &ls->walk, err));
    CKM_I_TRY(ckm_i_stages_create(df, &ls->now, err));
    CKM_I_TRY(ckm_i_stages_create(df, &ls->best, err));
    ls->cost = ckm_i_calloc(n, sizeof *ls->cost);
    ls->peak = ckm_i_calloc(n, sizeof *ls->peak);
    ls->held = ckm_i_calloc(n, sizeof *ls->held);
    ls->alone = ckm_i_malloc((size_t)df->n_tensors, sizeof *ls->alone);
    ls->candidates = ckm_i_malloc((size_t)df->n_tensors, sizeof *ls->candidates);
    ls->try_cost = ckm_i_calloc(n + 1, sizeof *ls->try_cost);
    ls->try_peak = ckm_i_calloc(n + 1, sizeof *ls->try_peak);
    ls->try_r = ckm_i_calloc((n + 1) * ls->now->r_words, sizeof *ls->try_r);
    ls->try_full = ckm_i_calloc(n + 1, sizeof *ls->try_full);
    ls->row = ckm_i_calloc(ls->now->s_words, sizeof *ls->row);
    if (ls->cost == NULL || ls->peak == NULL || ls->held == NULL || ls->alone == NULL || ls->candidates == NULL ||
        ls->try_cost == NULL || ls->try_peak == NULL || ls->try_r == NULL || ls->try_full == NULL || ls->row == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        ls->alone[x] = true;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        if (tensor->alias_of >= 0) {
            ls->alone[tensor->alias_of] = ls->alone[x] = false;
        }
        if (!tensor->pinned && tensor->producer < df->n_ops - 1 && (tensor->n_users > 0 || tensor->is_result)) {
            ls->candidates[ls->n_candidates++] = x;
        }
    }
cleanup:
    return status;
}

// Every tensor held from its making to the end: completion trims it to what is used.
static void hold_everything(ckm_i_stages *st)
{
    memset(st->s, 0xff, ((size_t)st->n_ops + 1) * st->s_words * sizeof *st->s);
}

// Whether the best so far, not handed in yet, ends the solve.
static bool good_enough(const search *ls)
{
    const ckm_solve_options *options = ls->solver->options;
    return ls->best_cost < INT64_MAX && (ls->best_cost <= options->cost_limit ||
                                         (double)ls->best_cost <= ls->solver->bound_cost * (1.0 + options->gap));
}

// One annealing round from the current state: the temperature falls geometrically from `hot` to `cold`
// over the round's time or moves, the penalty follows whether the state is within the budget.
static int64_t anneal(search *ls, double hot, double cold, double seconds, int64_t moves)
{
    double start = ckm_i_clock_seconds();
    double base = ls->penalty;
    int64_t done = 0;
    for (;;) {
        double progress = moves > 0 ? (double)done / (double)moves : (ckm_i_clock_seconds() - start) / seconds;
        if (progress >= 1.0 || good_enough(ls) || ckm_i_solver_should_stop(ls->solver)) {
            return done;
        }
        double temperature = hot * pow(cold / hot, progress);
        for (int i = 0; i < moves_per_check; i++) {
            random_move(ls, temperature);
            if (ls->excess <= 0.5 && ls->total_cost < ls->best_cost) {
                ls->best_cost = ls->total_cost;
                memcpy(ls->best->s, ls->now->s, ((size_t)ls->now->n_ops + 1) * ls->now->s_words * sizeof *ls->now->s);
            }
        }
        done += moves_per_check;
        refresh_excess(ls);
        ls->penalty *= ls->excess > 0.5 ? 1.03 : 0.98;
        ls->penalty = fmin(fmax(ls->penalty, base * 0.0001), base * 1e4);
    }
}

// Starts a round from `from`, or from holding everything.
static ckm_status restart(search *ls, const ckm_i_stages *from, ckm_error *err)
{
    if (from != NULL) {
        ckm_status status = ckm_i_stages_copy(from, ls->now, err);
        if (status != CKM_OK) {
            return status;
        }
    } else {
        hold_everything(ls->now);
    }
    ckm_status status = evaluate_all(ls, err);
    if (status == CKM_OK && ls->excess <= 0.5 && ls->total_cost < ls->best_cost) {
        ls->best_cost = ls->total_cost;
        status = ckm_i_stages_copy(ls->now, ls->best, err);
    }
    return status;
}

static ckm_status hand_in(search *ls, ckm_error *err)
{
    if (ls->best_cost == INT64_MAX || (ls->solver->best_schedule != NULL && ls->best_cost >= ls->solver->best_cost)) {
        return CKM_OK;
    }
    return ckm_i_solver_offer(ls->solver, ls->best, "local-search", NULL, NULL, err);
}

ckm_status ckm_i_local_search(ckm_i_solver *solver, const ckm_i_local_search_options *options, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    search ls = {.solver = solver, .df = df, .best_cost = INT64_MAX, .rng = {solver->options->seed}};
    ckm_status status = CKM_OK;
    double start = ckm_i_clock_seconds();
    double mean_cost = (double)df->total_cost / df->n_ops;
    int64_t moves_left = options->moves;
    CKM_I_TRY(allocate(&ls, err));
    CKM_I_TRY(restart(&ls, NULL, err));
    CKM_I_TRY(hand_in(&ls, err));
    if (ls.n_candidates == 0) {
        goto cleanup;
    }
    if (solver->best_stages != NULL) {
        CKM_I_TRY(restart(&ls, solver->best_stages, err));
    }
    double round_seconds = 0.25;
    for (int round = 0; !ckm_i_solver_should_stop(solver); round++) {
        double left = options->seconds - (ckm_i_clock_seconds() - start);
        if (options->moves > 0 ? moves_left <= 0 : left <= 0.0) {
            break;
        }
        int64_t moves = options->moves > 0 ? (moves_left < 200000 ? moves_left : 200000) : 0;
        ls.penalty = 0.1 * (double)df->total_cost / (double)(solver->budget_bytes > 0 ? solver->budget_bytes : 1);
        double hot = mean_cost * heat[round % n_heat];
        moves_left -= anneal(&ls, hot + 1e-9, mean_cost * 1e-4 + 1e-9, fmin(round_seconds, left), moves);
        CKM_I_TRY(hand_in(&ls, err));
        if (round % 4 == 2) {
            CKM_I_TRY(restart(&ls, NULL, err));  // now and then from scratch, for diversity
        } else if (solver->best_stages != NULL) {
            CKM_I_TRY(restart(&ls, solver->best_stages, err));
        }
        round_seconds *= 1.2;
    }
cleanup:
    free_search(&ls);
    return status;
}
