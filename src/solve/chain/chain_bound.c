// SPDX-License-Identifier: Apache-2.0
// A lower bound for graphs that begin with a chain, by a dynamic program over intervals of states.
//
// G(a, b, u) bounds from below what it costs to visit the states in (a, b] in descending order, when state a is at hand
// for free (a = -1: nothing is needed), none of (a, b] is, and u bytes of each visit's memory are taken by
// states up to a:
//
//   G(a, b, u) = min { c(a, b) + G(a, b-1, u)                              if u <= room(b)
//                      c(a, j) + G(j, b, u + w(a, j)) + G(a, j-1, u)       a < j < b, u <= room(j) if j is visited }
//
// with c(a, j) the cost of the operators in (a, j], room(k) the memory that the visit of k leaves for earlier states
// and w(a, j) the least bytes of a state in (a, j]. The proof is in docs/THEORY.md: take for j the largest value
// that "the earliest state in memory" has over all visits.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/chain/chain.h"
#include "solve/core/component_registry.h"
#include "solve/core/structure.h"

enum {
    MAX_STATES = 600,
    MAX_LEVELS = 4096,
};
static const int64_t max_cells = 16000000;  // of the table, 8 bytes each

// Costs in the table are whole numbers in doubles, which take half the time of int64_t: all sums stay below 2^53.
static const double exact_below = 9007199254740992.0;
static const double none = 1e300;

typedef struct bounder {
    const ckm_i_spine *s;
    int32_t n, levels;  // memory is counted in levels 0..levels
    int32_t *weight;    // of state k, rounded down
    int32_t *room;      // of visit k: the last level that fits; -1: not even 0
    double *reach;      // cost of operators 0..k-1 in units of cost_unit, each rounded down
    int64_t cost_unit;  // 1 unless costs are huge
    double *g;          // intervals (a, b], a = -1..n-1, b = a..n-1, by a; levels + 1 values each
} bounder;

static int64_t interval_number(int32_t n, int32_t a, int32_t b)
{
    int64_t r = a + 1;
    return r * (n + 1) - r * (r - 1) / 2 + (b - a);
}

static double *interval(const bounder *t, int32_t a, int32_t b)
{
    return t->g + interval_number(t->n, a, b) * (t->levels + 1);
}

// Bytes a level stands for: the states' common divisor where that gives few enough levels, and else more, rounding
// states down and rooms up, which only lowers the bound.
static int64_t choose_level(bounder *t, int64_t budget_bytes, int64_t work)
{
    const ckm_i_spine *s = t->s;
    int64_t common = 0;
    int64_t most = 0;
    for (int32_t k = 0; k < t->n; k++) {
        common = ckm_i_gcd(common, s->bytes[k]);
        if (s->visit[k] >= 0 && budget_bytes - s->touched[k] > most) {
            most = budget_bytes - s->touched[k];
        }
    }
    int64_t n = t->n + 1;
    int64_t fits = max_cells / (n * (n + 1) / 2) - 1;
    int64_t quick = (work < CKM_I_CHAIN_WORK ? work : CKM_I_CHAIN_WORK) / (n * n * n / 6 + 1);
    int64_t levels = fits < quick ? fits : quick;
    levels = levels < MAX_LEVELS ? levels : MAX_LEVELS;
    levels = levels > 1 ? levels : 1;
    if (common == 0) {
        common = 1;
    }
    int64_t step = most / common > levels ? most / levels + 1 : common;
    t->levels = (int32_t)(most / step);
    return step;
}

static void relax(double *restrict out, const double *restrict upper, const double *restrict lower, double cost,
                  int32_t n)
{
    for (int32_t u = 0; u < n; u++) {
        double value = cost + upper[u] + lower[u];
        out[u] = value < out[u] ? value : out[u];
    }
}

static void fill_interval(bounder *t, int32_t a, int32_t b)
{
    const double *reach = t->reach;
    double *out = interval(t, a, b);
    const double *below = interval(t, a, b - 1);
    bool visited = t->s->visit[b] >= 0;
    for (int32_t u = 0; u <= t->levels; u++) {
        out[u] = !visited ? below[u] : u <= t->room[b] ? reach[b + 1] - reach[a + 1] + below[u] : none;
    }
    int32_t least = INT32_MAX;
    for (int32_t j = a + 1; j < b && visited; j++) {
        least = t->weight[j] < least ? t->weight[j] : least;
        int32_t last = least <= t->levels ? t->levels - least : -1;
        if (t->s->visit[j] >= 0 && t->room[j] < last) {
            last = t->room[j];
        }
        if (last >= 0) {
            relax(out, interval(t, j, b) + least, interval(t, a, j - 1), reach[j + 1] - reach[a + 1], last + 1);
        }
    }
}

static void fill(bounder *t)
{
    for (int32_t a = t->n - 1; a >= -1; a--) {
        double *empty = interval(t, a, a);
        for (int32_t u = 0; u <= t->levels; u++) {
            empty[u] = 0;
        }
        for (int32_t b = a + 1; b < t->n; b++) {
            fill_interval(t, a, b);
        }
    }
}

// Each state is computed at most once a visit. Costs whose sums could leave the exact range are counted in larger
// units, rounded down.
static void set_costs(bounder *t)
{
    double most = (double)t->s->reach[t->n] * (double)t->n * 1.001;
    t->cost_unit = most < exact_below ? 1 : (int64_t)(most / exact_below) + 1;
    for (int32_t k = 0; k < t->n; k++) {
        t->reach[k + 1] = t->reach[k] + (double)((t->s->reach[k + 1] - t->s->reach[k]) / t->cost_unit);
    }
}

static void set_memory(bounder *t, int64_t budget_bytes, int64_t step)
{
    for (int32_t k = 0; k < t->n; k++) {
        int64_t weight = t->s->bytes[k] / step;
        int64_t room = budget_bytes - t->s->touched[k];
        t->weight[k] = weight < INT32_MAX ? (int32_t)weight : INT32_MAX;
        t->room[k] = room < 0 ? -1 : (int32_t)(room / step);
    }
}

// Total cost when the chain takes `whole`: its first pass is in the sum of costs already.
static int64_t total_of(const bounder *t, int64_t sum, double whole)
{
    int64_t more;
    if (whole >= none) {
        return INT64_MAX;
    }
    whole -= t->reach[t->n];
    if (!ckm_i_mul((int64_t)whole, t->cost_unit, &more) || !ckm_i_add(sum, more, &more) || more == INT64_MAX) {
        return INT64_MAX - 1;
    }
    return more;
}

ckm_status ckm_i_chain_bound(const ckm_dataflow *df, const ckm_i_spine *spine, int64_t budget_bytes, int64_t work,
                             int64_t *cost, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bounder t = {.s = spine, .n = spine->n};
    while (t.n > 0 && spine->visit[t.n - 1] < 0) {
        t.n--;  // behind the first visit the chain runs once
    }
    if (t.n == 0 || t.n > MAX_STATES) {
        *cost = df->total_cost;
        return CKM_OK;
    }
    int64_t step = choose_level(&t, budget_bytes, work);
    t.weight = ckm_i_malloc((size_t)t.n, sizeof *t.weight);
    t.room = ckm_i_malloc((size_t)t.n, sizeof *t.room);
    t.reach = ckm_i_calloc((size_t)t.n + 1, sizeof *t.reach);
    t.g = ckm_i_malloc((size_t)(interval_number(t.n, t.n - 1, t.n - 1) + 1) * (size_t)(t.levels + 1), sizeof *t.g);
    if (t.weight == NULL || t.room == NULL || t.reach == NULL || t.g == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    set_costs(&t);
    set_memory(&t, budget_bytes, step);
    fill(&t);
    *cost = total_of(&t, df->total_cost, interval(&t, -1, t.n - 1)[0]);
cleanup:
    free(t.weight);
    free(t.room);
    free(t.reach);
    free(t.g);
    return status;
}

// Bound and schedule of the chain programs, handed in.

// Of the time left, what the bound may take; steps of its program in a second.
static const double bound_share = 0.1, steps_per_second = 1e9;

static int64_t work_of(const ckm_i_solver *solver)
{
    double steps = (solver->deadline_seconds - ckm_i_clock_seconds()) * bound_share * steps_per_second;
    return steps >= (double)CKM_I_CHAIN_WORK ? CKM_I_CHAIN_WORK : steps > 0 ? (int64_t)steps : 0;
}

// The largest double that is not above; costs beyond 2^53 are rounded.
static double at_most(int64_t cost)
{
    double value = (double)cost;
    return cost > (INT64_C(1) << 53) ? nextafter(value, 0.0) : value;
}

// A bound of exact arithmetic for graphs that begin with a chain; silent about all others.
static ckm_status bound(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_spine spine = {0};
    int64_t cost = 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_spine_find(solver->df, &spine, err));
    if (spine.n_visits > 0) {
        ckm_bound_class covers = spine.order_is_free ? CKM_BOUND_ANY : CKM_BOUND_ORDER;
        CKM_I_TRY(ckm_i_chain_bound(solver->df, &spine, solver->budget_bytes, work_of(solver), &cost, err));
        if (cost == INT64_MAX) {
            ckm_i_solver_infeasible(solver, covers, "chain");
        } else {
            ckm_i_solver_bound(solver, at_most(cost), covers, "chain");
        }
    }
cleanup:
    ckm_i_spine_dispose(&spine);
    return status;
}

const ckm_i_component ckm_i_component_chain = {
    .name = "chain",
    .kind = CKM_COMPONENT_BOUNDS,
    .summary = "a bound by dynamic programming, for graphs that begin with a chain",
};
const ckm_i_component ckm_i_component_chain_blocks = {
    .name = "chain-blocks",
    .kind = CKM_COMPONENT_CONSTRUCTS,
    .summary = "a schedule by dynamic programming over a chain of blocks",
};

ckm_status ckm_i_chain_run(ckm_i_solver *solver, ckm_error *err)
{
    if (!ckm_i_solver_should_stop(solver)) {
        CKM_I_CHECK(ckm_i_component_run(solver, &ckm_i_component_chain, bound, err));
    }
    return ckm_i_solver_should_stop(solver)
               ? CKM_OK
               : ckm_i_component_run(solver, &ckm_i_component_chain_blocks, ckm_i_chain_schedule, err);
}
