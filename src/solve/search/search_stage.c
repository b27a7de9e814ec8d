// SPDX-License-Identifier: Apache-2.0
// One stage of the search state: what it runs, and the memory it takes. The rules are those of
// schedule/stage_walk.c on spans instead of rows of bits; tests compare the two.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "solve/search/search_state.h"

static ckm_i_search_mark *mark_of(ckm_i_search *s, int32_t t, int32_t x)
{
    ckm_i_search_mark *mark = &s->marks[x];
    if (mark->stamp != s->stamp) {
        *mark = (ckm_i_search_mark){s->stamp, -1, ckm_i_search_holds(s, x, t), ckm_i_search_holds(s, x, t + 1)};
    }
    return mark;
}

// Extends the hold of x, which cannot be computed again, up to stage t.
static void hold_until(ckm_i_search *s, int32_t x, int32_t t)
{
    int32_t first = s->settled ? ckm_i_search_event_before(s, x, t) + 1 : t;
    const ckm_i_spans *spans = &s->held[x];
    for (int32_t i = 0; i < spans->n && spans->at[i].first <= t; i++) {
        first = spans->at[i].last + 1 > first ? spans->at[i].last + 1 : first;
    }
    ckm_i_search_flip(s, x, first, t);
}

// Makes stage t able to provide tensor x: by running its producer, or, when that runs only once and has run
// before, by holding x.
static bool demand(ckm_i_search *s, int32_t t, int32_t x)
{
    const ckm_i_dataflow_tensor *tensor = &s->df->tensors[x];
    int32_t producer = tensor->producer;
    if (producer < 0 || tensor->pinned || s->op_stamp[producer] == s->stamp || ckm_i_search_holds(s, x, t)) {
        return true;
    }
    if (!s->df->ops[producer].recomputable) {
        hold_until(s, x, t);
        return true;
    }
    if (s->df->ops[producer].cost > s->room) {
        return false;
    }
    s->room -= s->df->ops[producer].cost;
    s->op_stamp[producer] = s->stamp;
    if (!ckm_i_ints_push(&s->ops, producer)) {
        s->failed = true;
    }
    return !s->failed;
}

static void sort(ckm_i_ints *list)
{
    if (list->n > 32) {
        qsort(list->at, (size_t)list->n, sizeof *list->at, ckm_i_compare_int32);
        return;
    }
    for (int32_t i = 1; i < list->n; i++) {
        int32_t value = list->at[i];
        int32_t j = i;
        for (; j > 0 && list->at[j - 1] > value; j--) {
            list->at[j] = list->at[j - 1];
        }
        list->at[j] = value;
    }
}

bool ckm_i_search_close_stage(ckm_i_search *s, int32_t t)
{
    const ckm_dataflow *df = s->df;
    s->stamp++;
    s->ops.n = 0;
    s->op_stamp[t] = s->stamp;
    s->room = s->most_cost - s->total_cost;
    for (int32_t i = 0; i < s->extra[t].n; i++) {
        s->room += df->ops[s->extra[t].at[i]].cost;
    }
    if (!ckm_i_ints_push(&s->ops, t)) {
        s->failed = true;
        return false;
    }
    bool ok = true;
    // Downwards: a demand may take its tensor out of the list.
    for (int32_t i = s->starts[t].n - 1; i >= 0 && ok; i--) {
        ok = demand(s, t, s->starts[t].at[i]);
    }
    for (int32_t i = 0; i < s->ops.n && ok; i++) {
        const ckm_i_dataflow_op *op = &df->ops[s->ops.at[i]];
        for (int32_t k = 0; k < op->n_inputs && ok; k++) {
            ok = demand(s, t, op->inputs[k]);
        }
    }
    if (!ok) {
        return false;
    }
    sort(&s->ops);
    for (int32_t i = 0; i < s->ops.n; i++) {
        const ckm_i_dataflow_op *op = &df->ops[s->ops.at[i]];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            mark_of(s, t, op->inputs[k])->last_use = i;
        }
    }
    return !s->failed;
}

// Live tensors on the storage of x, x included.
static int32_t storage_count(ckm_i_search *s, int32_t t, int32_t x)
{
    int32_t count = mark_of(s, t, x)->live;
    for (int32_t y = s->sibling[x]; y != x; y = s->sibling[y]) {
        count += mark_of(s, t, y)->live;
    }
    return count;
}

static int64_t storage_bytes(const ckm_i_search *s, int32_t x)
{
    return s->df->tensors[s->df->tensors[x].storage].bytes;
}

// Whether pair (in, out) of the operator at `place` may be used now: `in` dies here and is alone on its storage,
// `out` starts a storage of its own; outputs of the operator that are views of it move in with it.
static bool pair_allowed(ckm_i_search *s, int32_t t, int32_t place, const int32_t pair[2])
{
    const ckm_dataflow *df = s->df;
    const ckm_i_dataflow_op *op = &df->ops[s->ops.at[place]];
    const ckm_i_dataflow_tensor *from = &df->tensors[pair[0]];
    const ckm_i_dataflow_tensor *to = &df->tensors[pair[1]];
    if (from->pinned || to->pinned || to->alias_of >= 0) {
        return false;
    }
    const ckm_i_search_mark *mark = mark_of(s, t, pair[0]);
    if (mark->last_use > place || mark->stays || storage_count(s, t, pair[0]) != 1 ||
        storage_count(s, t, pair[1]) != 0 || to->bytes > storage_bytes(s, pair[0])) {
        return false;
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (df->tensors[op->outputs[i]].storage == from->storage) {
            return false;
        }
    }
    return true;
}

static int32_t choose_pairs(ckm_i_search *s, int32_t t, int32_t place)
{
    const ckm_i_dataflow_op *op = &s->df->ops[s->ops.at[place]];
    int32_t n = 0;
    int32_t n_chosen = 0;
    for (int32_t p = 0; p < op->n_inplace; p++) {
        if (pair_allowed(s, t, place, op->inplace[p])) {
            s->pairs[n][0] = op->inplace[p][0];
            s->pairs[n++][1] = op->inplace[p][1];
        }
    }
    if (n > 0) {
        ckm_i_inplace_best(s->df, (const int32_t(*)[2])s->pairs, n, s->chosen, &n_chosen);
    }
    return n_chosen;
}

// The steps of a stage go here unless `schedule` is NULL.
typedef struct step_sink {
    ckm_schedule *schedule;
    ckm_status *status;
    ckm_error *err;
} step_sink;

static void put(const step_sink *sink, const ckm_step *step)
{
    if (sink->schedule != NULL && *sink->status == CKM_OK) {
        *sink->status = ckm_schedule_append(sink->schedule, step, sink->err);
    }
}

// Frees x unless an operator after `place` reads it or the next stage holds it. Returns the bytes freed.
static int64_t free_if_done(ckm_i_search *s, int32_t t, int32_t place, int32_t x, const step_sink *sink)
{
    if (s->df->tensors[x].pinned) {
        return 0;
    }
    ckm_i_search_mark *mark = mark_of(s, t, x);
    if (!mark->live || mark->last_use > place || mark->stays) {
        return 0;
    }
    mark->live = false;
    ckm_step step = {.kind = CKM_STEP_FREE, .index = x};
    put(sink, &step);
    return storage_count(s, t, x) == 0 ? storage_bytes(s, x) : 0;
}

// Runs the operator at `place` with *bytes in use before it and after it; returns the bytes in use meanwhile.
static int64_t run_op(ckm_i_search *s, int32_t t, int32_t place, const step_sink *sink, int64_t *bytes)
{
    const ckm_dataflow *df = s->df;
    const ckm_i_dataflow_op *op = &df->ops[s->ops.at[place]];
    int32_t n_chosen = op->n_inplace > 0 ? choose_pairs(s, t, place) : 0;
    ckm_step step = {.kind = CKM_STEP_COMPUTE,
                     .index = s->ops.at[place],
                     .n_inplace = n_chosen,
                     .inplace = (const int32_t(*)[2])s->chosen};
    put(sink, &step);
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t x = op->outputs[i];
        if (!df->tensors[x].pinned && !mark_of(s, t, x)->live) {
            *bytes += storage_count(s, t, x) == 0 ? storage_bytes(s, x) : 0;
            s->marks[x].live = true;
        }
    }
    int64_t during = *bytes + op->workspace_bytes;
    for (int32_t p = 0; p < n_chosen; p++) {
        during -= df->tensors[s->chosen[p][1]].bytes;
        *bytes -= storage_bytes(s, s->chosen[p][0]);  // it is alone there
        s->marks[s->chosen[p][0]].live = false;
    }
    for (int32_t i = 0; i < op->n_inputs; i++) {
        *bytes -= free_if_done(s, t, place, op->inputs[i], sink);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        *bytes -= free_if_done(s, t, place, op->outputs[i], sink);
    }
    return during;
}

int64_t ckm_i_search_walk_stage(ckm_i_search *s, int32_t t, ckm_schedule *schedule, ckm_status *status, ckm_error *err)
{
    const step_sink sink = {schedule, status, err};
    int64_t bytes = 0;
    int64_t most = INT64_MIN;
    for (int32_t place = 0; place < s->ops.n; place++) {
        int64_t during = run_op(s, t, place, &sink, &bytes);
        most = during > most ? during : most;
    }
    return most;
}

// Bringing stages back to order after a move: what they run, what they hold in vain, what they peak at.

// Lets go of x, which stage t began with, when nothing in it reads x and the next stage does not hold it.
static void drop_if_idle(ckm_i_search *s, int32_t t, int32_t x)
{
    const ckm_i_search_mark *mark = &s->marks[x];
    if ((mark->stamp == s->stamp && mark->last_use >= 0) || !ckm_i_search_holds(s, x, t) ||
        ckm_i_search_holds(s, x, t + 1)) {
        return;
    }
    int32_t first = t;
    if (s->settled) {
        int32_t begin = s->held[x].at[ckm_i_span_place(&s->held[x], t)].first;
        first = ckm_i_search_event_before(s, x, t) + 1;
        first = begin > first ? begin : first;
    }
    ckm_i_search_flip(s, x, first, t);
}

// Writes stage t to the journal, with the operators it runs when they are about to change.
static bool record_stage(ckm_i_search *s, int32_t t, bool changes)
{
    const ckm_i_ints *extra = &s->extra[t];
    if (s->n_journal == s->cap_journal && !CKM_I_GROW(s->journal, s->n_journal, s->cap_journal)) {
        return false;
    }
    for (int32_t i = 0; i < extra->n && changes; i++) {
        if (s->n_old_ops == s->cap_old_ops && !CKM_I_GROW(s->old_ops, s->n_old_ops, s->cap_old_ops)) {
            return false;
        }
        s->old_ops[s->n_old_ops++] = extra->at[i];
    }
    s->journal[s->n_journal++] = (ckm_i_search_entry){
        .x = -1, .first = t, .n_ops = changes ? extra->n : -1, .above = s->above[t]};
    return true;
}

static bool settle_stage(ckm_i_search *s, int32_t t)
{
    const ckm_dataflow *df = s->df;
    if (!ckm_i_search_close_stage(s, t)) {
        return false;
    }
    int32_t n = s->ops.n - 1;
    const ckm_i_ints *extra = &s->extra[t];
    bool changes = n != extra->n || (n > 0 && memcmp(s->ops.at, extra->at, (size_t)n * sizeof *s->ops.at) != 0);
    if (!record_stage(s, t, changes)) {
        s->failed = true;
        return false;
    }
    // Operands and outputs of what the stage ran until now are all that can be held in vain.
    for (int32_t i = 0; i < extra->n; i++) {
        const ckm_i_dataflow_op *op = &df->ops[extra->at[i]];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            drop_if_idle(s, t, op->inputs[k]);
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            drop_if_idle(s, t, op->outputs[k]);
        }
    }
    if (s->failed || (changes && !ckm_i_search_set_extra(s, t, s->ops.at, n))) {
        return false;
    }
    ckm_i_search_set_above(s, t, ckm_i_search_walk_stage(s, t, NULL, NULL, NULL));
    return !s->failed;
}

bool ckm_i_search_settle(ckm_i_search *s)
{
    bool ok = !s->failed;
    while (ok && s->dirty.n > 0) {
        s->current = s->dirty.at[--s->dirty.n];
        ok = settle_stage(s, s->current);
    }
    s->current = s->df->n_ops;
    s->dirty.n = 0;
    return ok;
}
