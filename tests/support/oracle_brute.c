// SPDX-License-Identifier: Apache-2.0
#include "oracle_brute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool has(oracle_set set, int32_t x)
{
    return ((set >> x) & 1U) != 0;
}

static oracle_set only(int32_t x)
{
    return UINT32_C(1) << x;
}

static int32_t owner_of(const oracle_graph *g, int32_t x)
{
    return g->tensors[x].alias_of >= 0 ? g->tensors[x].alias_of : x;
}

// All tensors on the storage that x is on, x included.
static oracle_set same_storage(const oracle_graph *g, int32_t x)
{
    oracle_set set = 0;
    for (int32_t y = 0; y < g->n_tensors; y++) {
        set |= owner_of(g, y) == owner_of(g, x) ? only(y) : 0;
    }
    return set;
}

oracle_set oracle_inputs(const oracle_graph *g)
{
    oracle_set inputs = only(g->n_tensors) - 1;
    for (int32_t v = 0; v < g->n_ops; v++) {
        for (int32_t k = 0; k < g->ops[v].n_outputs; k++) {
            inputs &= ~only(g->ops[v].outputs[k]);
        }
    }
    return inputs;
}

// Bytes of the storages that hold a tensor of the set.
static int64_t bytes_of(const oracle_graph *g, oracle_set set)
{
    int64_t bytes = 0;
    for (int32_t x = 0; x < g->n_tensors; x++) {
        if (owner_of(g, x) == x && (set & same_storage(g, x)) != 0) {
            bytes += g->tensors[x].bytes;
        }
    }
    return bytes;
}

bool oracle_compute(const oracle_graph *g, oracle_set live, int32_t v, uint32_t pairs, int64_t *during_bytes,
                    oracle_set *after)
{
    const oracle_op *op = &g->ops[v];
    oracle_set inputs = oracle_inputs(g);
    oracle_set outputs = 0;
    for (int32_t k = 0; k < op->n_outputs; k++) {
        outputs |= only(op->outputs[k]);
    }
    for (int32_t k = 0; k < op->n_inputs; k++) {
        if (!has(live, op->inputs[k])) {
            return false;
        }
    }
    oracle_set given = 0;     // inputs of pairs
    oracle_set received = 0;  // everything on the storages of the pairs' outputs
    for (int32_t k = 0; k < op->n_pairs; k++) {
        if (((pairs >> k) & 1U) == 0) {
            continue;
        }
        int32_t i = op->pairs[k][0];
        int32_t j = op->pairs[k][1];
        oracle_set from = same_storage(g, i);
        oracle_set to = same_storage(g, j);
        bool legal = !has(given, i) && !has(received, j)                // each at most once
                     && (live & from) == only(i)                        // i is live, and alone on its storage
                     && (inputs & from) == 0                            // which is not an input's
                     && g->tensors[j].alias_of < 0 && (live & to) == 0  // j starts a storage of its own
                     && (outputs & from) == 0                           // nothing is made on what is given away
                     && g->tensors[j].bytes <= g->tensors[owner_of(g, i)].bytes;
        if (!legal) {
            return false;
        }
        given |= only(i);
        received |= to;
    }
    *during_bytes = g->fixed_bytes + bytes_of(g, live | (outputs & ~received)) + op->workspace_bytes;
    *after = (live & ~given) | outputs;
    return true;
}

// The search. A state is `progress`, whose meaning depends on the class, and the live tensors that operators
// produce. The queue is a heap, so that costs and peaks may be as large as they like.
enum { MAX_PROGRESS = 1 << ORACLE_MAX_OPS };
_Static_assert(MAX_PROGRESS >= ORACLE_MAX_OPS * ORACLE_MAX_OPS, "the stages of all operators and where they are");

typedef struct entry {
    int64_t value;
    int32_t state;
} entry;

typedef struct transition {
    int64_t during;
    int32_t after;
} transition;

typedef struct search {
    const oracle_graph *g;
    oracle_class which;
    bool least_peak;  // minimise the peak instead of the cost
    int64_t budget;
    int32_t n_produced, n_sets;
    int32_t produced[ORACLE_MAX_PRODUCED];
    int32_t goal;  // produced tensors that must be live at the end
    // Precomputed: where computing v with a subset of pairs leads from a live set; during < 0: illegal.
    transition *table;
    int32_t first_row[ORACLE_MAX_OPS + 1];
    int64_t *best;  // by state: least value found, -1 none
    bool *settled;
    entry *heap;  // the children of k are 2k + 1 and 2k + 2
    int32_t n_heap, cap_heap;
} search;

static oracle_set expand(const search *q, int32_t set)
{
    oracle_set live = oracle_inputs(q->g);
    for (int32_t k = 0; k < q->n_produced; k++) {
        live |= has((oracle_set)set, k) ? only(q->produced[k]) : 0;
    }
    return live;
}

static int32_t compress(const search *q, oracle_set live)
{
    int32_t set = 0;
    for (int32_t k = 0; k < q->n_produced; k++) {
        set |= has(live, q->produced[k]) ? 1 << k : 0;
    }
    return set;
}

static void precompute(search *q)
{
    oracle_set inputs = oracle_inputs(q->g);
    q->n_produced = 0;
    for (int32_t x = 0; x < q->g->n_tensors; x++) {
        if (!has(inputs, x)) {
            assert_true(q->n_produced < ORACLE_MAX_PRODUCED);
            q->produced[q->n_produced++] = x;
        }
    }
    q->n_sets = 1 << q->n_produced;
    for (int32_t v = 0; v < q->g->n_ops; v++) {
        q->first_row[v + 1] = q->first_row[v] + (1 << q->g->ops[v].n_pairs);
    }
    size_t rows = (size_t)q->first_row[q->g->n_ops];
    q->table = malloc(rows * (size_t)q->n_sets * sizeof *q->table);
    assert_non_null(q->table);
    for (int32_t v = 0; v < q->g->n_ops; v++) {
        for (int32_t set = 0; set < q->n_sets; set++) {
            oracle_set live = expand(q, set);
            for (int32_t row = q->first_row[v]; row < q->first_row[v + 1]; row++) {
                transition *to = &q->table[(size_t)row * (size_t)q->n_sets + (size_t)set];
                oracle_set after = 0;
                to->during = -1;
                if (oracle_compute(q->g, live, v, (uint32_t)(row - q->first_row[v]), &to->during, &after)) {
                    to->after = compress(q, after);
                } else {
                    to->during = -1;
                }
            }
        }
    }
    oracle_set results = 0;
    for (int32_t k = 0; k < q->g->n_results; k++) {
        results |= only(q->g->results[k]);
    }
    q->goal = compress(q, results);
}

// Progress after computing v, or -1 when the class does not allow it now.
static int32_t advance(const search *q, int32_t progress, int32_t v)
{
    bool recomputable = q->g->ops[v].recomputable;
    int32_t stage = progress / ORACLE_MAX_OPS;
    int32_t position = progress % ORACLE_MAX_OPS;
    switch (q->which) {
    case ORACLE_ONCE:
        return v == progress ? progress + 1 : -1;
    case ORACLE_FRONTIER:
        if (stage == q->g->n_ops) {
            return -1;  // the last stage has ended: what runs then is part of none
        }
        if (v == stage) {
            return (stage + 1) * ORACLE_MAX_OPS;
        }
        return v < stage && v >= position && recomputable ? stage * ORACLE_MAX_OPS + v + 1 : -1;
    case ORACLE_ORDER:
        if (v == progress) {
            return progress + 1;
        }
        return v < progress && recomputable ? progress : -1;
    case ORACLE_ANY:
        return recomputable || ((progress >> v) & 1) == 0 ? progress | (1 << v) : -1;
    }
    return -1;
}

static bool is_complete(const search *q, int32_t progress)
{
    switch (q->which) {
    case ORACLE_FRONTIER:
        return progress == q->g->n_ops * ORACLE_MAX_OPS;
    case ORACLE_ANY:
        return progress == (1 << q->g->n_ops) - 1;
    default:
        return progress == q->g->n_ops;
    }
}

static void push(search *q, int32_t progress, int32_t set, int64_t value)
{
    if (progress < 0 || progress > MAX_PROGRESS || set < 0 || set >= q->n_sets) {
        fail_msg("progress %d with the set %d is not in the tables", (int)progress, (int)set);
    }
    int32_t state = progress * q->n_sets + set;
    if (q->settled[state] || (q->best[state] >= 0 && q->best[state] <= value)) {
        return;
    }
    q->best[state] = value;
    if (q->n_heap == q->cap_heap) {
        q->cap_heap = q->cap_heap == 0 ? 4096 : 2 * q->cap_heap;
        q->heap = realloc(q->heap, (size_t)q->cap_heap * sizeof *q->heap);
        assert_non_null(q->heap);
    }
    int32_t at = q->n_heap++;
    for (; at > 0 && q->heap[(at - 1) / 2].value > value; at = (at - 1) / 2) {
        q->heap[at] = q->heap[(at - 1) / 2];
    }
    q->heap[at] = (entry){value, state};
}

static entry pop(search *q)
{
    entry top = q->heap[0];
    entry last = q->heap[--q->n_heap];
    int32_t at = 0;
    for (int32_t child = 1; child < q->n_heap; child = 2 * at + 1) {
        child += child + 1 < q->n_heap && q->heap[child + 1].value < q->heap[child].value;
        if (q->heap[child].value >= last.value) {
            break;
        }
        q->heap[at] = q->heap[child];
        at = child;
    }
    q->heap[at] = last;
    return top;
}

// Everything one step away from a state of this value.
static void extend(search *q, int32_t state, int64_t value)
{
    int32_t progress = state / q->n_sets;
    int32_t set = state % q->n_sets;
    for (int32_t k = 0; k < q->n_produced; k++) {
        if ((set >> k) & 1) {
            push(q, progress, set & ~(1 << k), value);
        }
    }
    for (int32_t v = 0; v < q->g->n_ops; v++) {
        int32_t next = advance(q, progress, v);
        for (int32_t row = q->first_row[v]; next >= 0 && row < q->first_row[v + 1]; row++) {
            const transition *to = &q->table[(size_t)row * (size_t)q->n_sets + (size_t)set];
            if (to->during < 0 || (!q->least_peak && to->during > q->budget)) {
                continue;
            }
            int64_t reached = value + q->g->ops[v].cost;
            if (q->least_peak) {
                reached = to->during > value ? to->during : value;
            }
            push(q, next, to->after, reached);
        }
    }
}

static int64_t run_search(search *q)
{
    int64_t answer = -1;
    assert_in_range(q->g->n_ops, 0, ORACLE_MAX_OPS);
    precompute(q);
    size_t n_states = (size_t)(MAX_PROGRESS + 1) * (size_t)q->n_sets;
    q->best = malloc(n_states * sizeof *q->best);
    q->settled = calloc(n_states, sizeof *q->settled);
    assert_non_null(q->best);
    assert_non_null(q->settled);
    memset(q->best, 0xff, n_states * sizeof *q->best);
    push(q, 0, 0, 0);
    while (q->n_heap > 0 && answer < 0) {
        entry next = pop(q);
        if (q->settled[next.state]) {
            continue;
        }
        q->settled[next.state] = true;
        if (is_complete(q, next.state / q->n_sets) && (next.state % q->n_sets & q->goal) == q->goal) {
            answer = next.value;
        } else {
            extend(q, next.state, next.value);
        }
    }
    free(q->table);
    free(q->best);
    free(q->settled);
    free(q->heap);
    return answer;
}

int64_t oracle_optimum(const oracle_graph *g, oracle_class which, int64_t budget_bytes)
{
    search q = {.g = g, .which = which, .budget = budget_bytes};
    return run_search(&q);
}

int64_t oracle_least_peak(const oracle_graph *g, oracle_class which)
{
    search q = {.g = g, .which = which, .least_peak = true};
    return run_search(&q);
}

// The bit set of declared pairs that a step uses; false when it names one that is not declared or one twice.
static bool find_pairs(const oracle_op *op, const ckm_step *step, uint32_t *pairs)
{
    *pairs = 0;
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t at = -1;
        for (int32_t p = 0; p < op->n_pairs; p++) {
            bool same = op->pairs[p][0] == step->inplace[k][0] && op->pairs[p][1] == step->inplace[k][1];
            at = same && ((*pairs >> p) & 1U) == 0 ? p : at;
        }
        if (at < 0) {
            return false;
        }
        *pairs |= UINT32_C(1) << at;
    }
    return true;
}

bool oracle_replay(const oracle_graph *g, const ckm_schedule *s, int64_t *cost, int64_t *peak_bytes,
                   oracle_class *which)
{
    oracle_set inputs = oracle_inputs(g);
    oracle_set live = inputs;
    oracle_class narrowest = ORACLE_ONCE;
    uint32_t computed = 0;
    int32_t stage = 0;
    int32_t position = 0;
    int64_t total = 0;
    int64_t peak = 0;
    for (int64_t at = 0; at < ckm_schedule_step_count(s); at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        int32_t v = step.index;
        if (step.kind == CKM_STEP_FREE) {
            if (v < 0 || v >= g->n_tensors || !has(live & ~inputs, v)) {
                return false;
            }
            live &= ~only(v);
            continue;
        }
        uint32_t pairs = 0;
        int64_t during = 0;
        if (v < 0 || v >= g->n_ops || (has(computed, v) && !g->ops[v].recomputable) ||
            !find_pairs(&g->ops[v], &step, &pairs) || !oracle_compute(g, live, v, pairs, &during, &live)) {
            return false;
        }
        total += g->ops[v].cost;
        peak = during > peak ? during : peak;
        oracle_class here = ORACLE_ONCE;
        if (v == stage) {
            position = 0;
            stage++;
        } else if (!has(computed, v)) {
            here = ORACLE_ANY;
        } else {
            here = v >= position ? ORACLE_FRONTIER : ORACLE_ORDER;
            position = v + 1;
        }
        narrowest = here > narrowest ? here : narrowest;
        computed |= only(v);
    }
    for (int32_t k = 0; k < g->n_results; k++) {
        if (!has(live, g->results[k])) {
            return false;
        }
    }
    if (computed != only(g->n_ops) - 1) {
        return false;
    }
    if (stage == g->n_ops && position > 0) {
        // Recomputing after the last operator has run is not part of any stage.
        narrowest = narrowest > ORACLE_ORDER ? narrowest : ORACLE_ORDER;
    }
    if (cost != NULL) {
        *cost = total;
    }
    if (peak_bytes != NULL) {
        *peak_bytes = peak;
    }
    if (which != NULL) {
        *which = narrowest;
    }
    return true;
}
