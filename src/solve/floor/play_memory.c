// SPDX-License-Identifier: Apache-2.0
#include "solve/floor/pebbling_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bitset.h"
#include "base/error.h"

// Beyond this many operators their ancestors take too much room: each is then worth its own cost.
enum { MAX_OPS_WITH_ANCESTORS = 8192 };

static ckm_status list_members(ckm_i_play_memory *m, ckm_error *err)
{
    const ckm_dataflow *df = m->df;
    m->members_at = ckm_i_calloc((size_t)df->n_tensors + 2, sizeof *m->members_at);
    m->members = ckm_i_malloc((size_t)df->n_tensors, sizeof *m->members);
    if (m->members_at == NULL || m->members == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->members_at[df->tensors[x].storage + 2]++;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->members_at[x + 1] += m->members_at[x];
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->members[m->members_at[df->tensors[x].storage + 1]++] = x;
    }
    return CKM_OK;
}

static ckm_status find_worth(ckm_i_play_memory *m, ckm_error *err)
{
    const ckm_dataflow *df = m->df;
    size_t words = ckm_i_bits_words(df->n_ops);
    bool whole = df->n_ops <= MAX_OPS_WITH_ANCESTORS;
    uint64_t *ancestors = whole ? ckm_i_calloc((size_t)df->n_ops * words, sizeof *ancestors) : NULL;
    if (whole && ancestors == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        double cost = (double)op->cost;
        for (int32_t i = 0; whole && i < op->n_inputs; i++) {
            int32_t u = df->tensors[op->inputs[i]].producer;
            for (size_t w = 0; u >= 0 && w < words; w++) {
                ancestors[(size_t)v * words + w] |= ancestors[(size_t)u * words + w];
            }
        }
        for (int32_t u = 0; whole && u < v; u++) {
            cost += ckm_i_bits_get(ancestors + (size_t)v * words, u) ? (double)df->ops[u].cost : 0.0;
        }
        if (whole) {
            ckm_i_bits_set(ancestors + (size_t)v * words, v);
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            m->worth[op->outputs[i]] = cost;
        }
    }
    free(ancestors);
    return CKM_OK;
}

ckm_status ckm_i_play_memory_init(ckm_i_play_memory *m, const ckm_dataflow *df, int64_t budget_bytes, ckm_error *err)
{
    size_t n = (size_t)df->n_tensors;
    size_t most_pairs = ckm_i_most_pairs(df);
    *m = (ckm_i_play_memory){.df = df, .budget_bytes = budget_bytes};
    m->live = ckm_i_calloc(n, sizeof *m->live);
    m->locks = ckm_i_calloc(n, sizeof *m->locks);
    m->live_on = ckm_i_calloc(n, sizeof *m->live_on);
    m->locks_on = ckm_i_calloc(n, sizeof *m->locks_on);
    m->touched = ckm_i_calloc(n, sizeof *m->touched);
    m->read_at = ckm_i_calloc(n, sizeof *m->read_at);
    m->worth = ckm_i_calloc(n, sizeof *m->worth);
    m->pairs = ckm_i_malloc(most_pairs, sizeof *m->pairs);
    m->chosen = ckm_i_malloc(most_pairs, sizeof *m->chosen);
    if (m->live == NULL || m->locks == NULL || m->live_on == NULL || m->locks_on == NULL || m->touched == NULL ||
        m->read_at == NULL || m->worth == NULL || m->pairs == NULL || m->chosen == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(list_members(m, err));
    CKM_I_CHECK(find_worth(m, err));
    ckm_i_play_memory_reset(m);
    return CKM_OK;
}

void ckm_i_play_memory_dispose(ckm_i_play_memory *m)
{
    void *all[] = {m->live,    m->locks,   m->live_on, m->locks_on, m->members_at, m->members,
                   m->touched, m->read_at, m->worth,   m->pairs,    m->chosen};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        free(all[i]);
    }
    *m = (ckm_i_play_memory){.df = NULL};
}

static bool always_there(const ckm_i_play_memory *m, int32_t storage)
{
    return m->df->tensors[storage].pinned;
}

static void set_live(ckm_i_play_memory *m, int32_t x, bool live)
{
    int32_t storage = m->df->tensors[x].storage;
    int32_t before = m->live_on[storage];
    if (m->live[x] == live) {
        return;
    }
    m->live[x] = live;
    m->live_on[storage] += live ? 1 : -1;
    if (!always_there(m, storage) && (before == 0 || m->live_on[storage] == 0)) {
        m->live_bytes += live ? m->df->tensors[storage].bytes : -m->df->tensors[storage].bytes;
    }
}

void ckm_i_play_memory_reset(ckm_i_play_memory *m)
{
    const ckm_dataflow *df = m->df;
    size_t n = (size_t)df->n_tensors;
    memset(m->live, 0, n * sizeof *m->live);
    memset(m->locks, 0, n * sizeof *m->locks);
    memset(m->live_on, 0, n * sizeof *m->live_on);
    memset(m->locks_on, 0, n * sizeof *m->locks_on);
    m->live_bytes = 0;
    m->locked_bytes = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].producer < 0) {
            set_live(m, x, true);
        }
    }
}

void ckm_i_play_lock(ckm_i_play_memory *m, int32_t x, int32_t by)
{
    int32_t storage = m->df->tensors[x].storage;
    int32_t before = m->locks_on[storage];
    m->locks[x] += by;
    m->locks_on[storage] += by;
    if (!always_there(m, storage) && (before == 0 || m->locks_on[storage] == 0)) {
        m->locked_bytes += by > 0 ? m->df->tensors[storage].bytes : -m->df->tensors[storage].bytes;
    }
}

// What running v adds, nothing overwritten.
static int64_t added_bytes(const ckm_i_play_memory *m, int32_t v)
{
    const ckm_i_dataflow_op *op = &m->df->ops[v];
    int64_t bytes = op->workspace_bytes;
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t storage = m->df->tensors[op->outputs[i]].storage;
        bool counted = m->live_on[storage] > 0 || always_there(m, storage);
        for (int32_t k = 0; k < i && !counted; k++) {
            counted = m->df->tensors[op->outputs[k]].storage == storage;
        }
        bytes += counted ? 0 : m->df->tensors[storage].bytes;
    }
    return bytes;
}

static bool has_operands(const ckm_i_play_memory *m, int32_t v)
{
    const ckm_i_dataflow_op *op = &m->df->ops[v];
    bool all = true;
    for (int32_t i = 0; i < op->n_inputs && all; i++) {
        all = m->live[op->inputs[i]];
    }
    return all;
}

// The storage to give up next; -1 where all are locked or read.
static int32_t choose_victim(ckm_i_play_memory *m)
{
    int32_t victim = -1;
    double least = 0.0;
    m->work += m->df->n_tensors / 4;
    for (int32_t s = 0; s < m->df->n_tensors; s++) {
        if (m->live_on[s] == 0 || m->locks_on[s] > 0 || always_there(m, s) || m->read_at[s] == m->now ||
            m->df->tensors[s].bytes == 0) {
            continue;
        }
        double worth = 0.0;
        for (int32_t k = m->members_at[s]; k < m->members_at[s + 1]; k++) {
            int32_t x = m->members[k];
            worth = m->live[x] && m->worth[x] > worth ? m->worth[x] : worth;
        }
        double score = worth / ((double)m->df->tensors[s].bytes * (double)(m->now - m->touched[s]));
        if (victim < 0 || score < least) {
            victim = s;
            least = score;
        }
    }
    return victim;
}

static void give_up(ckm_i_play_memory *m, int32_t storage)
{
    for (int32_t k = m->members_at[storage]; k < m->members_at[storage + 1]; k++) {
        set_live(m, m->members[k], false);
    }
}

// What v may overwrite, as the simulator decides, of what is not locked; what saves most. Returns the bytes.
static int64_t choose_pairs(ckm_i_play_memory *m, int32_t v, int32_t *n_chosen)
{
    const ckm_dataflow *df = m->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        int32_t from = op->inplace[k][0];
        int32_t to = op->inplace[k][1];
        int32_t storage = df->tensors[from].storage;
        bool fits = !df->tensors[from].pinned && m->locks[from] == 0 && m->live_on[storage] == 1 &&
                    df->tensors[to].alias_of < 0 && m->live_on[to] == 0 && !df->tensors[to].pinned &&
                    df->tensors[to].bytes <= df->tensors[storage].bytes;
        for (int32_t i = 0; i < op->n_outputs && fits; i++) {
            fits = df->tensors[op->outputs[i]].storage != storage;
        }
        if (fits) {
            memcpy(m->pairs[n++], op->inplace[k], sizeof m->pairs[0]);
        }
    }
    return ckm_i_inplace_best(df, (const int32_t(*)[2])m->pairs, n, m->chosen, n_chosen);
}

// Whether op reads x.
static bool reads(const ckm_i_dataflow_op *op, int32_t x)
{
    bool found = false;
    for (int32_t i = 0; i < op->n_inputs && !found; i++) {
        found = op->inputs[i] == x;
    }
    return found;
}

// Gives up what is on a storage and neither locked nor read by op.
static void clear(ckm_i_play_memory *m, int32_t storage, const ckm_i_dataflow_op *op)
{
    for (int32_t k = m->members_at[storage]; k < m->members_at[storage + 1]; k++) {
        int32_t x = m->members[k];
        if (m->locks[x] == 0 && m->df->tensors[x].producer >= 0 && !reads(op, x)) {
            set_live(m, x, false);
        }
    }
}

// Nothing else can be given up: v writes over what is not locked of what it reads. In the way are other tensors on the same
// storage and on that of an output, such as what an earlier run has left. False where that is not enough.
static bool overwrite(ckm_i_play_memory *m, int32_t v)
{
    const ckm_dataflow *df = m->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n_chosen = 0;
    for (int32_t i = 0; i < op->n_inplace; i++) {
        clear(m, df->tensors[op->inplace[i][0]].storage, op);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        clear(m, df->tensors[op->outputs[i]].storage, op);
    }
    int64_t needed = df->resident_bytes + added_bytes(m, v) + m->live_bytes;
    if (needed - choose_pairs(m, v, &n_chosen) > m->budget_bytes) {
        return false;
    }
    for (int32_t k = 0; k < n_chosen; k++) {
        set_live(m, m->chosen[k][0], false);
    }
    return true;
}

bool ckm_i_play_run(ckm_i_play_memory *m, int32_t v)
{
    const ckm_dataflow *df = m->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    if (!has_operands(m, v)) {
        return false;
    }
    m->now++;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        m->read_at[df->tensors[op->inputs[i]].storage] = m->now;
        m->touched[df->tensors[op->inputs[i]].storage] = m->now;
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        m->read_at[df->tensors[op->outputs[i]].storage] = m->now;
        m->touched[df->tensors[op->outputs[i]].storage] = m->now;
    }
    int64_t needed = df->resident_bytes + added_bytes(m, v);
    for (int32_t s = 0; s >= 0 && needed + m->live_bytes > m->budget_bytes;) {
        s = choose_victim(m);
        if (s >= 0) {
            give_up(m, s);
        }
    }
    if (needed + m->live_bytes > m->budget_bytes && !overwrite(m, v)) {
        return false;
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        set_live(m, op->outputs[i], true);
    }
    return true;
}

int64_t ckm_i_play_without_idle_runs(const ckm_dataflow *df, int32_t *order, int64_t n, bool *needed, int32_t *runs)
{
    int64_t at = n;
    memset(runs, 0, (size_t)df->n_ops * sizeof *runs);
    for (int64_t i = 0; i < n; i++) {
        runs[order[i]]++;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        needed[x] = df->tensors[x].is_result;
    }
    for (int64_t i = n - 1; i >= 0; i--) {
        const ckm_i_dataflow_op *op = &df->ops[order[i]];
        bool useful = runs[order[i]]-- == 1;  // the first run of an operator stays where it is
        for (int32_t k = 0; k < op->n_outputs; k++) {
            useful = useful || needed[op->outputs[k]];
        }
        if (!useful) {
            continue;
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            needed[op->outputs[k]] = false;
        }
        for (int32_t k = 0; k < op->n_inputs; k++) {
            needed[op->inputs[k]] = true;
        }
        order[--at] = order[i];
    }
    memmove(order, order + at, (size_t)(n - at) * sizeof *order);
    return n - at;
}
