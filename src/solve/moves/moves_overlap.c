// SPDX-License-Identifier: Apache-2.0
// Transfers that are waited for at once become transfers during computation. Where a step goes is decided on the clock of the
// computation alone, as if nothing ever had to be waited for.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "solve/moves/moves_expand.h"

// Steps that go to the same place: what frees comes before what needs room, and both before the step that is there.
typedef enum rank { FREES, RETURNS, STAYS } rank;

typedef struct place {
    int64_t before, at;  // the step before which it goes, and where it was
    rank rank;
} place;

typedef struct spread {
    const ckm_dataflow *df;
    const ckm_schedule *from;
    int64_t budget_bytes;
    int64_t *clock;       // by step: when it begins
    int64_t *bytes;       // by step: in use while it runs, and before a free, with the transfers moved so far
    int64_t *not_before;  // by step that brings a storage back: where that has gone
    int64_t *latest;      // by the same: when it has to begin
    int64_t *by_storage;  // of one pass over the steps
    place *places;        // by step
} spread;

static ckm_status start_clock(const spread *p, ckm_error *err)
{
    int64_t now = 0;
    for (int64_t at = 0; at < p->from->n_steps; at++) {
        const ckm_i_step *step = &p->from->steps[at];
        p->clock[at] = now;
        p->places[at] = (place){at, at, STAYS};
        if (step->kind == CKM_STEP_FREE) {  // what is in use before it, at most: what goes there comes before it
            p->bytes[at] += p->df->tensors[p->df->tensors[step->index].storage].bytes;
        }
        if (step->kind == CKM_STEP_COMPUTE && __builtin_add_overflow(now, p->df->ops[step->index].cost, &now)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "the schedule's time exceeds 63 bits");
        }
    }
    return CKM_OK;
}

static bool makes(const spread *p, int64_t at, int32_t storage)
{
    const ckm_i_step *step = &p->from->steps[at];
    if (step->kind != CKM_STEP_COMPUTE) {
        return step->kind == CKM_STEP_IN && step->index == storage;
    }
    const ckm_i_dataflow_op *op = &p->df->ops[step->index];
    for (int32_t i = 0; i < op->n_outputs; i++) {
        if (p->df->tensors[op->outputs[i]].storage == storage) {
            return true;
        }
    }
    return false;
}

static bool has_room(const spread *p, int64_t at, int64_t bytes)
{
    return p->bytes[at] <= p->budget_bytes - bytes;
}

static void add_bytes(const spread *p, int64_t first, int64_t end, int64_t bytes)
{
    for (int64_t at = first; at < end; at++) {
        p->bytes[at] += bytes;
    }
}

// Whether the step waits for a way out and the next one frees what has left.
static bool waits_and_frees(const spread *p, int64_t at)
{
    const ckm_i_step *steps = p->from->steps;
    return steps[at].kind == CKM_STEP_WAIT_OUT && at + 1 < p->from->n_steps && steps[at + 1].kind == CKM_STEP_FREE &&
           p->df->tensors[steps[at + 1].index].storage == steps[at].index;
}

// The wait for each way out, and the free after it, go to where the way out is done, or as far as there is room.
static void delay_frees(const spread *p)
{
    const ckm_schedule *s = p->from;
    int64_t *done = p->by_storage;
    int64_t link = 0;
    for (int64_t at = 0; at < s->n_steps; at++) {
        const ckm_i_step *step = &s->steps[at];
        int64_t takes = 0;
        if (step->kind == CKM_STEP_OUT && ckm_i_transfer_cost(p->df, p->df->tensors[step->index].bytes, true, &takes)) {
            link = (link > p->clock[at] ? link : p->clock[at]) + takes;
            done[step->index] = link;
        }
        if (!waits_and_frees(p, at)) {
            continue;
        }
        int64_t bytes = p->df->tensors[step->index].bytes;
        int64_t end = at + 2;
        while (end < s->n_steps && p->clock[end] < done[step->index] && has_room(p, end, bytes) &&
               !makes(p, end, step->index)) {
            end++;
        }
        add_bytes(p, at + 2, end, bytes);
        p->places[at] = (place){end, at, FREES};
        p->places[at + 1] = (place){end, at + 1, FREES};
    }
}

// Where what comes back has gone: after the step that frees it, or takes it over.
static void find_departures(const spread *p)
{
    const ckm_schedule *s = p->from;
    int64_t *gone = p->by_storage;
    for (int32_t x = 0; x < p->df->n_tensors; x++) {
        gone[x] = 0;
    }
    for (int64_t at = 0; at < s->n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        for (int32_t k = 0; k < step.n_inplace; k++) {
            gone[p->df->tensors[step.inplace[k][0]].storage] = at + 1;
        }
        if (step.kind == CKM_STEP_FREE) {
            bool stays = p->places[at].rank == STAYS;
            gone[p->df->tensors[step.index].storage] = stays ? at + 1 : p->places[at].before;
        } else if (step.kind == CKM_STEP_IN) {
            p->not_before[at] = gone[step.index];
        }
    }
}

// When each way back has to begin for all to be done where they are waited for, room or not.
static void find_latest(const spread *p)
{
    int64_t link = INT64_MAX;
    for (int64_t at = p->from->n_steps - 1; at >= 0; at--) {
        const ckm_i_step *step = &p->from->steps[at];
        int64_t takes = 0;
        if (step->kind == CKM_STEP_IN &&
            ckm_i_transfer_cost(p->df, ckm_i_bytes_in(p->df, step->index), false, &takes)) {
            link = (link < p->clock[at] ? link : p->clock[at]) - takes;
            link = link > -1 ? link : -1;  // at once
        }
        p->latest[at] = link;
    }
}

// Each way back begins that late, or as early as there is room; none before one that is waited for earlier, which would wait for both.
static void hasten_returns(const spread *p)
{
    int64_t before = 0;
    for (int64_t at = 0; at < p->from->n_steps; at++) {
        const ckm_i_step *step = &p->from->steps[at];
        if (step->kind != CKM_STEP_IN) {
            continue;
        }
        int64_t bytes = p->df->tensors[step->index].bytes;
        int64_t earliest = before > p->not_before[at] ? before : p->not_before[at];
        int64_t first = at;
        while (first > earliest && p->clock[first] > p->latest[at] && has_room(p, first - 1, bytes)) {
            first--;
        }
        add_bytes(p, first, at, bytes);
        p->places[at] = (place){first, at, first < at ? RETURNS : STAYS};
        before = first < at ? first : at + 1;
    }
}

static int by_place(const void *left, const void *right)
{
    const place *a = left;
    const place *b = right;
    if (a->before != b->before) {
        return a->before < b->before ? -1 : 1;
    }
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return a->at < b->at ? -1 : a->at > b->at;
}

static ckm_status write(const spread *p, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *to = NULL;
    size_t n = (size_t)p->from->n_steps;
    if (n > 0) {
        qsort(p->places, n, sizeof *p->places, by_place);
    }
    CKM_I_TRY(ckm_schedule_create(&to, err));
    for (size_t i = 0; i < n; i++) {
        ckm_step step = ckm_schedule_get_step(p->from, p->places[i].at);
        CKM_I_TRY(ckm_schedule_append(to, &step, err));
    }
    *out = to;
    to = NULL;
cleanup:
    ckm_schedule_free(to);
    return status;
}

ckm_status ckm_i_moves_overlap(const ckm_dataflow *df, const ckm_schedule *from, const int64_t *timeline_bytes,
                               int64_t budget_bytes, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)from->n_steps;
    spread p = {.df = df, .from = from, .budget_bytes = budget_bytes};
    p.clock = ckm_i_malloc(n, sizeof *p.clock);
    p.bytes = ckm_i_memdup(timeline_bytes, n, sizeof *p.bytes);
    p.not_before = ckm_i_calloc(n, sizeof *p.not_before);
    p.latest = ckm_i_malloc(n, sizeof *p.latest);
    p.by_storage = ckm_i_calloc((size_t)df->n_tensors, sizeof *p.by_storage);
    p.places = ckm_i_malloc(n, sizeof *p.places);
    if (p.clock == NULL || p.bytes == NULL || p.not_before == NULL || p.latest == NULL || p.by_storage == NULL ||
        p.places == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(start_clock(&p, err));
    delay_frees(&p);
    find_departures(&p);
    find_latest(&p);
    hasten_returns(&p);
    CKM_I_TRY(write(&p, out, err));
cleanup:
    free(p.clock);
    free(p.bytes);
    free(p.not_before);
    free(p.latest);
    free(p.by_storage);
    free(p.places);
    return status;
}
