// SPDX-License-Identifier: Apache-2.0
// Spans to a schedule. Stages are gone through from the last to the first: what a stage must compute again is known from
// what the next one begins with and from its own operator.
#include "solve/checkpoints/checkpoints.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"

// Spans an operator at most on average, and computations, of which this many are never too many: close to the least memory a chain
// needs dozens an operator.
static const int64_t most_spans = 64, most_computations = 8, few_computations = 2000000;

// Operands looked at between two looks at the clock.
static const int64_t check_period = 50000;

void ckm_i_holds_add(ckm_i_holds *holds, int32_t x, int32_t first, int32_t last)
{
    const ckm_i_dataflow_tensor *tensor = &holds->df->tensors[x];
    if (tensor->pinned) {
        return;
    }
    first = first > tensor->producer ? first : tensor->producer + 1;
    last = last < holds->df->n_ops ? last : holds->df->n_ops - 1;
    if (holds->stages != NULL) {
        for (int32_t t = first; t <= last; t++) {
            ckm_i_bits_set(ckm_i_stages_s(holds->stages, t), x);
        }
        return;
    }
    if (first > last || holds->failed || holds->too_many) {
        return;
    }
    holds->too_many = holds->n >= most_spans * ((int64_t)holds->df->n_tensors + 1);
    holds->failed = !CKM_I_GROW(holds->at, holds->n, holds->cap);
    if (!holds->failed) {
        holds->at[holds->n++] = (ckm_i_hold){x, first, last};
    }
}

void ckm_i_holds_dispose(ckm_i_holds *holds)
{
    free(holds->at);
    *holds = (ckm_i_holds){.df = holds->df, .stages = holds->stages};
}

static int by_tensor_then_first(const void *a, const void *b)
{
    const ckm_i_hold *p = a;
    const ckm_i_hold *q = b;
    return p->tensor != q->tensor ? (p->tensor < q->tensor ? -1 : 1) : (p->first > q->first) - (p->first < q->first);
}

typedef struct closing {
    const ckm_dataflow *df;
    const ckm_i_holds *holds;
    int64_t *start;   // per tensor: its first span; n_tensors + 1
    int64_t *from;    // per stage: the first of the tensors that the next row holds and its own does not; n_ops + 1
    int32_t *begins;  // those tensors
    int32_t *until;   // per tensor of an operator that runs once: the last row that needs it, -1
    int32_t *stamp;   // per operator: the stage that runs it, while that is closed
    int32_t *order;   // computations, the last one first
    int64_t n, cap;
    int64_t stage_from;  // where the stage at hand begins in it
    int64_t work;        // operands looked at since somebody was asked whether to stop
    ckm_stop_fn stop;    // may be NULL
    void *user;
    bool given_up;
} closing;

static bool runs_once(const ckm_dataflow *df, int32_t x)
{
    return !df->ops[df->tensors[x].producer].recomputable;
}

// Sorts the spans and joins those that touch.
static void merge(ckm_i_holds *holds)
{
    int64_t n = 0;
    if (holds->n == 0) {
        return;
    }
    qsort(holds->at, (size_t)holds->n, sizeof *holds->at, by_tensor_then_first);
    for (int64_t i = 1; i < holds->n; i++) {
        ckm_i_hold *last = &holds->at[n];
        const ckm_i_hold *next = &holds->at[i];
        if (next->tensor == last->tensor && next->first <= last->last + 1) {
            last->last = next->last > last->last ? next->last : last->last;
        } else {
            holds->at[++n] = *next;
        }
    }
    holds->n = n + 1;
}

// Whether row t holds x.
static bool holds_at(const closing *c, int32_t x, int32_t t)
{
    if (runs_once(c->df, x)) {
        return t <= c->until[x] && t > c->df->tensors[x].producer;
    }
    int64_t low = c->start[x];
    int64_t high = c->start[x + 1];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (c->holds->at[middle].last < t) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < c->start[x + 1] && c->holds->at[low].first <= t;
}

// Indices into the spans, and by stage what begins to be held there again.
static void index_spans(closing *c)
{
    const ckm_i_holds *holds = c->holds;
    for (int32_t x = 0; x < c->df->n_tensors; x++) {
        c->until[x] = -1;
    }
    for (int64_t i = 0; i < holds->n; i++) {
        const ckm_i_hold *span = &holds->at[i];
        c->start[span->tensor + 1]++;
        c->until[span->tensor] = span->last;
        c->from[span->first]++;
    }
    for (int32_t x = 0; x < c->df->n_tensors; x++) {
        c->start[x + 1] += c->start[x];
    }
    for (int32_t t = 0; t < c->df->n_ops; t++) {
        c->from[t + 1] += c->from[t];
    }
    for (int64_t i = holds->n - 1; i >= 0; i--) {
        c->begins[--c->from[holds->at[i].first]] = holds->at[i].tensor;
    }
}

static bool run(closing *c, int32_t t, int32_t v)
{
    if (c->stamp[v] == t) {
        return true;
    }
    c->stamp[v] = t;
    if (!CKM_I_GROW(c->order, c->n, c->cap)) {
        return false;
    }
    c->order[c->n++] = v;
    return true;
}

// Makes x available in stage t. What runs once and has run is held all the while.
static bool demand(closing *c, int32_t t, int32_t x)
{
    int32_t v = c->df->tensors[x].producer;
    if (v < 0 || holds_at(c, x, t)) {
        return true;
    }
    if (v < t && runs_once(c->df, x)) {
        c->until[x] = t;
        return true;
    }
    return run(c, t, v);
}

static int descending(const void *a, const void *b)
{
    return ckm_i_compare_int32(b, a);
}

// Whether the schedule has become too long or somebody wants to stop.
static bool gives_up(closing *c)
{
    if (c->work >= check_period) {
        c->work = 0;
        c->given_up = c->stop != NULL && c->stop(c->user);
    }
    c->given_up = c->given_up || (c->n > few_computations && c->n > most_computations * c->df->n_ops);
    return c->given_up;
}

static bool close_stage(closing *c, int32_t t)
{
    c->stage_from = c->n;
    bool ok = run(c, t, t);
    for (int64_t i = c->from[t + 1]; t + 1 < c->df->n_ops && i < c->from[t + 2] && ok; i++) {
        ok = runs_once(c->df, c->begins[i]) || demand(c, t, c->begins[i]);
    }
    for (int32_t i = 0; t + 1 == c->df->n_ops && i < c->df->n_results && ok; i++) {
        ok = demand(c, t, c->df->results[i]);
    }
    for (int64_t i = c->stage_from; i < c->n && ok && !gives_up(c); i++) {
        const ckm_i_dataflow_op *op = &c->df->ops[c->order[i]];
        c->work += 1 + op->n_inputs;
        for (int32_t k = 0; k < op->n_inputs && ok; k++) {
            ok = demand(c, t, op->inputs[k]);
        }
    }
    if (ok && c->n - c->stage_from > 1) {
        qsort(c->order + c->stage_from, (size_t)(c->n - c->stage_from), sizeof *c->order, descending);
    }
    return ok;
}

static bool allocate(closing *c)
{
    size_t tensors = (size_t)c->df->n_tensors;
    size_t ops = (size_t)c->df->n_ops;
    c->start = ckm_i_calloc(tensors + 1, sizeof *c->start);
    c->from = ckm_i_calloc(ops + 2, sizeof *c->from);
    c->begins = ckm_i_malloc((size_t)c->holds->n, sizeof *c->begins);
    c->until = ckm_i_malloc(tensors, sizeof *c->until);
    c->stamp = ckm_i_malloc(ops, sizeof *c->stamp);
    if (c->start == NULL || c->from == NULL || c->begins == NULL || c->until == NULL || c->stamp == NULL) {
        return false;
    }
    memset(c->stamp, 0xff, ops * sizeof *c->stamp);
    return true;
}

ckm_status ckm_i_holds_schedule(ckm_i_holds *holds, ckm_stop_fn stop, void *user, ckm_schedule **out, ckm_error *err)
{
    const ckm_dataflow *df = holds->df;
    closing c = {.df = df, .holds = holds, .stop = stop, .user = user};
    ckm_status status = CKM_OK;
    *out = NULL;
    if (holds->too_many && !holds->failed) {
        return CKM_OK;
    }
    if (!holds->failed) {
        merge(holds);
    }
    if (holds->failed || !allocate(&c)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    index_spans(&c);
    for (int32_t t = df->n_ops - 1; t >= 0 && !c.given_up; t--) {
        if (!close_stage(&c, t)) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
    }
    if (c.given_up) {
        goto cleanup;
    }
    for (int64_t i = 0; i < c.n / 2; i++) {
        int32_t kept = c.order[i];
        c.order[i] = c.order[c.n - 1 - i];
        c.order[c.n - 1 - i] = kept;
    }
    CKM_I_TRY(ckm_i_schedule_from_order(df, c.order, c.n, out, err));
cleanup:
    free(c.start);
    free(c.from);
    free(c.begins);
    free(c.until);
    free(c.stamp);
    free(c.order);
    return status;
}

// *peak_bytes may be NULL, and then that of one that is too dear to be of use is not looked for.
static ckm_status offer_stages(ckm_i_solver *solver, const ckm_i_stages *stages, const char *source,
                               int64_t *peak_bytes, ckm_error *err)
{
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    int64_t peak = -1;
    bool found = solver->best_schedule != NULL;
    bool is_dear = found && ckm_i_stages_cost(stages) > solver->best_cost;
    if (is_dear && peak_bytes == NULL) {
        return CKM_OK;
    }
    CKM_I_TRY(ckm_i_stages_peak(stages, &peak, err));
    // Long lists of steps are made only where they can matter.
    bool better = peak <= solver->budget_bytes && !is_dear;
    if (better || (!found && (solver->least_peak_bytes < 0 || peak < solver->least_peak_bytes))) {
        CKM_I_TRY(ckm_i_stages_emit(stages, &schedule, err));
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &schedule, source, NULL, err));
    } else {
        ckm_i_solver_note_peak(solver, peak);
    }
    if (peak_bytes != NULL) {
        *peak_bytes = peak;
    }
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

static ckm_status offer_list(ckm_i_solver *solver, ckm_i_holds *holds, const char *source, int64_t *peak_bytes,
                             ckm_error *err)
{
    ckm_schedule *schedule = NULL;
    ckm_simulation facts = {.peak_bytes = -1};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_holds_schedule(holds, ckm_i_solver_stops, solver, &schedule, err));
    if (schedule != NULL) {
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &schedule, source, &facts, err));
    }
    if (peak_bytes != NULL) {
        *peak_bytes = facts.peak_bytes;
    }
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

ckm_status ckm_i_holds_offer(ckm_i_solver *solver, ckm_i_holds *holds, const char *source, int64_t *peak_bytes,
                             ckm_error *err)
{
    return holds->stages != NULL ? offer_stages(solver, holds->stages, source, peak_bytes, err)
                                 : offer_list(solver, holds, source, peak_bytes, err);
}
