// SPDX-License-Identifier: Apache-2.0
// dtr: Dynamic Tensor Rematerialization (Kirisame et al., ICLR 2021, arXiv 2006.09616) played offline. Operators run in
// order; where memory is full, the storage of the least h is evicted,
//
//     h = (c0 + cost of the evicted storages next to it) / (bytes * staleness)            section 4.1, h-DTR^eq
//
// and what was evicted is computed again, recursively, when an operator reads it. "Next to it" is the paper's approximation
// e~*: evicted neighbours belong to components that only ever grow together (union-find); a storage that comes back takes
// its cost out of its component. Unlike the paper's, which does not know the future, storages that nothing needs any more
// are dropped, and results stay. The rule counts memory without in-place pairs, so it is played with several limits, about
// the largest with which the schedule fits: the core frees as early as the order of computations allows, and measures.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "schedule/schedule.h"
#include "solve/core/solver.h"

// Limits, as shares of what the budget leaves in addition to what is always there: bisection between these, this often, and then, if any
// fits, as many above and below the largest, so far apart, since peaks and costs do not quite follow the limit.
static const double least_share = 0.5, most_share = 5.0, step_share = 0.02;
enum { BISECTIONS = 9, NEIGHBOURS = 6 };

// Computations of an operator on average: what needs more has begun to run in circles.
enum { MOST_COMPUTATIONS = 16 };

// Storages looked at between two looks at the clock.
enum { CHECK_PERIOD = 1000000 };

// What owns memory: a tensor that is no view, and those on its storage. Indexed by the owner.
typedef struct storage {
    int32_t n_live;          // tensors on it that are live
    int32_t n_locks;         // operators under way that read it
    int32_t at;              // in the list of live storages, -1
    int32_t component;       // of evicted storages, while it is one of them, else -1
    int32_t until;           // no operator after this one needs it; n_ops: a result
    bool fixed;              // cannot be computed a second time, or is a result
    int64_t cost;            // c0: of computing all that lies on it
    double touched_seconds;  // when it was last written or read, in costs
} storage;

typedef struct component {
    int32_t parent;
    double cost;
    int32_t counted;  // the last sum that it went into
} component;

typedef struct machine {
    const ckm_dataflow *df;
    ckm_i_solver *solver;
    int64_t limit_bytes, used_bytes;
    double clock;  // cost of all that has run
    storage *storages;
    bool *live;                     // per tensor
    int32_t *until;                 // per operator: the last one for whose sake it may run
    int32_t *tensors_at, *tensors;  // of each storage
    int32_t *dying_at, *dying;      // storages by `until`
    int32_t *present;
    int32_t n_present;
    component *components;
    int32_t n_components, cap_components;
    int32_t n_sums;
    int32_t *order;  // the computations
    int64_t n_order, cap_order;
    int32_t *stack;  // operators under way
    int32_t n_stack, cap_stack;
    int32_t frontier;
    int64_t looked_at;  // storages, since the last look at the clock
    bool failed;        // memory ran out
} machine;

static bool is_on_something(const machine *m, int32_t x)
{
    return !m->df->tensors[x].pinned;
}

// ---- What does not change from limit to limit

// Lists of items by a key below n, from counts of them: at[k] .. at[k + 1].
static void lists_begin(int32_t *at, int32_t n)
{
    int32_t sum = 0;
    for (int32_t k = 0; k <= n; k++) {
        int32_t count = at[k];
        at[k] = sum;
        sum += count;
    }
}

static void lists_end(int32_t *at, int32_t n)
{
    for (int32_t k = n; k > 0; k--) {
        at[k] = at[k - 1];
    }
    at[0] = 0;
}

// For whose sake an operator may run again: results are kept, so what only leads to them is done with when they are there.
static void find_ends(machine *m)
{
    const ckm_dataflow *df = m->df;
    for (int32_t v = df->n_ops - 1; v >= 0; v--) {
        m->until[v] = v;
        for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
            const ckm_i_dataflow_tensor *x = &df->tensors[df->ops[v].outputs[i]];
            for (int32_t u = 0; u < x->n_users && !x->is_result; u++) {
                int32_t end = m->until[x->users[u]];
                m->until[v] = end > m->until[v] ? end : m->until[v];
            }
        }
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        storage *s = &m->storages[tensor->storage];
        if (!is_on_something(m, x)) {
            continue;
        }
        s->cost += df->ops[tensor->producer].cost;
        s->fixed = s->fixed || tensor->is_result || !df->ops[tensor->producer].recomputable;
        int32_t end = tensor->is_result ? df->n_ops : tensor->producer;
        for (int32_t u = 0; u < tensor->n_users; u++) {
            end = m->until[tensor->users[u]] > end ? m->until[tensor->users[u]] : end;
        }
        s->until = end > s->until ? end : s->until;
        m->tensors_at[tensor->storage]++;
    }
}

static void fill_lists(machine *m)
{
    const ckm_dataflow *df = m->df;
    lists_begin(m->tensors_at, df->n_tensors);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (is_on_something(m, x)) {
            m->tensors[m->tensors_at[df->tensors[x].storage]++] = x;
        }
    }
    lists_end(m->tensors_at, df->n_tensors);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->dying_at[m->storages[x].until] += is_on_something(m, x) && df->tensors[x].storage == x;
    }
    lists_begin(m->dying_at, df->n_ops + 1);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (is_on_something(m, x) && df->tensors[x].storage == x) {
            m->dying[m->dying_at[m->storages[x].until]++] = x;
        }
    }
    lists_end(m->dying_at, df->n_ops + 1);
}

static void dispose(machine *m)
{
    free(m->storages);
    free(m->live);
    free(m->until);
    free(m->tensors_at);
    free(m->tensors);
    free(m->dying_at);
    free(m->dying);
    free(m->present);
    free(m->components);
    free(m->order);
    free(m->stack);
}

static ckm_status create(ckm_i_solver *solver, machine *m, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    size_t n_tensors = (size_t)df->n_tensors;
    size_t n_ops = (size_t)df->n_ops;
    *m = (machine){.df = df, .solver = solver};
    m->storages = ckm_i_calloc(n_tensors, sizeof *m->storages);
    m->live = ckm_i_calloc(n_tensors, sizeof *m->live);
    m->until = ckm_i_malloc(n_ops, sizeof *m->until);
    m->tensors_at = ckm_i_calloc(n_tensors + 1, sizeof *m->tensors_at);
    m->tensors = ckm_i_malloc(n_tensors, sizeof *m->tensors);
    m->dying_at = ckm_i_calloc(n_ops + 2, sizeof *m->dying_at);
    m->dying = ckm_i_malloc(n_tensors, sizeof *m->dying);
    m->present = ckm_i_malloc(n_tensors, sizeof *m->present);
    if (m->storages == NULL || m->live == NULL || m->until == NULL || m->tensors_at == NULL || m->tensors == NULL ||
        m->dying_at == NULL || m->dying == NULL || m->present == NULL) {
        dispose(m);
        return ckm_i_error_memory(err);
    }
    find_ends(m);
    fill_lists(m);
    return CKM_OK;
}

static void reset(machine *m, int64_t limit_bytes)
{
    const ckm_dataflow *df = m->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        storage *s = &m->storages[x];
        s->n_live = s->n_locks = 0;
        s->at = s->component = -1;
        m->live[x] = df->tensors[x].pinned;
    }
    m->limit_bytes = limit_bytes;
    m->used_bytes = df->resident_bytes;
    m->clock = 0.0;
    m->n_present = m->n_components = m->n_sums = m->n_stack = m->frontier = 0;
    m->n_order = 0;
}

// ---- Components of evicted storages

static int32_t find(machine *m, int32_t c)
{
    while (m->components[c].parent != c) {
        m->components[c].parent = m->components[m->components[c].parent].parent;
        c = m->components[c].parent;
    }
    return c;
}

// Calls `visit` for every evicted storage that s is computed from or that is computed from s, as long as it returns true.
static void visit_neighbours(machine *m, int32_t s, bool (*visit)(machine *m, int32_t s, int32_t other, void *to),
                             void *to)
{
    const ckm_dataflow *df = m->df;
    bool goes_on = true;
    for (int32_t k = m->tensors_at[s]; k < m->tensors_at[s + 1] && goes_on; k++) {
        const ckm_i_dataflow_tensor *x = &df->tensors[m->tensors[k]];
        const ckm_i_dataflow_op *maker = &df->ops[x->producer];
        for (int32_t i = 0; i < maker->n_inputs && goes_on; i++) {
            int32_t other = df->tensors[maker->inputs[i]].storage;
            goes_on = m->storages[other].component < 0 || visit(m, s, other, to);
        }
        for (int32_t u = 0; u < x->n_users && goes_on; u++) {
            const ckm_i_dataflow_op *user = &df->ops[x->users[u]];
            for (int32_t i = 0; i < user->n_outputs && goes_on; i++) {
                int32_t other = df->tensors[user->outputs[i]].storage;
                goes_on = other == s || m->storages[other].component < 0 || visit(m, s, other, to);
            }
        }
    }
}

typedef struct sum {
    double cost, most;
} sum;

// Up to what is too much already.
static bool add_cost(machine *m, int32_t s, int32_t other, void *to)
{
    sum *lost = to;
    (void)s;
    component *c = &m->components[find(m, m->storages[other].component)];
    if (c->counted != m->n_sums) {
        c->counted = m->n_sums;
        lost->cost += c->cost;
    }
    return lost->cost <= lost->most;
}

static bool join(machine *m, int32_t s, int32_t other, void *to)
{
    (void)to;
    int32_t a = find(m, m->storages[s].component);
    int32_t b = find(m, m->storages[other].component);
    if (a != b) {
        m->components[b].parent = a;
        m->components[a].cost += m->components[b].cost;
    }
    return true;
}

// h of a storage: what is lost with it for what is won. INFINITY where it is more than `least`, which is seen early.
static double score(machine *m, int32_t s, double least)
{
    const double rounding = 1.0 + 1e-12;
    double won = (double)m->df->tensors[s].bytes * (m->clock - m->storages[s].touched_seconds + 1.0);
    sum lost = {(double)m->storages[s].cost, least * won * rounding};
    if (lost.cost <= lost.most) {
        m->n_sums++;
        visit_neighbours(m, s, add_cost, &lost);
    }
    return lost.cost <= lost.most ? lost.cost / won : INFINITY;
}

// ---- Memory

static void set_absent(machine *m, int32_t s)
{
    storage *gone = &m->storages[s];
    for (int32_t k = m->tensors_at[s]; k < m->tensors_at[s + 1]; k++) {
        m->live[m->tensors[k]] = false;
    }
    m->used_bytes -= m->df->tensors[s].bytes;
    m->present[gone->at] = m->present[--m->n_present];
    m->storages[m->present[gone->at]].at = gone->at;
    gone->n_live = 0;
    gone->at = -1;
}

static void leave_component(machine *m, int32_t s)
{
    storage *back = &m->storages[s];
    if (back->component >= 0) {
        m->components[find(m, back->component)].cost -= (double)back->cost;
        back->component = -1;
    }
}

static void evict(machine *m, int32_t s)
{
    set_absent(m, s);
    if (!CKM_I_GROW(m->components, m->n_components, m->cap_components)) {
        m->failed = true;
        return;
    }
    m->storages[s].component = m->n_components;
    m->components[m->n_components] = (component){m->n_components, (double)m->storages[s].cost, -1};
    m->n_components++;
    visit_neighbours(m, s, join, NULL);
}

// Evicts until this many more bytes fit. False when nothing is left to evict.
static bool make_room(machine *m, int64_t bytes)
{
    while (m->used_bytes + bytes > m->limit_bytes) {
        int32_t best = -1;
        double least = INFINITY;
        for (int32_t i = 0; i < m->n_present; i++) {
            const storage *s = &m->storages[m->present[i]];
            if (s->n_locks > 0 || s->fixed || m->df->tensors[m->present[i]].bytes == 0) {
                continue;
            }
            double h = score(m, m->present[i], least);
            if (h < least || (h == least && m->present[i] < best)) {
                least = h;
                best = m->present[i];
            }
        }
        m->looked_at += m->n_present;
        bool looks_up = m->looked_at >= CHECK_PERIOD;
        m->looked_at = looks_up ? 0 : m->looked_at;
        if (best < 0 || (looks_up && ckm_i_solver_should_stop(m->solver))) {
            return false;
        }
        evict(m, best);
        if (m->failed) {
            return false;
        }
    }
    return true;
}

static void drop_when_done(machine *m, int32_t s, int32_t after)
{
    if (m->storages[s].until <= after) {
        if (m->storages[s].n_live > 0 && m->storages[s].n_locks == 0) {
            set_absent(m, s);
        }
        leave_component(m, s);
    }
}

// ---- The run

static void touch_inputs(machine *m, const ckm_i_dataflow_op *op, int32_t locks)
{
    for (int32_t i = 0; i < op->n_inputs; i++) {
        storage *s = &m->storages[m->df->tensors[op->inputs[i]].storage];
        s->n_locks += locks;
        s->touched_seconds = m->clock;
    }
}

static bool begin(machine *m, int32_t v)
{
    if (!CKM_I_GROW(m->stack, m->n_stack, m->cap_stack)) {
        m->failed = true;
        return false;
    }
    m->stack[m->n_stack++] = v;
    touch_inputs(m, &m->df->ops[v], 1);
    return true;
}

// Runs the operator on top of the stack, whose operands are all there.
static bool run_top(machine *m)
{
    const ckm_dataflow *df = m->df;
    int32_t v = m->stack[m->n_stack - 1];
    const ckm_i_dataflow_op *op = &df->ops[v];
    int64_t bytes = op->workspace_bytes;
    // Locked first, so that what is there already stays.
    for (int32_t i = 0; i < op->n_outputs; i++) {
        m->storages[df->tensors[op->outputs[i]].storage].n_locks++;
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t owner = df->tensors[op->outputs[i]].storage;
        bytes += owner == op->outputs[i] && m->storages[owner].n_live == 0 && !df->tensors[owner].pinned
                     ? df->tensors[owner].bytes
                     : 0;
    }
    if (!make_room(m, bytes)) {
        return false;
    }
    if (!CKM_I_GROW(m->order, m->n_order, m->cap_order)) {
        m->failed = true;
        return false;
    }
    m->order[m->n_order++] = v;
    m->clock += (double)op->cost;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t x = op->outputs[i];
        int32_t owner = df->tensors[x].storage;
        storage *s = &m->storages[owner];
        s->n_locks--;
        if (df->tensors[x].pinned || m->live[x]) {
            continue;
        }
        if (s->n_live++ == 0) {
            m->used_bytes += df->tensors[owner].bytes;
            s->at = m->n_present;
            m->present[m->n_present++] = owner;
            leave_component(m, owner);
        }
        m->live[x] = true;
        s->touched_seconds = m->clock;
    }
    m->n_stack--;
    touch_inputs(m, op, -1);
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (!df->tensors[op->outputs[i]].pinned) {
            drop_when_done(m, df->tensors[op->outputs[i]].storage, m->frontier - 1);
        }
    }
    return true;
}

// The first computation of operator v, and whatever has to be computed again for it.
static bool advance(machine *m, int32_t v)
{
    if (!begin(m, v)) {
        return false;
    }
    while (m->n_stack > 0) {
        const ckm_i_dataflow_op *op = &m->df->ops[m->stack[m->n_stack - 1]];
        int32_t missing = 0;
        while (missing < op->n_inputs && m->live[op->inputs[missing]]) {
            missing++;
        }
        bool goes_on = missing < op->n_inputs ? begin(m, m->df->tensors[op->inputs[missing]].producer) : run_top(m);
        if (!goes_on || m->n_order > (int64_t)MOST_COMPUTATIONS * m->df->n_ops) {
            return false;
        }
    }
    m->frontier = v + 1;
    for (int32_t k = m->dying_at[v]; k < m->dying_at[v + 1]; k++) {
        drop_when_done(m, m->dying[k], v);
    }
    return true;
}

// Plays with a share of the budget as the limit and hands in what comes out. *peak_bytes is that of the schedule, -1 when
// there is none.
static ckm_status play(machine *m, double share, int64_t *peak_bytes, ckm_error *err)
{
    double room = (double)(m->solver->budget_bytes - m->df->resident_bytes);
    double limit = (double)m->df->resident_bytes + room * share;
    ckm_schedule *schedule = NULL;
    ckm_simulation facts = {.peak_bytes = -1};
    ckm_status status = CKM_OK;
    bool ends = true;
    reset(m, limit < 9e18 ? (int64_t)limit : INT64_MAX);
    for (int32_t v = 0; v < m->df->n_ops && ends; v++) {
        ends = advance(m, v);
    }
    if (m->failed) {
        return ckm_i_error_memory(err);
    }
    if (ends) {
        CKM_I_TRY(ckm_i_schedule_from_order(m->df, m->order, m->n_order, &schedule, err));
        CKM_I_TRY(ckm_i_solver_offer_schedule(m->solver, &schedule, "dtr", &facts, err));
    }
    *peak_bytes = facts.peak_bytes;
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    machine m;
    ckm_status status = CKM_OK;  // where there is no time for a single game
    CKM_I_CHECK(create(solver, &m, err));
    double low = least_share;
    double high = most_share;
    int64_t peak = 0;
    bool fits = false;  // any of them
    for (int i = 0; i < BISECTIONS && !ckm_i_solver_should_stop(solver); i++) {
        // The budget itself first, which is enough where little has to go.
        double share = i == 0 ? 1.0 : low + (high - low) / 2.0;
        CKM_I_TRY(play(&m, share, &peak, err));
        fits = fits || (peak >= 0 && peak <= solver->budget_bytes);
        if (peak > solver->budget_bytes) {
            high = share;
        } else {
            low = share;
        }
    }
    for (int i = -NEIGHBOURS; i <= NEIGHBOURS && fits && !ckm_i_solver_should_stop(solver); i++) {
        CKM_I_TRY(play(&m, low * (1.0 + step_share * i), &peak, err));
    }
cleanup:
    dispose(&m);
    return status;
}

const ckm_i_strategy ckm_i_strategy_dtr = {
    .name = "dtr",
    .summary = "evict what is stale and cheap per byte, recompute on demand (h-DTR, Kirisame et al. 2021)",
    .run = run,
};
