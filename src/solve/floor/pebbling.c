// SPDX-License-Identifier: Apache-2.0
// Sets of tensors and the moves between them.
#include "solve/floor/pebbling.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bitset.h"
#include "base/compare.h"
#include "base/error.h"

// Beyond this many operators their ancestors would take too much room and time: all count as recomputable then, which
// allows more schedules and so weakens the bound.
enum { MAX_OPS_WITH_ANCESTORS = 8192, MAX_EXACT_PAIRS = 16 };

static size_t words(const ckm_i_pebbling *p)
{
    return ckm_i_bits_words(p->df->n_ops);
}

static bool is_ancestor(const ckm_i_pebbling *p, int32_t v, int32_t of)
{
    return ckm_i_bits_get(p->ancestors + (size_t)of * words(p), v);
}

static ckm_status number_slots(ckm_i_pebbling *p, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    size_t n = (size_t)df->n_tensors;
    p->slot_of = ckm_i_malloc(n, sizeof *p->slot_of);
    p->tensor_of = ckm_i_malloc(n, sizeof *p->tensor_of);
    p->op_of = ckm_i_malloc(n, sizeof *p->op_of);
    p->first_slot = ckm_i_malloc((size_t)df->n_ops + 1, sizeof *p->first_slot);
    if (p->slot_of == NULL || p->tensor_of == NULL || p->op_of == NULL || p->first_slot == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        p->slot_of[x] = -1;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        p->first_slot[v] = p->n_slots;
        for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
            p->tensor_of[p->n_slots] = df->ops[v].outputs[i];
            p->op_of[p->n_slots] = v;
            p->slot_of[df->ops[v].outputs[i]] = p->n_slots++;
        }
    }
    p->first_slot[df->n_ops] = p->n_slots;
    return CKM_OK;
}

// Storages that hold one tensor only are simpler to reason about. Beyond MAX_EXACT_PAIRS the saving of in-place pairs is
// an estimate from above, about which no such reasoning holds: then all count as shared.
static ckm_status find_shared(ckm_i_pebbling *p, size_t most_pairs, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    p->shares_storage = ckm_i_calloc((size_t)df->n_tensors, sizeof *p->shares_storage);
    if (p->shares_storage == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].alias_of >= 0 || df->tensors[x].pinned || most_pairs > MAX_EXACT_PAIRS) {
            p->shares_storage[x] = true;
            p->shares_storage[df->tensors[x].storage] = true;
        }
    }
    return CKM_OK;
}

static ckm_status find_ancestors(ckm_i_pebbling *p, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    bool all_recomputable = true;
    for (int32_t v = 0; v < df->n_ops; v++) {
        all_recomputable = all_recomputable && df->ops[v].recomputable;
    }
    if (all_recomputable || df->n_ops > MAX_OPS_WITH_ANCESTORS) {
        return CKM_OK;
    }
    p->ancestors = ckm_i_calloc((size_t)df->n_ops * words(p), sizeof *p->ancestors);
    p->runs_once = ckm_i_calloc(words(p), sizeof *p->runs_once);
    if (p->ancestors == NULL || p->runs_once == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        uint64_t *own = p->ancestors + (size_t)v * words(p);
        ckm_i_bits_set(own, v);
        if (!df->ops[v].recomputable) {
            ckm_i_bits_set(p->runs_once, v);
        }
        for (int32_t i = 0; i < df->ops[v].n_inputs; i++) {
            int32_t u = df->tensors[df->ops[v].inputs[i]].producer;
            for (size_t w = 0; u >= 0 && w < words(p); w++) {
                own[w] |= p->ancestors[(size_t)u * words(p) + w];
            }
        }
    }
    return CKM_OK;
}

bool ckm_i_pebbling_shares_single_run(const ckm_i_pebbling *p, int32_t u, int32_t v)
{
    const uint64_t *of_u = p->ancestors + (size_t)u * words(p);
    const uint64_t *of_v = p->ancestors + (size_t)v * words(p);
    for (size_t w = 0; w < words(p); w++) {
        if ((of_u[w] & of_v[w] & p->runs_once[w]) != 0) {
            return true;
        }
    }
    return false;
}

// Whether tensor x, whose producer runs once and is an ancestor of v, must be in memory at the first run of v: something
// that cannot have run before v reads it.
static bool outlives(const ckm_i_pebbling *p, int32_t x, int32_t v)
{
    const ckm_i_dataflow_tensor *tensor = &p->df->tensors[x];
    bool needed = false;
    for (int32_t k = 0; k < tensor->n_users && !needed; k++) {
        needed = is_ancestor(p, v, tensor->users[k]);
    }
    return needed;
}

int32_t ckm_i_pebbling_needs(const ckm_i_pebbling *p, int32_t v, bool first_run, int32_t *out)
{
    const ckm_dataflow *df = p->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n = 0;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        if (p->slot_of[op->inputs[i]] >= 0) {
            out[n++] = p->slot_of[op->inputs[i]];
        }
    }
    for (int32_t u = 0; p->ancestors != NULL && u < v; u++) {
        if (df->ops[u].recomputable || !is_ancestor(p, u, v)) {
            continue;
        }
        for (int32_t s = p->first_slot[u]; s < p->first_slot[u + 1]; s++) {
            const int32_t x = p->tensor_of[s];
            if (df->tensors[x].is_result || (first_run && outlives(p, x, v))) {
                out[n++] = s;
            }
        }
    }
    qsort(out, (size_t)n, sizeof *out, ckm_i_compare_int32);
    int32_t kept = 0;
    for (int32_t i = 0; i < n; i++) {
        if (i == 0 || out[i] != out[i - 1]) {
            out[kept++] = out[i];
        }
    }
    return kept;
}

static ckm_status find_needs(ckm_i_pebbling *p, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    ckm_status status = CKM_OK;
    int32_t n = 0;
    int32_t most = 0;
    int32_t cap = df->n_ops;  // some room in any case, so that the list is never NULL
    for (int32_t v = 0; v < df->n_ops; v++) {
        most = df->ops[v].n_inputs > most ? df->ops[v].n_inputs : most;
    }
    int32_t *list = ckm_i_malloc((size_t)most + (size_t)p->n_slots, sizeof *list);
    p->needs_at = ckm_i_malloc((size_t)df->n_ops + 1, sizeof *p->needs_at);
    p->needs = ckm_i_malloc((size_t)cap, sizeof *p->needs);
    if (list == NULL || p->needs_at == NULL || p->needs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        int32_t count = ckm_i_pebbling_needs(p, v, !df->ops[v].recomputable, list);
        p->needs_at[v] = n;
        for (int32_t i = 0; i < count; i++) {
            if (!CKM_I_GROW(p->needs, n, cap)) {
                status = ckm_i_error_memory(err);
                goto cleanup;
            }
            p->needs[n++] = list[i];
        }
    }
    p->needs_at[df->n_ops] = n;
cleanup:
    free(list);
    return status;
}

static ckm_status init(ckm_i_pebbling *p, const ckm_dataflow *df, bool all_again, ckm_error *err)
{
    ckm_status status = CKM_OK;
    *p = (ckm_i_pebbling){.df = df};
    size_t most_pairs = ckm_i_most_pairs(df);
    CKM_I_TRY(number_slots(p, err));
    CKM_I_TRY(find_shared(p, most_pairs, err));
    if (!all_again) {
        CKM_I_TRY(find_ancestors(p, err));
    }
    CKM_I_TRY(find_needs(p, err));
    size_t n = (size_t)p->n_slots;
    p->low_bytes = ckm_i_calloc((size_t)df->n_ops, sizeof *p->low_bytes);
    p->high_bytes = ckm_i_calloc((size_t)df->n_ops, sizeof *p->high_bytes);
    p->is_in = ckm_i_calloc(n, sizeof *p->is_in);
    p->tensors_in = ckm_i_calloc((size_t)df->n_tensors, sizeof *p->tensors_in);
    p->removed = ckm_i_malloc(n, sizeof *p->removed);
    p->added = ckm_i_malloc(n, sizeof *p->added);
    p->slots = ckm_i_malloc(n, sizeof *p->slots);
    p->child = ckm_i_malloc(n, sizeof *p->child);
    p->groups = ckm_i_malloc(n, sizeof *p->groups);
    p->pair_is_open = ckm_i_malloc(most_pairs, sizeof *p->pair_is_open);
    p->pairs = ckm_i_malloc(most_pairs, sizeof *p->pairs);
    if (p->low_bytes == NULL || p->high_bytes == NULL || p->is_in == NULL || p->tensors_in == NULL ||
        p->groups == NULL || p->removed == NULL || p->added == NULL || p->slots == NULL || p->child == NULL ||
        p->pair_is_open == NULL || p->pairs == NULL) {
        status = ckm_i_error_memory(err);
    }
cleanup:
    if (status != CKM_OK) {
        ckm_i_pebbling_dispose(p);
    }
    return status;
}

ckm_status ckm_i_pebbling_init(ckm_i_pebbling *p, const ckm_dataflow *df, ckm_error *err)
{
    return init(p, df, false, err);
}

ckm_status ckm_i_pebbling_init_again(ckm_i_pebbling *p, const ckm_dataflow *df, ckm_error *err)
{
    return init(p, df, true, err);
}

void ckm_i_pebbling_dispose(ckm_i_pebbling *p)
{
    void *all[] = {p->slot_of,      p->tensor_of, p->op_of,      p->first_slot,     p->needs_at,
                   p->needs,        p->ancestors, p->runs_once,  p->shares_storage, p->low_bytes,
                   p->high_bytes,   p->is_in,     p->tensors_in, p->removed,        p->added,
                   p->pair_is_open, p->pairs,     p->states,     p->arena,          p->table,
                   p->slots,        p->child,     p->frames,     p->moves,          p->groups};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
    *p = (ckm_i_pebbling){.df = NULL};
}

void ckm_i_pebbling_add(ckm_i_pebbling *p, int32_t slot)
{
    int32_t storage = p->df->tensors[p->tensor_of[slot]].storage;
    p->is_in[slot] = true;
    if (p->tensors_in[storage]++ == 0 && !p->df->tensors[storage].pinned) {
        p->bytes += p->df->tensors[storage].bytes;
    }
}

void ckm_i_pebbling_remove(ckm_i_pebbling *p, int32_t slot)
{
    int32_t storage = p->df->tensors[p->tensor_of[slot]].storage;
    p->is_in[slot] = false;
    if (--p->tensors_in[storage] == 0 && !p->df->tensors[storage].pinned) {
        p->bytes -= p->df->tensors[storage].bytes;
    }
}

// Whether v may write the pair's output over its input, of which nothing is needed afterwards: as the simulator
// decides, with nothing in memory but the set at hand and the graph's inputs.
static bool pair_is_legal(const ckm_i_pebbling *p, const ckm_i_dataflow_op *op, const int32_t pair[2])
{
    const ckm_i_dataflow_tensor *from = &p->df->tensors[pair[0]];
    const ckm_i_dataflow_tensor *to = &p->df->tensors[pair[1]];
    bool legal = !from->pinned && p->tensors_in[from->storage] == 1 && to->alias_of < 0 && !to->pinned &&
                 p->tensors_in[to->storage] == 0 && to->bytes <= p->df->tensors[from->storage].bytes;
    for (int32_t i = 0; legal && i < op->n_outputs; i++) {
        legal = p->df->tensors[op->outputs[i]].storage != from->storage;
    }
    return legal;
}

// Memory in use while v runs, with what it needs already in the set at hand.
static int64_t peak_of(ckm_i_pebbling *p, int32_t v)
{
    const ckm_dataflow *df = p->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    p->n_pairs = 0;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        if (p->pair_is_open[k] && pair_is_legal(p, op, op->inplace[k])) {
            p->pairs[p->n_pairs][0] = op->inplace[k][0];
            p->pairs[p->n_pairs][1] = op->inplace[k][1];
            p->n_pairs++;
        }
    }
    int64_t before = p->bytes;
    for (int32_t s = p->first_slot[v]; s < p->first_slot[v + 1]; s++) {
        ckm_i_pebbling_add(p, s);
    }
    int64_t peak = df->resident_bytes + p->bytes + op->workspace_bytes;
    for (int32_t s = p->first_slot[v]; s < p->first_slot[v + 1]; s++) {
        ckm_i_pebbling_remove(p, s);
    }
    p->bytes = before;
    return peak - ckm_i_inplace_best(df, (const int32_t(*)[2])p->pairs, p->n_pairs, NULL, NULL);
}

int64_t ckm_i_pebbling_peak_at(ckm_i_pebbling *p, int32_t v)
{
    for (int32_t k = 0; k < p->df->ops[v].n_inplace; k++) {
        p->pair_is_open[k] = p->slot_of[p->df->ops[v].inplace[k][0]] >= 0;
    }
    return peak_of(p, v);
}

int64_t ckm_i_pebbling_go_back(ckm_i_pebbling *p, int32_t v, const int32_t *slots, int32_t n)
{
    const ckm_i_dataflow_op *op = &p->df->ops[v];
    p->n_removed = 0;
    p->n_added = 0;
    for (int32_t s = p->first_slot[v]; s < p->first_slot[v + 1]; s++) {
        if (p->is_in[s]) {
            ckm_i_pebbling_remove(p, s);
            p->removed[p->n_removed++] = s;
        }
    }
    for (int32_t k = 0; k < op->n_inplace; k++) {
        int32_t slot = p->slot_of[op->inplace[k][0]];
        p->pair_is_open[k] = slot >= 0 && !p->is_in[slot];  // else it is needed afterwards
    }
    for (int32_t i = p->needs_at[v]; i < p->needs_at[v + 1]; i++) {
        if (!p->is_in[p->needs[i]]) {
            ckm_i_pebbling_add(p, p->needs[i]);
            p->added[p->n_added++] = p->needs[i];
        }
    }
    if (p->ancestors != NULL && !op->recomputable) {
        // It ran once, so nothing that depends on it was there before.
        for (int32_t i = 0; i < n; i++) {
            if (p->is_in[slots[i]] && is_ancestor(p, v, p->op_of[slots[i]])) {
                return INT64_MAX;
            }
        }
        // An operand that only "outlives" is not given away.
        for (int32_t k = 0; k < op->n_inplace; k++) {
            const ckm_i_dataflow_tensor *x = &p->df->tensors[op->inplace[k][0]];
            bool kept = x->is_result;
            for (int32_t u = 0; u < x->n_users && !kept; u++) {
                kept = x->users[u] != v && is_ancestor(p, v, x->users[u]);
            }
            kept = kept && x->producer >= 0 && !p->df->ops[x->producer].recomputable;
            p->pair_is_open[k] = p->pair_is_open[k] && !kept;
        }
    }
    return peak_of(p, v);
}

void ckm_i_pebbling_undo(ckm_i_pebbling *p)
{
    while (p->n_added > 0) {
        ckm_i_pebbling_remove(p, p->added[--p->n_added]);
    }
    while (p->n_removed > 0) {
        ckm_i_pebbling_add(p, p->removed[--p->n_removed]);
    }
}

int32_t ckm_i_pebbling_members(const ckm_i_pebbling *p, const int32_t *slots, int32_t n, int32_t *out)
{
    int32_t count = 0;
    int32_t next = 0;  // of those added, ascending like the others
    for (int32_t i = 0; i <= n; i++) {
        while (next < p->n_added && (i == n || p->added[next] < slots[i])) {
            out[count++] = p->added[next++];
        }
        if (i < n && p->is_in[slots[i]]) {
            out[count++] = slots[i];
        }
    }
    return count;
}

static uint64_t hash_of(const int32_t *slots, int32_t n)
{
    uint64_t hash = UINT64_C(0x9e3779b97f4a7c15);
    for (int32_t i = 0; i < n; i++) {
        hash = (hash ^ (uint64_t)slots[i]) * UINT64_C(0xff51afd7ed558ccd);
        hash ^= hash >> 32;
    }
    return hash;
}

static bool same_set(const ckm_i_pebbling *p, const ckm_i_pebbling_state *state, const int32_t *slots, int32_t n)
{
    // The first set may be empty, and then no arena has been made yet.
    return state->n == n && (n == 0 || memcmp(p->arena + state->at, slots, (size_t)n * sizeof *slots) == 0);
}

// Where a set is in the table, or where it would go.
static int64_t find(const ckm_i_pebbling *p, const int32_t *slots, int32_t n)
{
    uint64_t mask = (uint64_t)p->table_size - 1;
    uint64_t at = hash_of(slots, n) & mask;
    for (;; at = (at + 1) & mask) {
        int32_t s = p->table[at];
        if (s < 0 || same_set(p, &p->states[s], slots, n)) {
            return (int64_t)at;
        }
    }
}

static bool grow_table(ckm_i_pebbling *p)
{
    int64_t size = p->table_size == 0 ? 1024 : 2 * p->table_size;
    int32_t *table = ckm_i_malloc((size_t)size, sizeof *table);
    if (table == NULL) {
        return false;
    }
    free(p->table);
    p->table = table;
    p->table_size = size;
    memset(table, 0xff, (size_t)size * sizeof *table);
    for (int32_t s = 0; s < p->n_states; s++) {
        table[find(p, p->arena + p->states[s].at, p->states[s].n)] = s;
    }
    return true;
}

static bool grow_arena(ckm_i_pebbling *p, int32_t n)
{
    int64_t cap = p->cap_arena == 0 ? 4096 : p->cap_arena;
    while (cap - p->n_arena < n) {
        cap *= 2;
    }
    if (cap == p->cap_arena) {
        return true;
    }
    int32_t *arena = ckm_i_realloc(p->arena, (size_t)cap, sizeof *arena);
    if (arena == NULL) {
        return false;
    }
    p->arena = arena;
    p->cap_arena = cap;
    return true;
}

ckm_status ckm_i_pebbling_intern(ckm_i_pebbling *p, const int32_t *slots, int32_t n, int32_t *state, ckm_error *err)
{
    if (2 * ((int64_t)p->n_states + 1) > p->table_size && !grow_table(p)) {
        return ckm_i_error_memory(err);
    }
    int64_t at = find(p, slots, n);
    if (p->table[at] < 0) {
        if (!grow_arena(p, n) || !CKM_I_GROW(p->states, p->n_states, p->cap_states)) {
            return ckm_i_error_memory(err);
        }
        if (n > 0) {
            memcpy(p->arena + p->n_arena, slots, (size_t)n * sizeof *slots);
        }
        p->states[p->n_states] = (ckm_i_pebbling_state){p->n_arena, n, 0, INT64_MAX, -1, -1};
        p->n_arena += n;
        p->table[at] = p->n_states++;
    }
    *state = p->table[at];
    return CKM_OK;
}
