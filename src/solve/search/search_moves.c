// SPDX-License-Identifier: Apache-2.0
// Moves. What a move may flip is a gap: the stages between two that use or make a tensor (events). Within a gap
// the tensor is either held throughout or not at all; over all of its gaps, S is determined.
//
// A single flip seldom helps once the budget is used up: what is to be held needs room that something else takes.
// Chains make such exchanges in one step. "Hold and eject" holds a tensor that is computed again and then lets
// go of others where the budget is exceeded, each time the one that costs least per byte of excess; "drop and
// fill" lets go of a tensor and then holds what saves most and still fits. Without them, annealing decides on
// dear operators while cheap ones still come and go, and cannot take that back later.
#include "solve/search/search_moves.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"

// The most gaps one move flips; links of a chain; gaps compared for a link; draws for one of them; and one step
// in this many is a chain.
enum { max_gaps = 8, max_links = 6, link_samples = 6, sample_draws = 6, chain_period = 48 };

typedef struct gap {
    int32_t x, first, last;
} gap;

ckm_status ckm_i_mover_create(ckm_i_search *s, uint64_t seed, ckm_i_mover *out, ckm_error *err)
{
    const ckm_dataflow *df = s->df;
    ckm_i_mover mover = {.s = s, .rng = {seed}};
    mover.candidates = ckm_i_malloc((size_t)df->n_tensors, sizeof *mover.candidates);
    mover.life_end = ckm_i_malloc((size_t)df->n_tensors, sizeof *mover.life_end);
    if (mover.candidates == NULL || mover.life_end == NULL) {
        ckm_i_mover_dispose(&mover);
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        mover.life_end[x] = tensor->is_result     ? df->n_ops - 1
                            : tensor->n_users > 0 ? tensor->users[tensor->n_users - 1]
                                                  : tensor->producer;
        if (!tensor->pinned && mover.life_end[x] > tensor->producer && df->ops[tensor->producer].recomputable) {
            mover.candidates[mover.n_candidates++] = x;
        }
    }
    *out = mover;
    return CKM_OK;
}

void ckm_i_mover_dispose(ckm_i_mover *mover)
{
    free(mover->candidates);
    free(mover->life_end);
    *mover = (ckm_i_mover){0};
}

static int32_t below(ckm_i_mover *mover, int32_t n)
{
    return (int32_t)ckm_i_rng_below(&mover->rng, (uint32_t)n);
}

// The larger of two draws, three times in four: what matters for memory is tried more often, nothing never.
static int32_t random_tensor(ckm_i_mover *mover)
{
    const ckm_i_dataflow_tensor *tensors = mover->s->df->tensors;
    int32_t x = mover->candidates[below(mover, mover->n_candidates)];
    if (below(mover, 4) != 0) {
        int32_t y = mover->candidates[below(mover, mover->n_candidates)];
        x = tensors[y].bytes > tensors[x].bytes ? y : x;
    }
    return x;
}

// The gap of x around stage t. False when x is not needed from t on.
static bool gap_around(const ckm_i_search *s, int32_t x, int32_t t, gap *out)
{
    int32_t last = ckm_i_search_event_from(s, x, t);
    if (last < 0) {
        return false;
    }
    *out = (gap){x, ckm_i_search_event_before(s, x, t) + 1, last};
    return true;
}

// A stage over the budget.
static int32_t stage_over(ckm_i_mover *mover)
{
    ckm_i_search *s = mover->s;
    int32_t n = s->df->n_ops;
    for (int i = 0; i < 4; i++) {
        int32_t t = below(mover, n);
        if (ckm_i_profile_peak(&s->peaks, t) > s->peaks.budget_bytes) {
            return t;
        }
    }
    int32_t t = below(mover, n);
    int32_t last = n - 1 - t < 256 ? n - 1 : t + 256;
    return ckm_i_profile_highest(&s->peaks, t, last);
}

// A tensor that stage t begins with, or -1 when a few draws find none.
static int32_t tensor_held(ckm_i_mover *mover, int32_t t)
{
    for (int i = 0; i < sample_draws; i++) {
        int32_t x = random_tensor(mover);
        if (ckm_i_search_holds(mover->s, x, t)) {
            return x;
        }
    }
    return -1;
}

// A stage that uses or makes x after its first run.
static int32_t random_event(ckm_i_mover *mover, int32_t x)
{
    const ckm_i_search *s = mover->s;
    const ckm_i_dataflow_tensor *tensor = &s->df->tensors[x];
    int32_t u = below(mover, tensor->n_users + 1);
    int32_t v = u == tensor->n_users ? tensor->producer : tensor->users[u];
    const ckm_i_ints *again = &s->again[v];
    int32_t k = below(mover, again->n + (v != tensor->producer || again->n == 0));
    return k < again->n ? again->at[k] : v;
}

static bool random_gap(ckm_i_mover *mover, gap *out)
{
    const ckm_i_search *s = mover->s;
    if (s->excess > 0.5 && below(mover, 2) == 0) {
        int32_t t = stage_over(mover);
        int32_t x = tensor_held(mover, t);
        return x >= 0 && gap_around(s, x, t, out);
    }
    int32_t x = random_tensor(mover);
    int32_t producer = s->df->tensors[x].producer;
    int32_t dice = below(mover, 8);
    int32_t t = dice < 2   ? producer + 1 + below(mover, s->df->n_ops - 1 - producer)
                : dice < 5 ? producer + 1 + below(mover, mover->life_end[x] - producer)
                           : random_event(mover, x);
    return t > producer && gap_around(s, x, t, out);
}

// Costs that stage t could do without.
static double extra_cost(const ckm_i_search *s, int32_t t)
{
    double cost = 0.0;
    for (int32_t i = 0; i < s->extra[t].n; i++) {
        cost += (double)s->df->ops[s->extra[t].at[i]].cost;
    }
    return cost;
}

// Flips gaps and settles what follows. Gives up when that would make the total exceed `most_cost`: a long chain of
// operators to run again is not followed to its end. What the stages before the gaps may save comes later and is
// allowed for.
static bool apply(ckm_i_mover *mover, const gap *gaps, int n, double most_cost)
{
    ckm_i_search *s = mover->s;
    for (int i = 0; i < n; i++) {
        most_cost += extra_cost(s, gaps[i].first - 1);
    }
    s->most_cost = most_cost < 9e18 ? (int64_t)most_cost : INT64_MAX;
    s->most_cost = s->most_cost > s->total_cost ? s->most_cost : s->total_cost;
    for (int i = 0; i < n; i++) {
        ckm_i_search_flip(s, gaps[i].x, gaps[i].first, gaps[i].last);
    }
    mover->tried++;
    return ckm_i_search_settle(s);
}

// By how much a move may make things worse: Metropolis' rule with the draw made beforehand.
static double draw_patience(ckm_i_mover *mover)
{
    return mover->temperature > 0.0 ? -mover->temperature * log(1.0 - ckm_i_rng_unit(&mover->rng)) : 0.0;
}

// Keeps or takes back everything since `point`.
static void decide(ckm_i_mover *mover, const ckm_i_search_point *point, bool legal, double patience)
{
    ckm_i_search *s = mover->s;
    double change = (double)(s->total_cost - point->total_cost) + mover->penalty * (s->excess - point->excess);
    if (legal && change <= patience) {
        ckm_i_search_commit(s);
    } else {
        ckm_i_search_undo(s, point);
    }
}

// The most that letting go of gaps can be worth.
static double relief(const ckm_i_mover *mover, const gap *gaps, int n)
{
    double bytes = 0.0;
    for (int i = 0; i < n; i++) {
        const ckm_i_dataflow_tensor *tensors = mover->s->df->tensors;
        bytes += (double)tensors[tensors[gaps[i].x].storage].bytes * (gaps[i].last - gaps[i].first + 1);
    }
    return mover->penalty * fmin(bytes, mover->s->excess);
}

static bool runs(const ckm_i_search *s, int32_t t, int32_t v)
{
    const ckm_i_ints *extra = &s->extra[t];
    for (int32_t i = 0; i < extra->n; i++) {
        if (extra->at[i] == v) {
            return true;
        }
    }
    return v == t;
}

// Letting go of gaps[0] means computing its tensor again in the last stage: adds the gaps of its operands that
// are not there. Returns the number of gaps.
static int add_operand_gaps(const ckm_i_search *s, gap *gaps)
{
    const ckm_dataflow *df = s->df;
    const ckm_i_dataflow_op *op = &df->ops[df->tensors[gaps[0].x].producer];
    int32_t t = gaps[0].last;
    int n = 1;
    for (int32_t i = 0; i < op->n_inputs && n < max_gaps; i++) {
        int32_t y = op->inputs[i];
        bool there = df->tensors[y].pinned || ckm_i_search_holds(s, y, t) || runs(s, t, df->tensors[y].producer);
        for (int g = 1; g < n; g++) {
            there = there || gaps[g].x == y;
        }
        if (!there) {
            gaps[n++] = (gap){y, ckm_i_search_event_before(s, y, t) + 1, t};
        }
    }
    return n;
}

static void random_move(ckm_i_mover *mover)
{
    ckm_i_search *s = mover->s;
    gap gaps[max_gaps];
    int n = 1;
    if (!random_gap(mover, &gaps[0])) {
        mover->tried++;
        return;
    }
    bool held = ckm_i_search_holds(s, gaps[0].x, gaps[0].first);
    int32_t dice = below(mover, 8);
    if (dice < 2 && gaps[0].first < gaps[0].last) {
        // Only a part of the gap: the tensor is then made again in a stage within it, where its own operands may
        // be at hand, and held from there.
        int32_t t = gaps[0].first + 1 + below(mover, gaps[0].last - gaps[0].first);
        if (held) {
            gaps[0].last = t - 1;
        } else {
            gaps[0].first = t;
        }
    } else if (dice < 5 && held) {
        n = add_operand_gaps(s, gaps);
    }
    ckm_i_search_point point = ckm_i_search_now(s);
    double patience = draw_patience(mover);
    double most_cost = (double)s->total_cost + patience + (held ? relief(mover, gaps, n) : 0.0);
    decide(mover, &point, apply(mover, gaps, n, most_cost), patience);
}

// Lets go of something that stage t begins with: of a few, what costs least per byte of excess less. False when
// nothing drawn helps.
static bool eject(ckm_i_mover *mover, int32_t t, double most_cost)
{
    ckm_i_search *s = mover->s;
    ckm_i_search_point point = ckm_i_search_now(s);
    gap best[max_gaps];
    int n_best = 0;
    double best_price = INFINITY;
    for (int i = 0; i < link_samples; i++) {
        gap gaps[max_gaps];
        int32_t x = tensor_held(mover, t);
        if (x < 0 || !gap_around(s, x, t, &gaps[0])) {
            continue;
        }
        int n = below(mover, 2) == 0 ? add_operand_gaps(s, gaps) : 1;
        bool legal = apply(mover, gaps, n, most_cost);
        double less = point.excess - s->excess;
        double price = legal && less > 0.5 ? (double)(s->total_cost - point.total_cost) / less : INFINITY;
        ckm_i_search_undo(s, &point);
        if (price < best_price) {
            best_price = price;
            n_best = n;
            for (int g = 0; g < n; g++) {
                best[g] = gaps[g];
            }
        }
    }
    return n_best > 0 && apply(mover, best, n_best, most_cost);
}

// A gap that ends where its tensor is computed again in one of the stages first..last.
static bool recomputed_gap(ckm_i_mover *mover, int32_t first, int32_t last, gap *out)
{
    const ckm_i_search *s = mover->s;
    for (int i = 0; i < 2 * sample_draws; i++) {
        int32_t t = first + below(mover, last - first + 1);
        const ckm_i_ints *extra = &s->extra[t];
        if (extra->n == 0) {
            continue;
        }
        const ckm_i_dataflow_op *op = &s->df->ops[extra->at[below(mover, extra->n)]];
        int32_t x = op->outputs[below(mover, op->n_outputs)];
        if (!s->df->tensors[x].pinned && !ckm_i_search_holds(s, x, t)) {
            *out = (gap){x, ckm_i_search_event_before(s, x, t) + 1, t};
            return true;
        }
    }
    return false;
}

static void hold_and_eject(ckm_i_mover *mover)
{
    ckm_i_search *s = mover->s;
    gap g;
    mover->tried++;
    if (!recomputed_gap(mover, 0, s->df->n_ops - 1, &g)) {
        return;
    }
    ckm_i_search_point point = ckm_i_search_now(s);
    double patience = draw_patience(mover);
    double most_cost = (double)s->total_cost + patience + mover->penalty * s->excess;
    bool legal = apply(mover, &g, 1, most_cost);
    for (int i = 0; legal && i < max_links && s->excess > point.excess + 0.5; i++) {
        int32_t t = ckm_i_profile_highest(&s->peaks, g.first, g.last);
        legal = eject(mover, t, most_cost);
    }
    decide(mover, &point, legal, patience);
}

// Holds, of a few things computed again in the stages first..last, what saves most without more excess.
static bool fill(ckm_i_mover *mover, int32_t first, int32_t last)
{
    ckm_i_search *s = mover->s;
    ckm_i_search_point point = ckm_i_search_now(s);
    gap best = {-1, 0, 0};
    int64_t best_cost = point.total_cost;
    for (int i = 0; i < link_samples; i++) {
        gap g;
        if (!recomputed_gap(mover, first, last, &g)) {
            break;
        }
        bool legal = apply(mover, &g, 1, (double)point.total_cost);
        if (legal && s->total_cost < best_cost && s->excess <= point.excess + 0.5) {
            best = g;
            best_cost = s->total_cost;
        }
        ckm_i_search_undo(s, &point);
    }
    return best.x >= 0 && apply(mover, &best, 1, (double)point.total_cost);
}

static void drop_and_fill(ckm_i_mover *mover)
{
    ckm_i_search *s = mover->s;
    gap gaps[max_gaps];
    mover->tried++;
    if (!random_gap(mover, &gaps[0]) || !ckm_i_search_holds(s, gaps[0].x, gaps[0].first)) {
        return;
    }
    int n = below(mover, 2) == 0 ? add_operand_gaps(s, gaps) : 1;
    ckm_i_search_point point = ckm_i_search_now(s);
    double patience = draw_patience(mover);
    // What filling brings in is not known yet: as much as the tensor let go of may cost.
    double most_cost = (double)s->total_cost * 1.05 + patience + relief(mover, gaps, n);
    bool legal = apply(mover, gaps, n, most_cost);
    int32_t last = mover->s->df->n_ops - 1;
    for (int i = 0; legal && i < max_links; i++) {
        if (!fill(mover, gaps[0].first, last)) {
            break;
        }
    }
    decide(mover, &point, legal && !s->failed, patience);
}

void ckm_i_mover_step(ckm_i_mover *mover)
{
    int32_t dice = below(mover, 2 * chain_period);
    if (dice == 0) {
        hold_and_eject(mover);
    } else if (dice == 1) {
        drop_and_fill(mover);
    } else {
        random_move(mover);
    }
}

void ckm_i_mover_repair(ckm_i_mover *mover, double deadline_seconds)
{
    enum { patience = 32, clock_period = 16 };
    ckm_i_search *s = mover->s;
    int failures = 0;
    for (int i = 0; s->excess > 0.5 && failures < patience && mover->n_candidates > 0 && !s->failed; i++) {
        if (i % clock_period == 0 && isfinite(deadline_seconds) && ckm_i_clock_seconds() > deadline_seconds) {
            break;
        }
        ckm_i_search_point point = ckm_i_search_now(s);
        int32_t t = ckm_i_profile_highest(&s->peaks, 0, s->df->n_ops - 1);
        if (eject(mover, t, (double)s->total_cost * 1.1)) {
            ckm_i_search_commit(s);
        } else {
            ckm_i_search_undo(s, &point);
            failures++;
        }
    }
    s->excess = ckm_i_profile_excess(&s->peaks);
}

double ckm_i_mover_price(ckm_i_mover *mover)
{
    enum { draws = 256 };
    ckm_i_search *s = mover->s;
    double prices[draws];
    int n = 0;
    ckm_i_search_point point = ckm_i_search_now(s);
    for (int i = 0; i < draws && s->excess > 0.5 && mover->n_candidates > 0; i++) {
        gap g;
        int32_t t = stage_over(mover);
        int32_t x = tensor_held(mover, t);
        if (x < 0 || !gap_around(s, x, t, &g)) {
            continue;
        }
        bool legal = apply(mover, &g, 1, (double)s->total_cost * 1.1);
        double less = point.excess - s->excess;
        if (legal && less > 0.5 && s->total_cost > point.total_cost) {
            prices[n++] = (double)(s->total_cost - point.total_cost) / less;
        }
        ckm_i_search_undo(s, &point);
    }
    qsort(prices, (size_t)n, sizeof *prices, ckm_i_compare_double);
    return n > 0 ? prices[n / 2] : 0.0;
}
