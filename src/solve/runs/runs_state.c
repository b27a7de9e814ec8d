// SPDX-License-Identifier: Apache-2.0
#include "solve/runs/runs.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bitset.h"
#include "base/error.h"

static bool allocate_list(ckm_i_runs_list *list, size_t places, size_t words)
{
    list->op = ckm_i_malloc(places, sizeof *list->op);
    list->used = ckm_i_malloc(places, sizeof *list->used);
    list->held = ckm_i_malloc(places, sizeof *list->held);
    list->needed = ckm_i_malloc(places * words, sizeof *list->needed);
    return list->op != NULL && list->used != NULL && list->held != NULL && list->needed != NULL;
}

static void free_list(ckm_i_runs_list *list)
{
    free(list->op);
    free(list->used);
    free(list->held);
    free(list->needed);
}

static void find_storages(ckm_i_runs *q)
{
    const ckm_dataflow *df = q->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        q->on_at[df->tensors[x].storage + 1]++;
    }
    for (int32_t s = 0; s < df->n_tensors; s++) {
        q->on_at[s + 1] += q->on_at[s];
    }
    for (int32_t x = df->n_tensors - 1; x >= 0; x--) {
        int32_t s = df->tensors[x].storage;
        int32_t k = q->on_at[s];
        while (q->on[k] >= 0) {
            k++;
        }
        q->on[k] = x;
    }
}

// Operators that make or read something on a storage, more than once where they do so more than once.
static ckm_status find_touching(ckm_i_runs *q, ckm_error *err)
{
    const ckm_dataflow *df = q->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[x];
        q->ops_at[t->storage + 1] += t->n_users + (t->producer >= 0);
    }
    for (int32_t s = 0; s < df->n_tensors; s++) {
        q->ops_at[s + 1] += q->ops_at[s];
    }
    q->ops_on = ckm_i_malloc((size_t)q->ops_at[df->n_tensors], sizeof *q->ops_on);
    int32_t *fill = ckm_i_memdup(q->ops_at, (size_t)df->n_tensors + 1, sizeof *fill);
    for (int32_t x = 0; x < df->n_tensors && fill != NULL && q->ops_on != NULL; x++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[x];
        for (int32_t k = 0; k < t->n_users; k++) {
            q->ops_on[fill[t->storage]++] = t->users[k];
        }
        if (t->producer >= 0) {
            q->ops_on[fill[t->storage]++] = t->producer;
        }
    }
    bool ok = fill != NULL && q->ops_on != NULL;
    free(fill);
    return ok ? CKM_OK : ckm_i_error_memory(err);
}

static bool is_held(const ckm_i_runs *q, const uint64_t *row, int32_t storage)
{
    for (int32_t k = q->on_at[storage]; k < q->on_at[storage + 1]; k++) {
        if (ckm_i_bits_get(row, q->on[k])) {
            return true;
        }
    }
    return false;
}

// Tensors on a storage in the row but those of one operator, -1: none, at most two of them counted.
static int32_t count_held(const ckm_i_runs *q, const uint64_t *row, int32_t storage, int32_t but)
{
    int32_t n = 0;
    for (int32_t k = q->on_at[storage]; k < q->on_at[storage + 1] && n < 2; k++) {
        int32_t x = q->on[k];
        n += ckm_i_bits_get(row, x) && (but < 0 || q->df->tensors[x].producer != but);
    }
    return n;
}

// What is in memory at the end: the results.
static void set_end(ckm_i_runs *q)
{
    const ckm_dataflow *df = q->df;
    uint64_t *row = q->at.needed;
    memset(row, 0, (size_t)q->words * sizeof *row);
    q->at.held[0] = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[x];
        if (t->is_result && t->producer >= 0) {
            q->at.held[0] += t->pinned || is_held(q, row, t->storage) ? 0 : df->tensors[t->storage].bytes;
            ckm_i_bits_set(row, x);
        }
    }
}

static void find_unread(ckm_i_runs *q)
{
    const ckm_dataflow *df = q->df;
    for (int32_t v = 0; v < df->n_ops; v++) {
        q->unread[v] = true;
        for (int32_t k = 0; k < df->ops[v].n_outputs; k++) {
            const ckm_i_dataflow_tensor *t = &df->tensors[df->ops[v].outputs[k]];
            q->unread[v] = q->unread[v] && t->n_users == 0 && !t->is_result;
        }
    }
}

ckm_status ckm_i_runs_init(ckm_i_runs *q, const ckm_dataflow *df, int64_t budget_bytes, bool keeps_order, int32_t cap,
                           ckm_error *err)
{
    *q = (ckm_i_runs){.df = df, .budget_bytes = budget_bytes, .keeps_order = keeps_order, .cap = cap};
    q->words = (int32_t)ckm_i_bits_words(df->n_tensors > 0 ? df->n_tensors : 1);
    size_t places = (size_t)cap + 1;
    size_t most_inputs = 1;
    for (int32_t v = 0; v < df->n_ops; v++) {
        size_t n = (size_t)df->ops[v].n_inputs;
        most_inputs = n > most_inputs ? n : most_inputs;
    }
    bool ok = allocate_list(&q->at, places, (size_t)q->words);
    ok = allocate_list(&q->trial, places, (size_t)q->words) && ok;
    q->first_at = ckm_i_malloc((size_t)df->n_ops, sizeof *q->first_at);
    q->unread = ckm_i_malloc((size_t)df->n_ops, sizeof *q->unread);
    q->on_at = ckm_i_calloc((size_t)df->n_tensors + 1, sizeof *q->on_at);
    q->on = ckm_i_malloc((size_t)df->n_tensors, sizeof *q->on);
    q->chain = ckm_i_malloc(places + CKM_I_RUNS_MAX_CHAIN, sizeof *q->chain);
    q->row = ckm_i_malloc((size_t)q->words, sizeof *q->row);
    q->differs = ckm_i_calloc((size_t)q->words, sizeof *q->differs);
    q->touched = ckm_i_calloc((size_t)df->n_ops, sizeof *q->touched);
    q->ops_at = ckm_i_calloc((size_t)df->n_tensors + 1, sizeof *q->ops_at);
    q->pairs = ckm_i_malloc(ckm_i_most_pairs(df), sizeof *q->pairs);
    q->dies = ckm_i_malloc(most_inputs, sizeof *q->dies);
    if (!ok || q->first_at == NULL || q->unread == NULL || q->on_at == NULL || q->on == NULL || q->chain == NULL ||
        q->row == NULL || q->pairs == NULL || q->dies == NULL || q->differs == NULL || q->touched == NULL ||
        q->ops_at == NULL || find_touching(q, err) != CKM_OK) {
        ckm_i_runs_dispose(q);
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        q->on[x] = -1;
    }
    find_storages(q);
    find_unread(q);
    set_end(q);
    return CKM_OK;
}

void ckm_i_runs_dispose(ckm_i_runs *q)
{
    free_list(&q->at);
    free_list(&q->trial);
    free(q->first_at);
    free(q->unread);
    free(q->on_at);
    free(q->on);
    free(q->chain);
    free(q->row);
    free(q->pairs);
    free(q->dies);
    free(q->differs);
    free(q->touched);
    free(q->ops_at);
    free(q->ops_on);
    *q = (ckm_i_runs){0};
}

// What the in-place pairs of v save, with its operands and outputs in the row.
static int64_t saved_in_place(const ckm_i_runs *q, const ckm_i_dataflow_op *op)
{
    const ckm_dataflow *df = q->df;
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        int32_t x = op->inplace[k][0];
        int32_t y = op->inplace[k][1];
        int32_t from = df->tensors[x].storage;
        bool fits = !df->tensors[x].pinned && !df->tensors[y].pinned && df->tensors[y].alias_of < 0 &&
                    df->tensors[y].bytes <= df->tensors[from].bytes && count_held(q, q->row, from, -1) == 1 &&
                    count_held(q, q->row, y, df->tensors[y].producer) == 0;
        for (int32_t i = 0; fits && i < op->n_inputs; i++) {
            fits = op->inputs[i] != x || q->dies[i];
        }
        if (fits) {
            q->pairs[n][0] = x;
            q->pairs[n++][1] = y;
        }
    }
    int32_t n_chosen = 0;
    return n > 0 ? ckm_i_inplace_best(df, (const int32_t(*)[2])q->pairs, n, NULL, &n_chosen) : 0;
}

static int64_t put_in(ckm_i_runs *q, int32_t x)
{
    const ckm_i_dataflow_tensor *t = &q->df->tensors[x];
    int64_t bytes = t->pinned || is_held(q, q->row, t->storage) ? 0 : q->df->tensors[t->storage].bytes;
    ckm_i_bits_set(q->row, x);
    return bytes;
}

// Goes back over a run of v: q->row and *held are those after it, then those before it. Returns what is in use meanwhile.
static int64_t go_back(ckm_i_runs *q, int32_t v, int64_t *held)
{
    const ckm_dataflow *df = q->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int64_t bytes = *held;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        bytes += ckm_i_bits_get(q->row, op->outputs[i]) ? 0 : put_in(q, op->outputs[i]);
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        int32_t x = op->inputs[i];
        q->dies[i] = df->tensors[x].producer >= 0 && !ckm_i_bits_get(q->row, x);
        for (int32_t k = 0; k < i && !q->dies[i]; k++) {
            q->dies[i] = op->inputs[k] == x && q->dies[k];
        }
        bytes += q->dies[i] && !ckm_i_bits_get(q->row, x) ? put_in(q, x) : 0;
    }
    int64_t saved = op->n_inplace > 0 ? saved_in_place(q, op) : 0;
    int64_t used = df->resident_bytes + bytes + op->workspace_bytes - saved;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        const ckm_i_dataflow_tensor *t = &df->tensors[op->outputs[i]];
        ckm_i_bits_clear(q->row, op->outputs[i]);
        bytes -= t->pinned || is_held(q, q->row, t->storage) ? 0 : df->tensors[t->storage].bytes;
    }
    *held = bytes;
    return used;
}

static int64_t over(const ckm_i_runs *q, int64_t used)
{
    return used > q->budget_bytes ? used - q->budget_bytes : 0;
}

static void emit(ckm_i_runs *q, int32_t v, bool first, int64_t *held)
{
    const ckm_i_dataflow_op *op = &q->df->ops[v];
    bool useful = q->keeps_order ? first : q->unread[v];
    for (int32_t i = 0; i < op->n_outputs && !useful; i++) {
        useful = ckm_i_bits_get(q->row, op->outputs[i]);
    }
    if (!useful) {
        return;
    }
    int32_t at = --q->from;
    q->trial.op[at] = v;
    q->trial.used[at] = go_back(q, v, held);
    q->trial.held[at] = *held;
    memcpy(q->trial.needed + (int64_t)at * q->words, q->row, (size_t)q->words * sizeof *q->row);
    q->trial_cost += op->cost;
    q->trial_excess += over(q, q->trial.used[at]);
}

static void emit_chain(ckm_i_runs *q, int64_t *held)
{
    for (int32_t k = q->n_chain - 1; k >= 0; k--) {
        int32_t v = q->chain[k];
        emit(q, v, q->loading && q->first_at[v] == k, held);
    }
}

// Where the row is another one than at a place before the change.
static void compare(ckm_i_runs *q, int32_t at)
{
    const uint64_t *before = ckm_i_runs_row(q, at);
    uint64_t any = 0;
    for (int32_t w = 0; w < q->words; w++) {
        uint64_t now = q->row[w] ^ before[w];
        for (uint64_t bits = now ^ q->differs[w]; bits != 0; bits &= bits - 1) {
            uint64_t bit = bits & -bits;
            int32_t s = q->df->tensors[w * 64 + __builtin_ctzll(bits)].storage;
            for (int32_t k = q->ops_at[s]; k < q->ops_at[s + 1]; k++) {
                q->touched[q->ops_on[k]] += (now & bit) != 0 ? 1 : -1;
            }
        }
        q->differs[w] = now;
        any |= now;
    }
    q->any_differs = any != 0;
}

// Goes back over a run that touches nothing of what differs: as much more or less is in use as after it.
static void pass(ckm_i_runs *q, int32_t at, int64_t *held)
{
    int64_t more = *held - q->at.held[at + 1];
    int32_t to = --q->from;
    const uint64_t *before = ckm_i_runs_row(q, at);
    uint64_t *row = q->trial.needed + (int64_t)to * q->words;
    for (int32_t w = 0; w < q->words; w++) {
        row[w] = before[w] ^ q->differs[w];
    }
    q->trial.op[to] = q->at.op[at];
    q->trial.used[to] = q->at.used[at] + more;
    q->trial.held[to] = q->at.held[at] + more;
    q->trial_excess += over(q, q->trial.used[to]) - over(q, q->at.used[at]);
    *held = q->trial.held[to];
}

// The row of the place last written to, or after the change.
static void fetch_row(ckm_i_runs *q, bool *stale)
{
    if (*stale) {
        memcpy(q->row, q->trial.needed + (int64_t)q->from * q->words, (size_t)q->words * sizeof *q->row);
        *stale = false;
    }
}

// From a place on downwards until everything is as before.
static void sweep(ckm_i_runs *q, int32_t lowest)
{
    int32_t n_dropped = q->n_dropped;
    bool chained = q->n_chain == 0;
    int64_t held = q->at.held[q->hi];
    bool stale = false;
    int32_t i = q->hi;
    for (;; i--) {
        if (!chained && i == q->chain_at) {
            fetch_row(q, &stale);
            emit_chain(q, &held);
            compare(q, i);
            chained = true;
        }
        if (i == 0 || (i <= lowest && !q->any_differs)) {
            break;
        }
        int32_t v = q->at.op[i - 1];
        bool dropped = n_dropped > 0 && q->dropped[n_dropped - 1] == i - 1;
        if (!dropped && q->touched[v] == 0) {
            pass(q, i - 1, &held);
            stale = true;
            continue;
        }
        fetch_row(q, &stale);
        q->trial_cost -= q->df->ops[v].cost;
        q->trial_excess -= over(q, q->at.used[i - 1]);
        if (dropped) {
            n_dropped--;
        } else {
            emit(q, v, q->first_at[v] == i - 1, &held);
        }
        compare(q, i - 1);
    }
    q->lo = i;
}

bool ckm_i_runs_try(ckm_i_runs *q)
{
    bool chained = q->n_chain > 0;
    int32_t lowest = q->n_dropped > 0 ? q->dropped[0] : q->chain_at;
    if (q->n + q->n_chain > q->cap) {
        return false;
    }
    lowest = chained && q->chain_at < lowest ? q->chain_at : lowest;
    q->hi = q->n_dropped > 0 ? q->dropped[q->n_dropped - 1] + 1 : q->chain_at;
    q->hi = chained && q->chain_at > q->hi ? q->chain_at : q->hi;
    q->from = q->cap;
    q->trial_cost = q->cost;
    q->trial_excess = q->excess;
    memcpy(q->row, ckm_i_runs_row(q, q->hi), (size_t)q->words * sizeof *q->row);
    sweep(q, lowest);
    return true;
}

static void splice(ckm_i_runs *q, int32_t n_new, int32_t n_after)
{
    size_t words = (size_t)q->words;
    int32_t to = q->lo + n_new;
    if (to != q->hi) {
        memmove(q->at.op + to, q->at.op + q->hi, (size_t)n_after * sizeof *q->at.op);
        memmove(q->at.used + to, q->at.used + q->hi, (size_t)n_after * sizeof *q->at.used);
        memmove(q->at.held + to, q->at.held + q->hi, (size_t)(n_after + 1) * sizeof *q->at.held);
        memmove(q->at.needed + (size_t)to * words, q->at.needed + (size_t)q->hi * words,
                (size_t)(n_after + 1) * words * sizeof *q->at.needed);
    }
    size_t n = (size_t)n_new;
    memcpy(q->at.op + q->lo, q->trial.op + q->from, n * sizeof *q->at.op);
    memcpy(q->at.used + q->lo, q->trial.used + q->from, n * sizeof *q->at.used);
    memcpy(q->at.held + q->lo, q->trial.held + q->from, n * sizeof *q->at.held);
    memcpy(q->at.needed + (size_t)q->lo * words, q->trial.needed + (size_t)q->from * words,
           n * words * sizeof *q->at.needed);
}

void ckm_i_runs_accept(ckm_i_runs *q)
{
    int32_t n_new = q->cap - q->from;
    int32_t n_after = q->n - q->hi;
    splice(q, n_new, n_after);
    q->n = q->lo + n_new + n_after;
    for (int32_t i = q->n - 1; i >= 0; i--) {
        q->first_at[q->at.op[i]] = i;
    }
    q->cost = q->trial_cost;
    q->excess = q->trial_excess;
}

void ckm_i_runs_load(ckm_i_runs *q, const int32_t *order, int32_t n)
{
    ckm_i_runs_clear_change(q);
    q->n = 0;
    q->cost = 0;
    q->excess = 0;
    set_end(q);
    memcpy(q->chain, order, (size_t)n * sizeof *order);
    for (int32_t i = n - 1; i >= 0; i--) {
        q->first_at[order[i]] = i;
    }
    q->n_chain = n;
    q->chain_at = 0;
    q->loading = true;
    (void)ckm_i_runs_try(q);
    ckm_i_runs_accept(q);
    q->loading = false;
    memset(q->differs, 0, (size_t)q->words * sizeof *q->differs);
    memset(q->touched, 0, (size_t)q->df->n_ops * sizeof *q->touched);
    q->any_differs = false;
    ckm_i_runs_clear_change(q);
}
