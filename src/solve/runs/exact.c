// SPDX-License-Identifier: Apache-2.0
// The exact search: A* from the end of a schedule to its beginning, over what still has to run for the first time and what has to be
// in memory then.
#include "solve/runs/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bitset.h"
#include "base/checked.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/core/component_registry.h"
#include "solve/core/structure.h"
#include "solve/floor/pebbling.h"

// Larger graphs are not tried. Of the pairs of an operator with more than these, the saving is an estimate.
enum { MOST_OPS = 80, MOST_PAIRS = 16, LOOKS_PER_CLOCK = 256, ENTRIES_PER_STATE = 2, MOST_PLACES_PER_STATE = 4 };

// Room for states.
static const int64_t usual_bytes = INT64_C(256) << 20;

// All computations so far, from the end of the schedule: before them the first `next` operators have had their first run, and the
// set is in memory.
typedef struct state {
    int64_t again_cost;  // of runs that are not the first
    int32_t next, via;   // via: the computation that leads from here to the state `to`
    int32_t to;
    bool is_priced, is_settled;
} state;

typedef struct entry {
    int64_t least_cost;  // of runs that are not the first, in any schedule that goes through the state
    int32_t state;
} entry;

// A tensor alone on its storage, and what it costs at least to make a byte of it again.
typedef struct priced {
    double each;  // INFINITY: it cannot be made again
    int64_t bytes;
    int32_t slot, op;
} priced;

typedef struct search {
    ckm_i_solver *solver;
    const ckm_dataflow *df;
    ckm_i_pebbling p;  // the rules: what is in memory while an operator runs
    size_t words;      // of a set
    state *states;
    uint64_t *sets;
    int32_t n_states, cap_states, most_states;
    int32_t *table;
    int64_t table_size;
    entry *heap;
    int64_t n_heap, cap_heap;
    int64_t most_cost;  // of runs again: what costs as much is no better than what is known, or no number holds it
    // For the guide: tensors, the cheapest first; by operator what may be in memory with it while it runs, and by operator and slot
    // whether it reads that, and which of the operators before it is the last to do so, -1; room for the largest of these.
    priced *priced;
    int32_t n_priced;
    int64_t *room_bytes;
    bool *reads;
    int32_t *last_user, *until, *priced_as;
    int64_t *change_bytes;
    int64_t cost_gcd;
    int32_t *slots;  // of the set at hand
    int32_t n_slots;
    uint64_t *child;
    bool is_full;  // for want of room something was left out
    bool is_dear;  // something was that costs too much
    ckm_error *err;
} search;

static uint64_t *set_of(const search *s, int32_t i)
{
    return s->sets + (size_t)i * s->words;
}

static uint64_t hash_of(const search *s, const uint64_t *set, int32_t next)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)next;
    for (size_t w = 0; w < s->words; w++) {
        hash = (hash ^ set[w]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

// Where a state is in the table, or where it would go.
static int64_t find(const search *s, const uint64_t *set, int32_t next)
{
    uint64_t mask = (uint64_t)s->table_size - 1;
    uint64_t at = hash_of(s, set, next) & mask;
    for (;; at = (at + 1) & mask) {
        int32_t i = s->table[at];
        if (i < 0 || (s->states[i].next == next && memcmp(set_of(s, i), set, s->words * sizeof *set) == 0)) {
            return (int64_t)at;
        }
    }
}

static bool grow_table(search *s)
{
    int64_t size = s->table_size == 0 ? 1024 : 2 * s->table_size;
    int32_t *table = ckm_i_malloc((size_t)size, sizeof *table);
    if (table == NULL) {
        return false;
    }
    free(s->table);
    s->table = table;
    s->table_size = size;
    memset(table, 0xff, (size_t)size * sizeof *table);
    for (int32_t i = 0; i < s->n_states; i++) {
        table[find(s, set_of(s, i), s->states[i].next)] = i;
    }
    return true;
}

static bool grow_states(search *s)
{
    int32_t cap = s->cap_states == 0 ? 1024 : 2 * s->cap_states;
    cap = cap < s->most_states ? cap : s->most_states;
    state *states = ckm_i_realloc(s->states, (size_t)cap, sizeof *states);
    if (states == NULL) {
        return false;
    }
    s->states = states;
    uint64_t *sets = ckm_i_realloc(s->sets, (size_t)cap, s->words * sizeof *sets);
    if (sets == NULL) {
        return false;
    }
    s->sets = sets;
    s->cap_states = cap;
    return true;
}

static bool comes_first(const search *s, entry a, entry b)
{
    if (a.least_cost != b.least_cost) {
        return a.least_cost < b.least_cost;
    }
    return s->states[a.state].next < s->states[b.state].next;
}

static bool push(search *s, entry e)
{
    if (s->n_heap >= (int64_t)ENTRIES_PER_STATE * s->most_states) {
        s->is_full = true;
        return true;
    }
    if (!CKM_I_GROW(s->heap, s->n_heap, s->cap_heap)) {
        return false;
    }
    int64_t at = s->n_heap++;
    for (; at > 0 && comes_first(s, e, s->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        s->heap[at] = s->heap[(at - 1) / 2];
    }
    s->heap[at] = e;
    return true;
}

static entry pop(search *s)
{
    entry top = s->heap[0];
    entry last = s->heap[--s->n_heap];
    int64_t at = 0;
    for (int64_t child = 1; child < s->n_heap; child = 2 * at + 1) {
        child += child + 1 < s->n_heap && comes_first(s, s->heap[child + 1], s->heap[child]);
        if (!comes_first(s, s->heap[child], last)) {
            break;
        }
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = last;
    return top;
}

// Least cost of runs that are not the first, in the beginning of a schedule that ends with the set at hand in memory, when the first
// `next` operators have run: at each first run before that, of what has been made and is needed later more may not fit than
// what is made again. INT64_MAX: there is no such beginning.
static int64_t guide(const search *s, const uint64_t *set, int32_t next)
{
    const ckm_i_pebbling *p = &s->p;
    const int32_t *last_user = s->last_user + (size_t)next * (size_t)p->n_slots;
    double most = 0.0;
    memset(s->change_bytes, 0, ((size_t)next + 1) * sizeof *s->change_bytes);
    for (int32_t i = 0; i < s->n_priced; i++) {
        const priced *x = &s->priced[i];
        s->until[i] = ckm_i_bits_get(set, x->slot) ? next : last_user[x->slot];
        if (x->op + 1 < s->until[i]) {
            s->change_bytes[x->op + 1] += x->bytes;
            s->change_bytes[s->until[i]] -= x->bytes;
        }
    }
    int64_t held = 0;
    for (int32_t u = 0; u < next; u++) {
        held += s->change_bytes[u];
        // What the operator itself reads counts there.
        int64_t excess = held - s->room_bytes[u];
        for (int32_t k = p->needs_at[u]; k < p->needs_at[u + 1] && excess > 0; k++) {
            int32_t i = s->priced_as[p->needs[k]];
            excess -= i >= 0 && u < s->until[i] ? s->priced[i].bytes : 0;
        }
        if (excess <= 0) {
            continue;
        }
        const bool *reads = s->reads + (size_t)u * (size_t)p->n_slots;
        double cost = 0.0;
        for (int32_t i = 0; i < s->n_priced && excess > 0; i++) {
            const priced *x = &s->priced[i];
            if (x->op < u && u < s->until[i] && !reads[x->slot]) {
                cost += x->each * (double)(x->bytes < excess ? x->bytes : excess);
                excess -= x->bytes;
            }
        }
        if (excess > 0 || cost == INFINITY) {
            return INT64_MAX;
        }
        most = cost > most ? cost : most;
    }
    return (int64_t)fmin(ckm_i_cost_round_up(most, s->cost_gcd), 4e18);
}

// The child set as a state, `at_least` being known of all schedules that come this way.
static ckm_status reach(search *s, int32_t next, int32_t via, int32_t to, int64_t again_cost, int64_t at_least)
{
    if (again_cost >= s->most_cost) {
        s->is_dear = true;
        return CKM_OK;
    }
    if ((int64_t)s->n_states * 2 >= s->table_size && !grow_table(s)) {
        return ckm_i_error_memory(s->err);
    }
    int64_t at = find(s, s->child, next);
    int32_t i = s->table[at];
    if (i >= 0 && s->states[i].again_cost <= again_cost) {
        return CKM_OK;
    }
    if (i < 0 && s->n_states == s->most_states) {
        s->is_full = true;
        return CKM_OK;
    }
    if (i < 0) {
        if (s->n_states == s->cap_states && !grow_states(s)) {
            return ckm_i_error_memory(s->err);
        }
        i = s->n_states++;
        s->table[at] = i;
        memcpy(set_of(s, i), s->child, s->words * sizeof *s->child);
    }
    s->states[i] = (state){.again_cost = again_cost, .next = next, .via = via, .to = to};
    int64_t least = again_cost > at_least ? again_cost : at_least;
    return push(s, (entry){least, i}) ? CKM_OK : ckm_i_error_memory(s->err);
}

// Whether the move made last takes no more room than it gives, whatever else is in memory: it needs what is alone on its storage.
static bool only_helps(const search *s)
{
    const ckm_i_pebbling *p = &s->p;
    int64_t bytes = 0;
    for (int32_t k = 0; k < p->n_removed; k++) {
        int32_t x = p->tensor_of[p->removed[k]];
        bytes += p->shares_storage[x] ? 0 : s->df->tensors[x].bytes;
    }
    for (int32_t k = 0; k < p->n_added; k++) {
        int32_t x = p->tensor_of[p->added[k]];
        bytes = p->shares_storage[x] ? -1 : bytes - s->df->tensors[x].bytes;
        if (bytes < 0) {
            return false;
        }
    }
    return true;
}

// Operator v as the computation before the state at hand. *only: no other needs to be looked at.
static ckm_status go_back(search *s, int32_t i, int32_t v, bool is_first, int64_t at_least, bool *only)
{
    ckm_i_pebbling *p = &s->p;
    int64_t cost = s->states[i].again_cost;
    int64_t peak = ckm_i_pebbling_go_back(p, v, s->slots, s->n_slots);
    ckm_status status = CKM_OK;
    if (!is_first && !ckm_i_add(cost, s->df->ops[v].cost, &cost)) {
        cost = INT64_MAX;
    }
    *only = is_first && peak <= s->solver->budget_bytes && only_helps(s);
    if (peak <= s->solver->budget_bytes) {
        memcpy(s->child, set_of(s, i), s->words * sizeof *s->child);
        for (int32_t k = 0; k < p->n_removed; k++) {
            ckm_i_bits_clear(s->child, p->removed[k]);
        }
        for (int32_t k = 0; k < p->n_added; k++) {
            ckm_i_bits_set(s->child, p->added[k]);
        }
        status = reach(s, s->states[i].next - is_first, v, i, cost, at_least);
    }
    ckm_i_pebbling_undo(p);
    return status;
}

static ckm_status extend(search *s, int32_t i, int64_t at_least)
{
    ckm_i_pebbling *p = &s->p;
    int32_t next = s->states[i].next;
    ckm_status status = CKM_OK;
    s->n_slots = 0;
    for (int32_t k = 0; k < p->n_slots; k++) {
        if (ckm_i_bits_get(set_of(s, i), k)) {
            ckm_i_pebbling_add(p, k);
            s->slots[s->n_slots++] = k;
        }
    }
    bool only = false;
    CKM_I_TRY(go_back(s, i, next - 1, true, at_least, &only));
    int32_t last = -1;
    for (int32_t k = 0; k < s->n_slots && !only; k++) {
        int32_t v = p->op_of[s->slots[k]];
        if (v != last && s->df->ops[v].recomputable && !s->df->tensors[p->tensor_of[s->slots[k]]].pinned) {
            CKM_I_TRY(go_back(s, i, v, false, at_least, &only));
            last = v;
        }
    }
cleanup:
    for (int32_t k = 0; k < s->n_slots; k++) {
        ckm_i_pebbling_remove(p, s->slots[k]);
    }
    return status;
}

static ckm_status hand_in(const search *s, int32_t i)
{
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    int64_t n = 0;
    for (int32_t k = i; s->states[k].to >= 0; k = s->states[k].to) {
        n++;
    }
    int32_t *order = ckm_i_malloc((size_t)n, sizeof *order);
    if (order == NULL) {
        return ckm_i_error_memory(s->err);
    }
    n = 0;
    for (int32_t k = i; s->states[k].to >= 0; k = s->states[k].to) {
        order[n++] = s->states[k].via;
    }
    CKM_I_TRY(ckm_i_schedule_from_order(s->df, order, n, &schedule, s->err));
    status = ckm_i_solver_offer_schedule(s->solver, &schedule, "exact", NULL, s->err);
cleanup:
    free(order);
    return status;
}

static int compare_priced(const void *a, const void *b)
{
    const priced *x = a;
    const priced *y = b;
    return x->each != y->each ? (x->each > y->each) - (x->each < y->each) : (x->slot > y->slot) - (x->slot < y->slot);
}

// What all outputs of an operator cost a byte, at least: some may not be needed.
static double price_of(const search *s, int32_t v)
{
    const ckm_i_dataflow_op *op = &s->df->ops[v];
    int64_t bytes = 0;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        bytes += s->df->tensors[op->outputs[i]].bytes;
    }
    return op->recomputable ? (double)op->cost / (double)bytes : INFINITY;
}

static ckm_status begin_guide(search *s)
{
    const ckm_dataflow *df = s->df;
    ckm_i_pebbling *p = &s->p;
    size_t n = (size_t)p->n_slots;
    s->priced = ckm_i_malloc(n, sizeof *s->priced);
    s->until = ckm_i_malloc(n, sizeof *s->until);
    s->priced_as = ckm_i_malloc(n, sizeof *s->priced_as);
    s->change_bytes = ckm_i_malloc((size_t)df->n_ops + 1, sizeof *s->change_bytes);
    s->room_bytes = ckm_i_malloc((size_t)df->n_ops, sizeof *s->room_bytes);
    s->reads = ckm_i_calloc((size_t)df->n_ops * n, sizeof *s->reads);
    s->last_user = ckm_i_malloc(((size_t)df->n_ops + 1) * n, sizeof *s->last_user);
    if (s->priced == NULL || s->until == NULL || s->priced_as == NULL || s->change_bytes == NULL ||
        s->room_bytes == NULL || s->reads == NULL || s->last_user == NULL) {
        return ckm_i_error_memory(s->err);
    }
    for (int32_t k = 0; k < p->n_slots; k++) {
        s->last_user[k] = -1;
        if (!p->shares_storage[p->tensor_of[k]] && df->tensors[p->tensor_of[k]].bytes > 0) {
            s->priced[s->n_priced++] = (priced){price_of(s, p->op_of[k]), df->tensors[p->tensor_of[k]].bytes, k,
                                                p->op_of[k]};
        }
    }
    for (int32_t k = 0; k < p->n_slots; k++) {
        s->priced_as[k] = -1;
    }
    qsort(s->priced, (size_t)s->n_priced, sizeof *s->priced, compare_priced);
    for (int32_t i = 0; i < s->n_priced; i++) {
        s->priced_as[s->priced[i].slot] = i;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        s->cost_gcd = ckm_i_gcd(s->cost_gcd, df->ops[v].cost);
        s->room_bytes[v] = s->solver->budget_bytes - ckm_i_pebbling_go_back(p, v, NULL, 0);
        ckm_i_pebbling_undo(p);
        memcpy(s->last_user + ((size_t)v + 1) * n, s->last_user + (size_t)v * n, n * sizeof *s->last_user);
        for (int32_t i = p->needs_at[v]; i < p->needs_at[v + 1]; i++) {
            s->reads[(size_t)v * n + (size_t)p->needs[i]] = true;
            s->last_user[((size_t)v + 1) * n + (size_t)p->needs[i]] = v;
        }
    }
    s->cost_gcd = s->cost_gcd > 0 ? s->cost_gcd : 1;
    return CKM_OK;
}

static ckm_status begin(search *s, int64_t most_bytes)
{
    const ckm_dataflow *df = s->df;
    CKM_I_CHECK(ckm_i_pebbling_init_again(&s->p, df, s->err));
    s->words = ckm_i_bits_words(s->p.n_slots > 0 ? s->p.n_slots : 1);
    s->slots = ckm_i_malloc((size_t)s->p.n_slots, sizeof *s->slots);
    s->child = ckm_i_calloc(s->words, sizeof *s->child);
    if (s->slots == NULL || s->child == NULL) {
        return ckm_i_error_memory(s->err);
    }
    CKM_I_CHECK(begin_guide(s));
    size_t each = sizeof *s->states + s->words * sizeof *s->sets + MOST_PLACES_PER_STATE * sizeof *s->table +
                  ENTRIES_PER_STATE * sizeof *s->heap;
    int64_t most = most_bytes / (int64_t)each;
    s->most_states = most < INT32_MAX / 4 ? (int32_t)most : INT32_MAX / 4;
    s->most_cost = s->solver->best_schedule != NULL ? s->solver->best_cost : INT64_MAX;
    s->most_cost -= df->total_cost;
    for (int32_t k = 0; k < s->p.n_slots; k++) {
        if (df->tensors[s->p.tensor_of[k]].is_result) {
            ckm_i_bits_set(s->child, k);
        }
    }
    return reach(s, df->n_ops, -1, -1, 0, 0);
}

// Whether a state is known that is no dearer and needs one tensor less: what can be made of this one can be made of that.
static bool is_dominated(const search *s, int32_t i)
{
    memcpy(s->child, set_of(s, i), s->words * sizeof *s->child);
    bool found = false;
    for (size_t w = 0; w < s->words && !found; w++) {
        for (uint64_t bits = s->child[w], rest = bits; rest != 0 && !found; rest &= rest - 1) {
            s->child[w] = bits & ~(rest & -rest);
            int32_t k = s->table[find(s, s->child, s->states[i].next)];
            found = k >= 0 && s->states[k].again_cost <= s->states[i].again_cost;
            s->child[w] = bits;
        }
    }
    return found;
}

// Whether the state taken from the queue is to be gone on from. It is priced when it comes up, which most never do, and goes back to
// the queue where that says more than is known. Where it leads to nothing it is settled.
static ckm_status is_next(search *s, entry e, bool *next)
{
    state *at = &s->states[e.state];
    *next = false;
    if (at->is_settled) {
        return CKM_OK;
    }
    if (!at->is_priced) {
        int64_t more = guide(s, set_of(s, e.state), at->next);
        int64_t least = INT64_MAX;
        bool is_dear = more < INT64_MAX && (!ckm_i_add(at->again_cost, more, &least) || least >= s->most_cost);
        at->is_priced = true;
        at->is_settled = more == INT64_MAX || is_dear || is_dominated(s, e.state);
        s->is_dear = s->is_dear || is_dear;
        if (at->is_settled) {
            return CKM_OK;
        }
        if (least > e.least_cost) {
            return push(s, (entry){least, e.state}) ? CKM_OK : ckm_i_error_memory(s->err);
        }
    }
    at->is_settled = true;
    *next = true;
    return CKM_OK;
}

static ckm_status look(search *s, ckm_i_exact_result *result)
{
    int64_t least = 0;  // of all schedules that have not been ruled out
    result->is_done = !s->is_full;
    while (s->n_heap > 0 && result->is_done) {
        if (result->n_looked_at++ % LOOKS_PER_CLOCK == 0 && ckm_i_solver_should_stop(s->solver)) {
            result->is_done = false;
            break;
        }
        bool next = false;
        entry e = pop(s);
        least = e.least_cost;
        CKM_I_CHECK(is_next(s, e, &next));
        if (next && s->states[e.state].next == 0) {
            result->bound_cost = s->df->total_cost + s->states[e.state].again_cost;
            return hand_in(s, e.state);
        }
        if (next) {
            CKM_I_CHECK(extend(s, e.state, least));
        }
        result->is_done = !s->is_full;  // what there was no room for costs no less than this one
    }
    result->bound_cost = s->df->total_cost + (result->is_done ? s->most_cost : least);
    result->is_infeasible = result->is_done && !s->is_dear && s->solver->best_schedule == NULL;
    return CKM_OK;
}

ckm_status ckm_i_exact_run(ckm_i_solver *solver, int64_t most_bytes, ckm_i_exact_result *result, ckm_error *err)
{
    search s = {.solver = solver, .df = solver->df, .err = err};
    ckm_status status = CKM_OK;
    *result = (ckm_i_exact_result){.bound_cost = solver->df->total_cost};
    CKM_I_TRY(begin(&s, most_bytes));
    CKM_I_TRY(look(&s, result));
    result->n_states = s.n_states;
    if (result->is_infeasible) {
        ckm_i_solver_infeasible(solver, CKM_BOUND_ORDER, "exact");
    } else {
        // As a double it may be rounded up.
        double bound = (double)result->bound_cost;
        ckm_i_solver_bound(solver, result->bound_cost < (int64_t)1 << 53 ? bound : bound * (1.0 - 1e-15),
                           CKM_BOUND_ORDER, "exact");
    }
cleanup:
    ckm_i_pebbling_dispose(&s.p);
    free(s.states);
    free(s.sets);
    free(s.table);
    free(s.heap);
    free(s.priced);
    free(s.until);
    free(s.priced_as);
    free(s.change_bytes);
    free(s.room_bytes);
    free(s.reads);
    free(s.last_user);
    free(s.slots);
    free(s.child);
    return status;
}

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_exact_result result;
    CKM_I_CHECK(ckm_i_exact_run(solver, usual_bytes, &result, err));
    ckm_i_solver_log(solver, CKM_LOG_INFO, "exact search: %s, %d operators, %lld states, %lld looked at",
                     result.is_done ? "done" : "given up", solver->df->n_ops, (long long)result.n_states,
                     (long long)result.n_looked_at);
    return CKM_OK;
}

static bool applies(const ckm_i_solver *solver)
{
    return solver->df->n_ops <= MOST_OPS && ckm_i_most_pairs(solver->df) <= MOST_PAIRS && !solver->proven_elsewhere;
}

const ckm_i_component ckm_i_component_exact = {
    .name = "exact",
    .kind = CKM_COMPONENT_SOLVES,
    .summary = "small graphs: the cheapest schedule and its proof, by A* over what has to be in memory",
    .run = run,
    .applies = applies,
    .share = 0.15,
};
