// SPDX-License-Identifier: Apache-2.0
// One stage of a frontier-advancing schedule: which operators it computes, how much memory it takes, and
// its steps.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "schedule/stages.h"

struct ckm_i_walk {
    const ckm_dataflow *df;
    int64_t stamp;        // marks which entries below belong to the current stage
    int64_t *used_at;     // per tensor: stamp * n_ops + its last user in this stage
    int64_t *live_stamp;  // per tensor: stamp for which `live` holds; else it lives if s_t holds it
    bool *live;
    int32_t *next;        // per tensor: the next one on its storage, from the owner on; -1 ends
    const uint64_t *s_t;  // what the current stage began with
    int32_t (*pairs)[2], (*chosen)[2];
    int64_t bytes;  // of everything live
};

// Receives the steps of a stage in order; either may be ignored.
typedef struct step_sink {
    ckm_status (*put)(struct step_sink *sink, const ckm_step *step);
    ckm_schedule *schedule;
    ckm_error *err;
} step_sink;

ckm_status ckm_i_walk_create(const ckm_dataflow *df, ckm_i_walk **out, ckm_error *err)
{
    size_t n = (size_t)df->n_tensors;
    size_t most_pairs = ckm_i_most_pairs(df);
    ckm_i_walk *walk = ckm_i_calloc(1, sizeof *walk);
    if (walk == NULL) {
        return ckm_i_error_memory(err);
    }
    walk->df = df;
    walk->used_at = ckm_i_calloc(n, sizeof *walk->used_at);
    walk->live_stamp = ckm_i_calloc(n, sizeof *walk->live_stamp);
    walk->live = ckm_i_calloc(n, sizeof *walk->live);
    walk->next = ckm_i_calloc(n, sizeof *walk->next);
    walk->pairs = ckm_i_calloc(most_pairs, sizeof *walk->pairs);
    walk->chosen = ckm_i_calloc(most_pairs, sizeof *walk->chosen);
    if (walk->used_at == NULL || walk->live_stamp == NULL || walk->live == NULL || walk->next == NULL ||
        walk->pairs == NULL || walk->chosen == NULL) {
        ckm_i_walk_free(walk);
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        walk->next[x] = -1;
    }
    for (int32_t x = df->n_tensors - 1; x >= 0; x--) {
        int32_t owner = df->tensors[x].alias_of;
        if (owner >= 0) {
            walk->next[x] = walk->next[owner];
            walk->next[owner] = x;
        }
    }
    *out = walk;
    return CKM_OK;
}

void ckm_i_walk_free(ckm_i_walk *walk)
{
    if (walk != NULL) {
        free(walk->used_at);
        free(walk->live_stamp);
        free(walk->live);
        free(walk->next);
        free(walk->pairs);
        free(walk->chosen);
        free(walk);
    }
}

// Makes stage t able to provide tensor x: by computing its producer, or, when that runs only once and has
// run before, by holding x.
static void demand(const ckm_dataflow *df, int32_t t, int32_t x, uint64_t *s_t, uint64_t *r)
{
    int32_t producer = df->tensors[x].producer;
    if (producer < 0 || ckm_i_bits_get(s_t, x) || df->tensors[x].pinned) {
        // A pinned tensor that is produced (a view of an input) still has to be computed once, by the
        // frontier of its own stage; afterwards it is never freed.
        return;
    }
    if (producer < t && !df->ops[producer].recomputable) {
        ckm_i_bits_set(s_t, x);
    } else {
        ckm_i_bits_set(r, producer);
    }
}

int64_t ckm_i_walk_close(ckm_i_walk *walk, int32_t t, uint64_t *s_t, const uint64_t *s_next, uint64_t *r)
{
    const ckm_dataflow *df = walk->df;
    size_t s_words = ckm_i_bits_words(df->n_tensors);
    memset(r, 0, ckm_i_bits_words(df->n_ops) * sizeof *r);
    ckm_i_bits_set(r, t);
    for (size_t w = 0; w < s_words; w++) {
        for (uint64_t bits = s_next[w] & ~s_t[w]; bits != 0; bits &= bits - 1) {
            demand(df, t, (int32_t)(w * 64) + __builtin_ctzll(bits), s_t, r);
        }
    }
    // Descending: an operand's producer always has a smaller index, so one pass closes the set.
    int64_t cost = 0;
    for (int64_t w = t / 64; w >= 0; w--) {
        uint64_t done = 0;
        for (uint64_t bits = r[w]; bits != 0; bits = r[w] & ~done) {
            int bit = 63 - __builtin_clzll(bits);
            done |= UINT64_C(1) << bit;
            const ckm_i_dataflow_op *op = &df->ops[w * 64 + bit];
            if (!ckm_i_add(cost, op->cost, &cost)) {
                cost = INT64_MAX;
            }
            for (int32_t i = 0; i < op->n_inputs; i++) {
                demand(df, t, op->inputs[i], s_t, r);
            }
        }
    }
    return cost;
}

// Stamps the last user of every tensor in the stage.
static void mark_uses(ckm_i_walk *walk, int32_t t, const uint64_t *r)
{
    const ckm_dataflow *df = walk->df;
    walk->stamp++;
    for (int64_t w = 0; w <= t / 64; w++) {
        for (uint64_t bits = r[w]; bits != 0; bits &= bits - 1) {
            int32_t v = (int32_t)(w * 64) + __builtin_ctzll(bits);
            const ckm_i_dataflow_op *op = &df->ops[v];
            for (int32_t i = 0; i < op->n_inputs; i++) {
                walk->used_at[op->inputs[i]] = walk->stamp * df->n_ops + v;
            }
        }
    }
}

// Whether an operator of the current stage after v reads x (v = -1: any).
static bool used_after(const ckm_i_walk *walk, int32_t x, int32_t v)
{
    return walk->used_at[x] > walk->stamp * walk->df->n_ops + v;
}

void ckm_i_walk_trim(ckm_i_walk *walk, int32_t t, uint64_t *s_t, const uint64_t *s_next, const uint64_t *r)
{
    mark_uses(walk, t, r);
    size_t words = ckm_i_bits_words(walk->df->n_tensors);
    for (size_t w = 0; w < words; w++) {
        for (uint64_t bits = s_t[w] & ~s_next[w]; bits != 0; bits &= bits - 1) {
            int32_t x = (int32_t)(w * 64) + __builtin_ctzll(bits);
            if (!used_after(walk, x, -1)) {
                s_t[w] &= ~(UINT64_C(1) << (x & 63));
            }
        }
    }
}

static bool is_live(const ckm_i_walk *walk, int32_t x)
{
    return walk->live_stamp[x] == walk->stamp ? walk->live[x] : ckm_i_bits_get(walk->s_t, x);
}

// Live tensors on a storage.
static int32_t storage_count(const ckm_i_walk *walk, int32_t storage)
{
    int32_t count = 0;
    for (int32_t x = storage; x >= 0; x = walk->next[x]) {
        count += is_live(walk, x);
    }
    return count;
}

static void set_live(ckm_i_walk *walk, int32_t x, bool live)
{
    walk->live_stamp[x] = walk->stamp;
    walk->live[x] = live;
}

// Adds x to the live set; the bytes of its storage when it is the first.
static void make_live(ckm_i_walk *walk, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &walk->df->tensors[x];
    if (tensor->pinned || is_live(walk, x)) {
        return;
    }
    walk->bytes += storage_count(walk, tensor->storage) == 0 ? walk->df->tensors[tensor->storage].bytes : 0;
    set_live(walk, x, true);
}

static void make_dead(ckm_i_walk *walk, int32_t x)
{
    int32_t storage = walk->df->tensors[x].storage;
    set_live(walk, x, false);
    walk->bytes -= storage_count(walk, storage) == 0 ? walk->df->tensors[storage].bytes : 0;
}

// Whether pair (in, out) of operator v may be used now: `in` dies here and is alone on its storage, `out`
// starts its own storage; outputs of v that are views of it share that.
static bool pair_allowed(const ckm_i_walk *walk, int32_t v, int32_t in, int32_t out, const uint64_t *s_next)
{
    const ckm_dataflow *df = walk->df;
    const ckm_i_dataflow_tensor *from = &df->tensors[in];
    const ckm_i_dataflow_tensor *to = &df->tensors[out];
    if (from->pinned || to->pinned || to->alias_of >= 0 || used_after(walk, in, v) || ckm_i_bits_get(s_next, in) ||
        storage_count(walk, from->storage) != 1 || storage_count(walk, out) != 0 ||
        to->bytes > df->tensors[from->storage].bytes) {
        return false;
    }
    for (int32_t i = 0; i < df->ops[v].n_outputs; i++) {
        if (df->tensors[df->ops[v].outputs[i]].storage == from->storage) {
            return false;
        }
    }
    return true;
}

static int32_t choose_pairs(ckm_i_walk *walk, int32_t v, const uint64_t *s_next)
{
    const ckm_i_dataflow_op *op = &walk->df->ops[v];
    int32_t n = 0;
    int32_t n_chosen = 0;
    for (int32_t p = 0; p < op->n_inplace; p++) {
        if (pair_allowed(walk, v, op->inplace[p][0], op->inplace[p][1], s_next)) {
            walk->pairs[n][0] = op->inplace[p][0];
            walk->pairs[n][1] = op->inplace[p][1];
            n++;
        }
    }
    if (n > 0) {
        ckm_i_inplace_best(walk->df, (const int32_t(*)[2])walk->pairs, n, walk->chosen, &n_chosen);
    }
    return n_chosen;
}

static ckm_status put_free(step_sink *sink, int32_t x)
{
    ckm_step step = {.kind = CKM_STEP_FREE, .index = x};
    return sink != NULL ? sink->put(sink, &step) : CKM_OK;
}

// Frees x unless an operator after v in the stage reads it or the next stage holds it.
static ckm_status free_if_done(ckm_i_walk *walk, int32_t v, int32_t x, const uint64_t *s_next, step_sink *sink)
{
    if (!is_live(walk, x) || used_after(walk, x, v) || ckm_i_bits_get(s_next, x)) {
        return CKM_OK;
    }
    make_dead(walk, x);
    return put_free(sink, x);
}

// Runs operator v; *peak takes the bytes in use meanwhile.
static ckm_status run_op(ckm_i_walk *walk, int32_t v, const uint64_t *s_next, step_sink *sink, int64_t *peak)
{
    const ckm_i_dataflow_op *op = &walk->df->ops[v];
    int32_t n_chosen = op->n_inplace > 0 ? choose_pairs(walk, v, s_next) : 0;
    if (sink != NULL) {
        ckm_step step = {
            .kind = CKM_STEP_COMPUTE, .index = v, .n_inplace = n_chosen, .inplace = (const int32_t(*)[2])walk->chosen};
        CKM_I_CHECK(sink->put(sink, &step));
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        make_live(walk, op->outputs[i]);
    }
    int64_t during = walk->bytes + op->workspace_bytes;
    for (int32_t p = 0; p < n_chosen; p++) {
        during -= walk->df->tensors[walk->chosen[p][1]].bytes;
        make_dead(walk, walk->chosen[p][0]);
    }
    *peak = during > *peak ? during : *peak;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        CKM_I_CHECK(free_if_done(walk, v, op->inputs[i], s_next, sink));
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        CKM_I_CHECK(free_if_done(walk, v, op->outputs[i], s_next, sink));
    }
    return CKM_OK;
}

static ckm_status walk_stage(ckm_i_walk *walk, int32_t t, int64_t held_bytes, const uint64_t *s_t,
                             const uint64_t *s_next, const uint64_t *r, step_sink *sink, int64_t *peak)
{
    mark_uses(walk, t, r);
    walk->s_t = s_t;
    walk->bytes = walk->df->resident_bytes + held_bytes;
    size_t words = ckm_i_bits_words(walk->df->n_tensors);
    // Rows that were trimmed hold nothing useless; for others it is freed before anything runs.
    for (size_t w = 0; w < words; w++) {
        for (uint64_t bits = s_t[w] & ~s_next[w]; bits != 0; bits &= bits - 1) {
            CKM_I_CHECK(free_if_done(walk, -1, (int32_t)(w * 64) + __builtin_ctzll(bits), s_next, sink));
        }
    }
    for (int64_t w = 0; w <= t / 64; w++) {
        for (uint64_t bits = r[w]; bits != 0; bits &= bits - 1) {
            CKM_I_CHECK(run_op(walk, (int32_t)(w * 64) + __builtin_ctzll(bits), s_next, sink, peak));
        }
    }
    return CKM_OK;
}

int64_t ckm_i_walk_held(const ckm_i_walk *walk, const uint64_t *s_t)
{
    const ckm_dataflow *df = walk->df;
    int64_t bytes = 0;
    size_t words = ckm_i_bits_words(df->n_tensors);
    for (size_t w = 0; w < words; w++) {
        for (uint64_t bits = s_t[w]; bits != 0; bits &= bits - 1) {
            int32_t x = (int32_t)(w * 64) + __builtin_ctzll(bits);
            int32_t first = df->tensors[x].storage;
            while (!ckm_i_bits_get(s_t, first)) {
                first = walk->next[first];
            }
            bytes += first == x ? df->tensors[df->tensors[x].storage].bytes : 0;
        }
    }
    return bytes;
}

int64_t ckm_i_walk_peak(ckm_i_walk *walk, int32_t t, int64_t held_bytes, const uint64_t *s_t, const uint64_t *s_next,
                        const uint64_t *r)
{
    int64_t peak = 0;
    ckm_status status = walk_stage(walk, t, held_bytes, s_t, s_next, r, NULL, &peak);
    return status == CKM_OK ? peak : INT64_MAX;
}

static ckm_status append_step(step_sink *sink, const ckm_step *step)
{
    return ckm_schedule_append(sink->schedule, step, sink->err);
}

ckm_status ckm_i_stages_emit(const ckm_i_stages *st, ckm_schedule **out, ckm_error *err)
{
    ckm_i_walk *walk = NULL;
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    int64_t peak = 0;
    CKM_I_TRY(ckm_i_walk_create(st->df, &walk, err));
    CKM_I_TRY(ckm_schedule_create(&schedule, err));
    step_sink sink = {.put = append_step, .schedule = schedule, .err = err};
    for (int32_t t = 0; t < st->n_ops; t++) {
        const uint64_t *s_t = ckm_i_stages_s(st, t);
        CKM_I_TRY(walk_stage(walk, t, ckm_i_walk_held(walk, s_t), s_t, ckm_i_stages_s(st, t + 1), ckm_i_stages_r(st, t),
                             &sink, &peak));
    }
    *out = schedule;
    schedule = NULL;
cleanup:
    ckm_i_walk_free(walk);
    ckm_schedule_free(schedule);
    return status;
}
