// SPDX-License-Identifier: Apache-2.0
#include "solve/runs/leave_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"
#include "solve/core/component_registry.h"

// Seconds at most, and those that there are after the deadline.
static const double longest_seconds = 10.0, late_seconds = 0.5;

// A gap up to which a search has worked on the schedule, as it does where presolve merges operators, and has left nothing in.
static const double searched_gap = 0.1;

// What a byte held for a step counts against the cost saved, as an exponent. None of them is best everywhere: on VGG16, batch
// 16, 60 % of the peak, the first leaves 80 % overhead, of 406 %.
static const double exponents[] = {1.0, 0.5, 0.0};

typedef struct candidate {
    int64_t at;
    double worth;  // cost saved for bytes and steps held
} candidate;

// A sequence of computations; those that are out stay in the list until the next pass.
typedef struct sequence {
    const ckm_dataflow *df;
    ckm_i_slice slice;  // of time
    int64_t n;
    int32_t *order;    // by position: the operator
    bool *in, *trial;  // by position
    int64_t *first;    // by operator: where it runs first
    bool *needed;      // by tensor
    int32_t *packed;   // those of the trial, for completion
    int64_t *touched;  // by tensor: the last position that made or read it
    candidate *candidates;
    int64_t n_candidates;
} sequence;

// q->trial: what is in, without `at` and what is not needed then. First computations stay: operators run for the first time in
// the order in which they did. Returns the cost.
static int64_t without(const sequence *q, int64_t at)
{
    const ckm_dataflow *df = q->df;
    int64_t cost = 0;
    memcpy(q->trial, q->in, (size_t)q->n * sizeof *q->trial);
    q->trial[at] = false;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        q->needed[x] = df->tensors[x].is_result;
    }
    for (int64_t i = q->n - 1; i >= 0; i--) {
        const ckm_i_dataflow_op *op = &df->ops[q->order[i]];
        if (!q->trial[i]) {
            continue;
        }
        bool useful = q->first[q->order[i]] == i;
        for (int32_t k = 0; k < op->n_outputs; k++) {
            useful = useful || q->needed[op->outputs[k]];
        }
        if (!useful) {
            q->trial[i] = false;
            continue;
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            q->needed[op->outputs[k]] = false;
        }
        for (int32_t k = 0; k < op->n_inputs; k++) {
            q->needed[op->inputs[k]] = true;
        }
        cost += op->cost;
    }
    return cost;
}

// Every computation that is not the first of its operator, as far as there is time to look at what it saves.
static void find_candidates(sequence *q, int64_t cost, double exponent)
{
    const ckm_dataflow *df = q->df;
    q->n_candidates = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        q->touched[x] = 0;
    }
    for (int64_t i = q->n - 1; i >= 0; i--) {
        q->first[q->order[i]] = i;
    }
    for (int64_t i = 0; i < q->n; i++) {
        const ckm_i_dataflow_op *op = &df->ops[q->order[i]];
        double held = 1.0;
        int64_t since = 0;
        for (int32_t k = 0; k < op->n_outputs; k++) {
            int32_t x = op->outputs[k];
            since = q->touched[x] > since ? q->touched[x] : since;
            held += df->tensors[x].alias_of < 0 ? (double)df->tensors[x].bytes : 0.0;
        }
        if (q->first[q->order[i]] != i) {
            q->candidates[q->n_candidates++] = (candidate){i, held * (double)(i - since)};
        }
        for (int32_t k = 0; k < op->n_inputs; k++) {
            q->touched[op->inputs[k]] = i;
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            q->touched[op->outputs[k]] = i;
        }
    }
    for (int64_t i = 0; i < q->n_candidates; i++) {
        candidate *c = &q->candidates[i];
        if (ckm_i_slice_is_over(&q->slice)) {
            q->n_candidates = i;
            break;
        }
        c->worth = (double)(cost - without(q, c->at)) / pow(c->worth, exponent);
    }
}

static int by_worth(const void *a, const void *b)
{
    const candidate *x = a;
    const candidate *y = b;
    if (x->worth != y->worth) {
        return x->worth < y->worth ? 1 : -1;
    }
    return x->at > y->at ? 1 : -1;
}

// The trial as a schedule; *out is NULL where it does not fit.
static ckm_status complete(const sequence *q, ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *made = NULL;
    ckm_verdict verdict;
    int64_t n = 0;
    ckm_status status = CKM_OK;
    *out = NULL;
    for (int64_t i = 0; i < q->n; i++) {
        if (q->trial[i]) {
            q->packed[n++] = q->order[i];
        }
    }
    CKM_I_TRY(ckm_i_schedule_from_order(q->df, q->packed, n, &made, err));
    CKM_I_TRY(ckm_schedule_verify(q->df, made, q->slice.solver->budget_bytes, &verdict, err));
    if (verdict.ok) {
        *out = made;
        made = NULL;
    }
cleanup:
    ckm_schedule_free(made);
    return status;
}

// Tries them in their order. *cost: of what is in.
static ckm_status try_all(sequence *q, int64_t *cost, ckm_schedule **best, ckm_error *err)
{
    for (int64_t i = 0; i < q->n_candidates && !ckm_i_slice_is_over(&q->slice); i++) {
        int64_t at = q->candidates[i].at;
        ckm_schedule *made = NULL;
        if (!q->in[at]) {
            continue;
        }
        int64_t less = without(q, at);
        if (less >= *cost) {
            continue;
        }
        CKM_I_CHECK(complete(q, &made, err));
        if (made != NULL) {
            memcpy(q->in, q->trial, (size_t)q->n * sizeof *q->in);
            *cost = less;
            ckm_schedule_free(*best);
            *best = made;
        }
    }
    return CKM_OK;
}

static ckm_status allocate(sequence *q, const ckm_schedule *s, ckm_error *err)
{
    size_t n = (size_t)s->n_steps;
    q->order = ckm_i_malloc(n, sizeof *q->order);
    q->packed = ckm_i_malloc(n, sizeof *q->packed);
    q->in = ckm_i_malloc(n, sizeof *q->in);
    q->trial = ckm_i_malloc(n, sizeof *q->trial);
    q->candidates = ckm_i_malloc(n, sizeof *q->candidates);
    q->first = ckm_i_malloc((size_t)q->df->n_ops, sizeof *q->first);
    q->needed = ckm_i_malloc((size_t)q->df->n_tensors, sizeof *q->needed);
    q->touched = ckm_i_malloc((size_t)q->df->n_tensors, sizeof *q->touched);
    return q->order == NULL || q->packed == NULL || q->in == NULL || q->trial == NULL || q->candidates == NULL ||
                   q->first == NULL || q->needed == NULL || q->touched == NULL
               ? ckm_i_error_memory(err)
               : CKM_OK;
}

static void dispose(sequence *q)
{
    free(q->order);
    free(q->packed);
    free(q->in);
    free(q->trial);
    free(q->candidates);
    free(q->first);
    free(q->needed);
    free(q->touched);
}

static void load(sequence *q, const ckm_schedule *s)
{
    q->n = 0;
    for (int64_t i = 0; i < s->n_steps; i++) {
        if (s->steps[i].kind == CKM_STEP_COMPUTE) {
            q->order[q->n++] = s->steps[i].index;
        }
    }
}

// Passes until one leaves nothing out.
static ckm_status run(sequence *q, double exponent, ckm_schedule **best, ckm_error *err)
{
    int64_t cost = q->slice.solver->best_cost;
    int64_t before;
    do {
        before = cost;
        for (int64_t i = 0; i < q->n; i++) {
            q->in[i] = true;
        }
        find_candidates(q, cost, exponent);
        qsort(q->candidates, (size_t)q->n_candidates, sizeof *q->candidates, by_worth);
        CKM_I_CHECK(try_all(q, &cost, best, err));
        int64_t n = 0;
        for (int64_t i = 0; i < q->n; i++) {
            q->order[n] = q->order[i];
            n += q->in[i];
        }
        q->n = n;
    } while (cost < before && !ckm_i_slice_is_over(&q->slice));
    return CKM_OK;
}

// Many at a time, by each of the exponents, as far as they fit by a profile of memory.
static ckm_status run_many(sequence *q, ckm_i_solver *solver, const ckm_schedule *first, const char *source,
                           ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *made = NULL;
    ckm_schedule *best = NULL;
    int64_t best_cost = solver->best_cost >= 0 ? solver->best_cost : INT64_MAX;
    for (size_t i = 0; i < sizeof exponents / sizeof exponents[0] && !ckm_i_slice_is_over(&q->slice); i++) {
        ckm_i_leave_out_options options = {solver->budget_bytes, exponents[i], ckm_i_slice_is_over, &q->slice};
        ckm_verdict verdict;
        load(q, first);
        CKM_I_TRY(ckm_i_leave_out_many(q->df, &options, q->order, &q->n, err));
        CKM_I_TRY(ckm_i_schedule_from_order(q->df, q->order, q->n, &made, err));
        CKM_I_TRY(ckm_schedule_verify(q->df, made, solver->budget_bytes, &verdict, err));
        if (verdict.ok && verdict.cost < best_cost) {
            best_cost = verdict.cost;
            ckm_schedule_free(best);
            best = made;
            made = NULL;
        }
        ckm_schedule_free(made);
        made = NULL;
    }
    if (best != NULL) {
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &best, source, NULL, err));
    }
cleanup:
    ckm_schedule_free(made);
    ckm_schedule_free(best);
    return status;
}

const ckm_i_component ckm_i_component_leave_out = {
    .name = "leave-out",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "recomputations that a schedule can do without, many at a time",
};
const ckm_i_component ckm_i_component_leave_out_singly = {
    .name = "leave-out-singly",
    .kind = CKM_COMPONENT_IMPROVES,
    .summary = "the same, one by one",
};

static ckm_i_slice slice_for(const ckm_i_solver *solver)
{
    double most = ckm_i_clock_seconds() + longest_seconds;
    return (ckm_i_slice){solver, fmin(most, ckm_i_solver_late_until(solver, late_seconds))};
}

ckm_status ckm_i_leave_out_of(ckm_i_solver *solver, const ckm_schedule *s, const char *source, ckm_error *err)
{
    if (!ckm_i_component_begin(solver, &ckm_i_component_leave_out)) {
        return CKM_OK;
    }
    sequence q = {.df = solver->df, .slice = slice_for(solver)};
    ckm_status status = CKM_OK;
    CKM_I_TRY(allocate(&q, s, err));
    CKM_I_TRY(run_many(&q, solver, s, source, err));
cleanup:
    dispose(&q);
    ckm_i_component_end(solver);
    return status;
}

ckm_status ckm_i_leave_out(ckm_i_solver *solver, ckm_error *err)
{
    const ckm_solve_options *options = solver->options;
    if (solver->best_schedule == NULL || solver->best_class == CKM_BOUND_FRONTIER || options->cost_limit >= 0 ||
        ckm_i_solver_gap(solver) <= fmax(options->gap, searched_gap)) {
        return CKM_OK;
    }
    enum { tries = sizeof exponents / sizeof exponents[0] };
    const ckm_schedule *first = solver->best_schedule;  // until another is handed in
    ckm_schedule *found[tries] = {NULL};
    ckm_status status = CKM_OK;
    sequence q = {.df = solver->df, .slice = slice_for(solver)};
    char source[sizeof solver->best_source];
    memcpy(source, solver->best_source, sizeof source);
    CKM_I_CHECK(ckm_i_leave_out_of(solver, first, source, err));
    if (!ckm_i_component_begin(solver, &ckm_i_component_leave_out_singly)) {
        return CKM_OK;
    }
    first = solver->best_schedule;
    CKM_I_TRY(allocate(&q, first, err));
    for (int i = 0; i < tries && !ckm_i_slice_is_over(&q.slice); i++) {
        load(&q, first);
        CKM_I_TRY(run(&q, exponents[i], &found[i], err));
    }
    for (int i = 0; i < tries; i++) {
        if (found[i] != NULL) {
            CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &found[i], source, NULL, err));
        }
    }
cleanup:
    ckm_i_component_end(solver);
    for (int i = 0; i < tries; i++) {
        ckm_schedule_free(found[i]);
    }
    dispose(&q);
    return status;
}
