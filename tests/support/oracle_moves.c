// SPDX-License-Identifier: Apache-2.0
#include "oracle_moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static oracle_set only(int32_t x)
{
    return UINT32_C(1) << x;
}

static bool has(oracle_set set, int32_t x)
{
    return (set & only(x)) != 0;
}

static int32_t owner_of(const oracle_graph *g, int32_t x)
{
    return g->tensors[x].alias_of >= 0 ? g->tensors[x].alias_of : x;
}

static oracle_set on_storage(const oracle_graph *g, int32_t owner)
{
    oracle_set set = 0;
    for (int32_t y = 0; y < g->n_tensors; y++) {
        set |= owner_of(g, y) == owner ? only(y) : 0;
    }
    return set;
}

static int32_t maker_of(const oracle_graph *g, int32_t x)
{
    for (int32_t v = 0; v < g->n_ops; v++) {
        for (int32_t k = 0; k < g->ops[v].n_outputs; k++) {
            if (g->ops[v].outputs[k] == x) {
                return v;
            }
        }
    }
    return -1;
}

static bool is_loaded(const oracle_graph *g, int32_t x)
{
    int32_t v = maker_of(g, x);
    return v >= 0 && g->ops[v].loads;
}

static int64_t takes(const oracle_graph *g, const ckm_second_memory *second, int32_t x, bool out)
{
    int64_t speed = out ? second->out_bytes_per_second : second->in_bytes_per_second;
    int64_t work = g->tensors[x].bytes * INT64_C(1000000000);  // small numbers here
    return work / speed + (work % speed > 0 ? 1 : 0) + second->latency_ns;
}

static int64_t bytes_of_set(const oracle_graph *g, oracle_set owners)
{
    int64_t bytes = 0;
    for (int32_t x = 0; x < g->n_tensors; x++) {
        bytes += has(owners, x) ? g->tensors[x].bytes : 0;
    }
    return bytes;
}

static oracle_set owners_of(const oracle_graph *g, oracle_set tensors)
{
    oracle_set owners = 0;
    for (int32_t x = 0; x < g->n_tensors; x++) {
        owners |= has(tensors, x) ? only(owner_of(g, x)) : 0;
    }
    return owners;
}

oracle_place oracle_moves_start(const oracle_graph *g)
{
    oracle_place place = {.live = oracle_inputs(g)};
    for (int32_t x = 0; x < g->n_tensors; x++) {
        if (is_loaded(g, x)) {
            place.stored |= only(x);
            place.travels |= only(x);
        }
    }
    return place;
}

static bool compute(const oracle_graph *g, oracle_place *place, const ckm_step *step, int64_t *bytes)
{
    int32_t v = step->index;
    if (v < 0 || v >= g->n_ops || (!g->ops[v].recomputable && (place->computed >> v & 1U) != 0)) {
        return false;
    }
    const oracle_op *op = &g->ops[v];
    uint32_t pairs = 0;
    oracle_set touched = 0;
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t at = -1;
        for (int32_t p = 0; p < op->n_pairs; p++) {
            bool same = op->pairs[p][0] == step->inplace[k][0] && op->pairs[p][1] == step->inplace[k][1];
            at = same && (pairs >> p & 1U) == 0 ? p : at;
        }
        if (at < 0) {
            return false;
        }
        pairs |= UINT32_C(1) << at;
        touched |= only(owner_of(g, op->pairs[at][0]));
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        touched |= only(owner_of(g, op->outputs[k]));
    }
    oracle_set after;
    if ((touched & (place->leaving | place->coming)) != 0 || !oracle_compute(g, place->live, v, pairs, bytes, &after)) {
        return false;
    }
    *bytes += bytes_of_set(g, place->coming);
    place->live = after;
    place->computed |= UINT32_C(1) << v;
    place->now += op->cost;
    return true;
}

static bool release(const oracle_graph *g, oracle_place *place, int32_t x)
{
    if (x < 0 || x >= g->n_tensors || !has(place->live, x) || has(oracle_inputs(g), x)) {
        return false;
    }
    int32_t owner = owner_of(g, x);
    if (has(place->leaving, owner) && (place->live & on_storage(g, owner)) == only(x)) {
        return false;
    }
    place->live &= ~only(x);
    return true;
}

static bool transfer(const oracle_graph *g, const ckm_second_memory *second, oracle_place *place, const ckm_step *step)
{
    int32_t x = step->index;
    if (x < 0 || x >= g->n_tensors || owner_of(g, x) != x || (on_storage(g, x) & oracle_inputs(g)) != 0) {
        return false;
    }
    oracle_set there = place->live & on_storage(g, x);
    int64_t *link = step->kind == CKM_STEP_OUT ? &place->out_link : &place->in_link;
    switch (step->kind) {
    case CKM_STEP_OUT:
        if (has(place->stored, x) || there == 0 || has(place->coming, x)) {
            return false;
        }
        place->stored |= only(x);
        place->leaving |= only(x);
        place->travels = (place->travels & ~on_storage(g, x)) | there;
        break;
    case CKM_STEP_IN:
        if (!has(place->stored, x) || there != 0 || has(place->coming, x)) {
            return false;
        }
        place->coming |= only(x);
        break;
    case CKM_STEP_WAIT_OUT:
        if (!has(place->leaving, x)) {
            return false;
        }
        place->leaving &= ~only(x);
        place->now = place->done[x] > place->now ? place->done[x] : place->now;
        return true;
    default:
        if (!has(place->coming, x)) {
            return false;
        }
        place->coming &= ~only(x);
        place->live |= place->travels & on_storage(g, x);
        place->computed |= is_loaded(g, x) ? UINT32_C(1) << maker_of(g, x) : 0;
        place->now = place->done[x] > place->now ? place->done[x] : place->now;
        return true;
    }
    *link = (*link > place->now ? *link : place->now) + takes(g, second, x, step->kind == CKM_STEP_OUT);
    place->done[x] = *link;
    return true;
}

bool oracle_moves_step(const oracle_graph *g, const ckm_second_memory *second, oracle_place *place,
                       const ckm_step *step, int64_t *bytes)
{
    if (step->kind == CKM_STEP_COMPUTE) {
        return compute(g, place, step, bytes);
    }
    bool legal = step->kind == CKM_STEP_FREE ? release(g, place, step->index) : transfer(g, second, place, step);
    *bytes = g->fixed_bytes + bytes_of_set(g, owners_of(g, place->live) | place->coming);
    return legal;
}

bool oracle_moves_is_end(const oracle_graph *g, const oracle_place *place)
{
    bool done = place->computed == (UINT32_C(1) << g->n_ops) - 1 && place->leaving == 0 && place->coming == 0;
    for (int32_t k = 0; k < g->n_results; k++) {
        done = done && has(place->live, g->results[k]);
    }
    return done;
}

bool oracle_moves_replay(const oracle_graph *g, const ckm_second_memory *second, const ckm_schedule *s,
                         ckm_simulation *figures)
{
    oracle_place place = oracle_moves_start(g);
    *figures = (ckm_simulation){.cost = 0};
    int64_t n = ckm_schedule_step_count(s);
    for (int64_t i = 0; i < n; i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        int64_t bytes = 0;
        if (!oracle_moves_step(g, second, &place, &step, &bytes)) {
            return false;
        }
        bool counts = step.kind == CKM_STEP_COMPUTE || step.kind == CKM_STEP_IN;
        if (counts && bytes > figures->peak_bytes) {
            figures->peak_bytes = bytes;
            figures->peak_step = i;
        }
        // A copy is there from its way out until the wait for the last way back, or to the end.
        oracle_set copies = 0;
        for (int64_t earlier = 0; earlier <= i; earlier++) {
            ckm_step out = ckm_schedule_get_step(s, earlier);
            bool needed = false;
            bool ever = false;
            for (int64_t later = earlier; out.kind == CKM_STEP_OUT && later < n; later++) {
                ckm_step back = ckm_schedule_get_step(s, later);
                bool waits = back.kind == CKM_STEP_WAIT_IN && back.index == out.index;
                ever = ever || waits;
                needed = needed || (waits && later > i);
            }
            copies |= out.kind == CKM_STEP_OUT && (needed || !ever) ? only(out.index) : 0;
        }
        int64_t held = bytes_of_set(g, copies);
        figures->second_peak_bytes = held > figures->second_peak_bytes ? held : figures->second_peak_bytes;
    }
    figures->cost = place.now;
    figures->end_bytes = g->fixed_bytes + bytes_of_set(g, owners_of(g, place.live) | place.coming);
    return oracle_moves_is_end(g, &place) && (second->bytes < 0 || figures->second_peak_bytes <= second->bytes);
}

void oracle_moves_add_loads(ckm_i_rng *rng, oracle_graph *g)
{
    for (int32_t v = 0; v < g->n_ops; v++) {
        oracle_op *op = &g->ops[v];
        op->loads = op->n_inputs == 0 && op->n_outputs == 1 && op->recomputable && op->n_pairs == 0 &&
                    g->tensors[op->outputs[0]].alias_of < 0 && ckm_i_rng_below(rng, 2) == 0;
    }
}

static ckm_step random_step(ckm_i_rng *rng, const oracle_graph *g)
{
    static const ckm_step_kind kinds[] = {CKM_STEP_COMPUTE, CKM_STEP_COMPUTE, CKM_STEP_COMPUTE,  CKM_STEP_COMPUTE,
                                          CKM_STEP_FREE,    CKM_STEP_OUT,     CKM_STEP_IN,       CKM_STEP_IN,
                                          CKM_STEP_IN,      CKM_STEP_WAIT_IN, CKM_STEP_WAIT_OUT, CKM_STEP_WAIT_OUT};
    ckm_step step = {.kind = kinds[ckm_i_rng_below(rng, sizeof kinds / sizeof *kinds)]};
    bool of_ops = step.kind == CKM_STEP_COMPUTE;
    step.index = (int32_t)ckm_i_rng_below(rng, (uint32_t)(of_ops ? g->n_ops : g->n_tensors));
    if (of_ops && g->ops[step.index].n_pairs > 0 && ckm_i_rng_below(rng, 2) == 0) {
        step.n_inplace = 1;
        step.inplace = &g->ops[step.index].pairs[ckm_i_rng_below(rng, (uint32_t)g->ops[step.index].n_pairs)];
    }
    return step;
}

ckm_schedule *oracle_moves_random_schedule(ckm_i_rng *rng, const oracle_graph *g, const ckm_second_memory *second)
{
    oracle_place place = oracle_moves_start(g);
    ckm_schedule *s = NULL;
    assert_int_equal(ckm_schedule_create(&s, NULL), CKM_OK);
    for (int tries = 0; tries < 4000; tries++) {
        bool hurries = tries > 300;
        if (oracle_moves_is_end(g, &place) && (hurries || ckm_i_rng_below(rng, 8) == 0)) {
            return s;
        }
        ckm_step step = random_step(rng, g);
        // In the end only what leads there.
        if (hurries && (step.kind == CKM_STEP_FREE || step.kind == CKM_STEP_OUT)) {
            continue;
        }
        oracle_place next = place;
        int64_t bytes;
        if (oracle_moves_step(g, second, &next, &step, &bytes)) {
            place = next;
            assert_int_equal(ckm_schedule_append(s, &step, NULL), CKM_OK);
        }
    }
    ckm_schedule_free(s);
    return NULL;
}

// All states, by time: a plain queue in order of time with a table of those seen. Times in a state are relative to its own.
typedef struct known {
    oracle_place place;
    int64_t time;
    bool settled;
} known;

typedef struct hunt {
    const oracle_graph *g;
    const ckm_second_memory *second;
    int64_t budget;
    bool keeps_order;
    known *states;
    int64_t n, cap;
    int32_t *table;  // positions in `states`, or -1
    int64_t *heap;   // positions by time
    int64_t n_heap, cap_heap;
} hunt;

enum { MOST_STATES = 400000, TABLE = 1 << 20 };

static void make_relative(const oracle_graph *g, oracle_place *place)
{
    place->out_link = place->out_link > place->now ? place->out_link - place->now : 0;
    place->in_link = place->in_link > place->now ? place->in_link - place->now : 0;
    for (int32_t x = 0; x < ORACLE_MAX_TENSORS; x++) {
        bool busy = x < g->n_tensors && has(place->leaving | place->coming, x);
        place->done[x] = busy && place->done[x] > place->now ? place->done[x] - place->now : 0;
    }
    place->now = 0;
}

static uint32_t hash_of(const oracle_place *place)
{
    const unsigned char *bytes = (const unsigned char *)place;
    uint32_t hash = 2166136261U;
    for (size_t i = 0; i < sizeof *place; i++) {
        hash = (hash ^ bytes[i]) * 16777619U;
    }
    return hash % TABLE;
}

static bool heap_before(const hunt *h, int64_t a, int64_t b)
{
    return h->states[h->heap[a]].time < h->states[h->heap[b]].time;
}

static void heap_swap(const hunt *h, int64_t a, int64_t b)
{
    int64_t kept = h->heap[a];
    h->heap[a] = h->heap[b];
    h->heap[b] = kept;
}

static void heap_push(hunt *h, int64_t state)
{
    if (h->n_heap == h->cap_heap) {
        h->cap_heap = h->cap_heap > 0 ? 2 * h->cap_heap : 1024;
        h->heap = realloc(h->heap, (size_t)h->cap_heap * sizeof *h->heap);
        assert_non_null(h->heap);
    }
    int64_t at = h->n_heap++;
    h->heap[at] = state;
    while (at > 0 && heap_before(h, at, (at - 1) / 2)) {
        heap_swap(h, at, (at - 1) / 2);
        at = (at - 1) / 2;
    }
}

static int64_t heap_pop(hunt *h)
{
    int64_t least = h->heap[0];
    h->heap[0] = h->heap[--h->n_heap];
    for (int64_t at = 0; 2 * at + 1 < h->n_heap;) {
        int64_t child = 2 * at + 1;
        child += child + 1 < h->n_heap && heap_before(h, child + 1, child) ? 1 : 0;
        if (!heap_before(h, child, at)) {
            break;
        }
        heap_swap(h, at, child);
        at = child;
    }
    return least;
}

// False when there are too many.
static bool meet(hunt *h, oracle_place place, int64_t time)
{
    make_relative(h->g, &place);
    uint32_t at = hash_of(&place);
    while (h->table[at] >= 0 && memcmp(&h->states[h->table[at]].place, &place, sizeof place) != 0) {
        at = (at + 1) % TABLE;
    }
    if (h->table[at] < 0) {
        if (h->n == MOST_STATES) {
            return false;
        }
        h->table[at] = (int32_t)h->n;
        memcpy(&h->states[h->n].place, &place, sizeof place);
        h->states[h->n].time = time;
        h->states[h->n++].settled = false;
        heap_push(h, h->n - 1);
    } else if (time < h->states[h->table[at]].time) {
        h->states[h->table[at]].time = time;
        heap_push(h, h->table[at]);
    }
    return true;
}

static bool try_step(hunt *h, int64_t from, const ckm_step *step)
{
    oracle_place next;
    int64_t bytes;
    memcpy(&next, &h->states[from].place, sizeof next);
    if (!oracle_moves_step(h->g, h->second, &next, step, &bytes) ||
        ((step->kind == CKM_STEP_COMPUTE || step->kind == CKM_STEP_IN) && bytes > h->budget)) {
        return true;
    }
    return meet(h, next, h->states[from].time + next.now);
}

static bool extend(hunt *h, int64_t from)
{
    bool room = true;
    for (int32_t v = 0; v < h->g->n_ops && room; v++) {
        const oracle_op *op = &h->g->ops[v];
        bool waits = false;  // for earlier operators' first computations
        for (int32_t u = 0; u < v; u++) {
            waits = waits || (!h->g->ops[u].loads && (h->states[from].place.computed >> u & 1U) == 0);
        }
        if (h->keeps_order && waits && !op->loads) {
            continue;
        }
        for (uint32_t pairs = 0; pairs < UINT32_C(1) << op->n_pairs && room; pairs++) {
            int32_t used[ORACLE_MAX_OPERANDS][2];
            ckm_step step = {.kind = CKM_STEP_COMPUTE, .index = v, .inplace = (const int32_t(*)[2])used};
            for (int32_t p = 0; p < op->n_pairs; p++) {
                if ((pairs >> p & 1U) != 0) {
                    memcpy(used[step.n_inplace++], op->pairs[p], sizeof used[0]);
                }
            }
            room = try_step(h, from, &step);
        }
    }
    for (int32_t x = 0; x < h->g->n_tensors && room; x++) {
        for (ckm_step_kind kind = CKM_STEP_FREE; kind <= CKM_STEP_WAIT_IN && room; kind++) {
            ckm_step step = {.kind = kind, .index = x};
            room = try_step(h, from, &step);
        }
    }
    return room;
}

int64_t oracle_moves_optimum(const oracle_graph *g, const ckm_second_memory *second, int64_t budget_bytes,
                             bool keeps_order)
{
    hunt h = {.g = g, .second = second, .budget = budget_bytes, .keeps_order = keeps_order};
    h.states = malloc(MOST_STATES * sizeof *h.states);
    h.table = malloc(TABLE * sizeof *h.table);
    assert_non_null(h.states);
    assert_non_null(h.table);
    memset(h.table, 0xff, TABLE * sizeof *h.table);
    oracle_place start;
    memset(&start, 0, sizeof start);
    oracle_place first = oracle_moves_start(g);
    start.live = first.live;
    start.stored = first.stored;
    start.travels = first.travels;
    int64_t answer = -1;
    bool room = meet(&h, start, 0);
    while (room && answer < 0 && h.n_heap > 0) {
        int64_t state = heap_pop(&h);
        if (h.states[state].settled) {
            continue;
        }
        h.states[state].settled = true;
        if (oracle_moves_is_end(g, &h.states[state].place)) {
            answer = h.states[state].time;
        } else {
            room = extend(&h, state);
        }
    }
    free(h.states);
    free(h.table);
    free(h.heap);
    return room ? answer : -2;
}
