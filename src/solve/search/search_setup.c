// SPDX-License-Identifier: Apache-2.0
// Setting up the search state from whatever is known, and writing it out.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/search/search_state.h"

static void free_lists(ckm_i_ints *lists, int32_t n)
{
    for (int32_t i = 0; i < n && lists != NULL; i++) {
        free(lists[i].at);
    }
    free(lists);
}

void ckm_i_spans_free(ckm_i_spans *spans, int32_t n)
{
    for (int32_t x = 0; x < n && spans != NULL; x++) {
        free(spans[x].at);
    }
    free(spans);
}

void ckm_i_search_free(ckm_i_search *s)
{
    if (s == NULL) {
        return;
    }
    ckm_i_spans_free(s->held, s->df->n_tensors);
    ckm_i_spans_free(s->kept, s->df->n_tensors);
    free_lists(s->again, s->df->n_ops);
    free_lists(s->extra, s->df->n_ops);
    free_lists(s->starts, s->df->n_ops);
    ckm_i_profile_dispose(&s->peaks);
    free(s->sibling);
    free(s->above);
    free(s->dirty.at);
    free(s->journal);
    free(s->old_ops);
    free(s->marks);
    free(s->op_stamp);
    free(s->ops.at);
    free(s->pairs);
    free(s->chosen);
    free(s->differs.at);
    free(s->differs_mark);
    free(s);
}

static void link_siblings(const ckm_dataflow *df, int32_t *sibling)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        sibling[x] = x;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        int32_t owner = df->tensors[x].alias_of;
        if (owner >= 0) {
            sibling[x] = sibling[owner];
            sibling[owner] = x;
        }
    }
}

ckm_status ckm_i_search_create(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_search **out, ckm_error *err)
{
    size_t n = (size_t)df->n_ops;
    size_t n_tensors = (size_t)df->n_tensors;
    size_t most_pairs = ckm_i_most_pairs(df);
    ckm_i_search *s = ckm_i_calloc(1, sizeof *s);
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    s->df = df;
    s->held = ckm_i_calloc(n_tensors, sizeof *s->held);
    s->kept = ckm_i_calloc(n_tensors, sizeof *s->kept);
    s->again = ckm_i_calloc(n, sizeof *s->again);
    s->extra = ckm_i_calloc(n, sizeof *s->extra);
    s->starts = ckm_i_calloc(n, sizeof *s->starts);
    s->sibling = ckm_i_calloc(n_tensors, sizeof *s->sibling);
    s->above = ckm_i_calloc(n, sizeof *s->above);
    s->marks = ckm_i_calloc(n_tensors, sizeof *s->marks);
    s->op_stamp = ckm_i_calloc(n, sizeof *s->op_stamp);
    s->pairs = ckm_i_calloc(most_pairs, sizeof *s->pairs);
    s->chosen = ckm_i_calloc(most_pairs, sizeof *s->chosen);
    s->differs.at = ckm_i_calloc(n_tensors, sizeof *s->differs.at);
    s->differs_mark = ckm_i_calloc(n_tensors, sizeof *s->differs_mark);
    if (s->held == NULL || s->kept == NULL || s->again == NULL || s->extra == NULL || s->starts == NULL ||
        s->sibling == NULL || s->above == NULL || s->marks == NULL || s->op_stamp == NULL || s->pairs == NULL ||
        s->chosen == NULL || s->differs.at == NULL || s->differs_mark == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    link_siblings(df, s->sibling);
    CKM_I_TRY(ckm_i_profile_create(df->n_ops, budget_bytes, &s->peaks, err));
    CKM_I_TRY(ckm_i_search_hold_all(s, err));
cleanup:
    if (status != CKM_OK) {
        ckm_i_search_free(s);
    } else {
        *out = s;
    }
    return status;
}

// Empties the state and takes over spans as they are; what they bring about is found below.
static void take_spans(ckm_i_search *s, const ckm_i_spans *from)
{
    const ckm_dataflow *df = s->df;
    for (int32_t t = 0; t < df->n_ops; t++) {
        s->again[t].n = s->extra[t].n = s->starts[t].n = 0;
        s->above[t] = 0;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        s->held[x].n = 0;
        s->differs.at[x] = x;
        s->differs_mark[x] = true;
    }
    s->differs.n = df->n_tensors;
    ckm_i_profile_clear(&s->peaks);
    s->total_cost = df->total_cost;
    s->dirty.n = 0;
    s->current = df->n_ops;
    s->settled = false;
    s->most_cost = INT64_MAX;
    ckm_i_search_commit(s);
    ckm_i_profile_open(&s->peaks);
    ckm_i_profile_add(&s->peaks, 0, df->n_ops - 1, df->resident_bytes);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        for (int32_t i = 0; i < from[x].n; i++) {
            ckm_i_search_turn(s, x, from[x].at[i].first, from[x].at[i].last);
        }
    }
    ckm_i_profile_close(&s->peaks);
}

// Tensors by the stage at which their last span not looked at yet ends.
typedef struct endings {
    int32_t *first;  // per stage: a tensor, -1
    int32_t *next;   // per tensor
} endings;

static void file_ending(const ckm_i_search *s, const endings *ends, int32_t x, int32_t before)
{
    const ckm_i_spans *spans = &s->held[x];
    int32_t i = spans->n - 1;
    while (i >= 0 && spans->at[i].first >= before) {
        i--;
    }
    if (i >= 0) {
        int32_t last = spans->at[i].last < before ? spans->at[i].last : before - 1;
        ends->next[x] = ends->first[last];
        ends->first[last] = x;
    }
}

// Where the span of x that reaches stage t begins; t when there is none.
static int32_t first_of_span(const ckm_i_search *s, int32_t x, int32_t t)
{
    const ckm_i_spans *spans = &s->held[x];
    int32_t i = spans->n - 1;
    while (i >= 0 && spans->at[i].first > t) {
        i--;
    }
    return i >= 0 && spans->at[i].last >= t ? spans->at[i].first : t;
}

// Shortens spans that end at t and are of no use there.
static void trim_stage(ckm_i_search *s, const endings *ends, int32_t t)
{
    int32_t x = ends->first[t];
    while (x >= 0) {
        int32_t next = ends->next[x];
        bool used = s->marks[x].stamp == s->stamp && s->marks[x].last_use >= 0;
        if (!used && ckm_i_search_holds(s, x, t) && !ckm_i_search_holds(s, x, t + 1)) {
            ckm_i_search_turn(s, x, t, t);
            file_ending(s, ends, x, t);
        } else {
            file_ending(s, ends, x, first_of_span(s, x, t));
        }
        x = next;
    }
}

// Takes over spans and makes the state closed and trimmed, from the last stage to the first.
// *fits: whether 63 bits hold what it costs.
static ckm_status settle(ckm_i_search *s, const ckm_i_spans *from, bool *fits, ckm_error *err)
{
    const ckm_dataflow *df = s->df;
    ckm_status status = CKM_OK;
    endings ends = {ckm_i_malloc((size_t)df->n_ops + 1, sizeof *ends.first),
                    ckm_i_malloc((size_t)df->n_tensors, sizeof *ends.next)};
    if (ends.first == NULL || ends.next == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    memset(ends.first, 0xff, ((size_t)df->n_ops + 1) * sizeof *ends.first);
    take_spans(s, from);
    bool ok = true;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        file_ending(s, &ends, x, df->n_ops);
    }
    for (int32_t t = df->n_ops - 1; t >= 0 && ok; t--) {
        ok = ckm_i_search_close_stage(s, t);
        if (!ok) {
            break;
        }
        trim_stage(s, &ends, t);
        ok = ckm_i_search_set_extra(s, t, s->ops.at, s->ops.n - 1) && !s->failed;
        ckm_i_search_set_above(s, t, ckm_i_search_walk_stage(s, t, NULL, NULL, NULL));
    }
    ckm_i_search_commit(s);
    s->settled = true;
    s->excess = ckm_i_profile_excess(&s->peaks);
    if (s->failed) {
        status = ckm_i_error_memory(err);
    }
    *fits = ok;
cleanup:
    free(ends.first);
    free(ends.next);
    return status;
}

bool ckm_i_spans_append(ckm_i_spans *spans, int32_t first, int32_t last)
{
    if (first > last) {
        return true;
    }
    if (spans->n > 0 && spans->at[spans->n - 1].last == first - 1) {
        spans->at[spans->n - 1].last = last;
        return true;
    }
    if (spans->n == spans->cap && !CKM_I_GROW(spans->at, spans->n, spans->cap)) {
        return false;
    }
    spans->at[spans->n++] = (ckm_i_span){first, last};
    return true;
}

static bool all_spans(const ckm_dataflow *df, ckm_i_spans *spans)
{
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int32_t last = tensor->n_users > 0 ? tensor->users[tensor->n_users - 1] : -1;
        last = tensor->is_result ? df->n_ops : last;
        if (!tensor->pinned && !ckm_i_spans_append(&spans[x], tensor->producer + 1, last)) {
            return false;
        }
    }
    return true;
}

ckm_status ckm_i_search_hold_all(ckm_i_search *s, ckm_error *err)
{
    bool fits = true;
    ckm_i_spans *spans = ckm_i_calloc((size_t)s->df->n_tensors, sizeof *spans);
    ckm_status status = CKM_OK;
    if (spans == NULL || !all_spans(s->df, spans)) {
        status = ckm_i_error_memory(err);
    } else {
        status = settle(s, spans, &fits, err);
    }
    ckm_i_spans_free(spans, s->df->n_tensors);
    return status == CKM_OK && !fits ? ckm_i_error(err, CKM_ERR_OVERFLOW, "the cost of recomputation exceeds 63 bits")
                                     : status;
}

ckm_status ckm_i_search_take(ckm_i_search *s, const ckm_i_spans *from, ckm_error *err)
{
    bool fits = true;
    CKM_I_CHECK(settle(s, from, &fits, err));
    return fits ? CKM_OK : ckm_i_search_hold_all(s, err);
}

ckm_status ckm_i_search_restore(ckm_i_search *s, ckm_error *err)
{
    return ckm_i_search_take(s, s->kept, err);
}

// Where a tensor was made and last used while steps are read.
typedef struct life {
    int32_t made, used;
    bool live;
} life;

static bool end_life(const ckm_dataflow *df, ckm_i_spans *spans, life *lives, int32_t x)
{
    lives[x].live = false;
    return df->tensors[x].pinned || ckm_i_spans_append(&spans[x], lives[x].made + 1, lives[x].used);
}

static bool read_compute(const ckm_dataflow *df, const ckm_step *step, int32_t stage, ckm_i_spans *spans, life *lives)
{
    const ckm_i_dataflow_op *op = &df->ops[step->index];
    bool ok = true;
    for (int32_t i = 0; i < op->n_inputs; i++) {
        lives[op->inputs[i]].used = stage;
    }
    for (int32_t p = 0; p < step->n_inplace; p++) {
        ok = ok && end_life(df, spans, lives, step->inplace[p][0]);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        life *l = &lives[op->outputs[i]];
        if (!l->live) {
            *l = (life){stage, stage, true};
        }
    }
    return ok;
}

// What a schedule holds from stage to stage. *ordered is false when it computes operators in another order.
static ckm_status read_steps(const ckm_dataflow *df, const ckm_schedule *schedule, ckm_i_spans *spans, life *lives,
                             bool *ordered, ckm_error *err)
{
    int32_t stage = 0;  // operators below have run
    bool ok = true;
    *ordered = true;
    for (int64_t i = 0; i < ckm_schedule_step_count(schedule) && ok && *ordered; i++) {
        ckm_step step = ckm_schedule_get_step(schedule, i);
        if (step.kind == CKM_STEP_FREE) {
            ok = end_life(df, spans, lives, step.index);
        } else {
            *ordered = step.index <= stage;
            int32_t now = stage < df->n_ops ? stage : df->n_ops - 1;
            ok = !*ordered || read_compute(df, &step, now, spans, lives);
            stage += step.index == stage;
        }
    }
    for (int32_t i = 0; i < df->n_results && ok && *ordered; i++) {
        life *l = &lives[df->results[i]];  // may be listed twice
        l->used = df->n_ops;
        ok = !l->live || end_life(df, spans, lives, df->results[i]);
    }
    return ok ? CKM_OK : ckm_i_error_memory(err);
}

ckm_status ckm_i_search_load(ckm_i_search *s, const ckm_schedule *schedule, ckm_error *err)
{
    const ckm_dataflow *df = s->df;
    ckm_i_spans *spans = ckm_i_calloc((size_t)df->n_tensors, sizeof *spans);
    life *lives = ckm_i_calloc((size_t)df->n_tensors, sizeof *lives);
    ckm_status status = CKM_OK;
    bool ordered = true;
    if (spans == NULL || lives == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(read_steps(df, schedule, spans, lives, &ordered, err));
    CKM_I_TRY(ordered ? ckm_i_search_take(s, spans, err) : ckm_i_search_hold_all(s, err));
cleanup:
    ckm_i_spans_free(spans, df->n_tensors);
    free(lives);
    return status;
}

void ckm_i_search_to_stages(const ckm_i_search *s, ckm_i_stages *out)
{
    memset(out->s, 0, ((size_t)out->n_ops + 1) * out->s_words * sizeof *out->s);
    for (int32_t x = 0; x < out->n_tensors; x++) {
        for (int32_t i = 0; i < s->held[x].n; i++) {
            for (int32_t t = s->held[x].at[i].first; t <= s->held[x].at[i].last; t++) {
                ckm_i_bits_set(ckm_i_stages_s(out, t), x);
            }
        }
    }
}

ckm_status ckm_i_search_emit(ckm_i_search *s, ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_create(&schedule, err));
    s->most_cost = INT64_MAX;
    for (int32_t t = 0; t < s->df->n_ops; t++) {
        if (!ckm_i_search_close_stage(s, t)) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        ckm_i_search_walk_stage(s, t, schedule, &status, err);
        CKM_I_TRY(status);
    }
    *out = schedule;
    schedule = NULL;
cleanup:
    ckm_schedule_free(schedule);
    return status;
}
