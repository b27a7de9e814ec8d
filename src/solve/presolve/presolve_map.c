// SPDX-License-Identifier: Apache-2.0
// Schedules of the reduced graph as schedules of the original, and the other way round: sequences of computations are
// translated, what is freed when follows from them.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/presolve/presolve.h"

typedef struct translation {
    const ckm_i_presolve *p;
    int32_t *order;  // of computations in the original
    int64_t n, room;
    int64_t *ran;  // by original operator: how many had run when it last did, itself included; 0: it has not run
    // Views that the reduced graph has not: by tensor the first one of it, by operator the next one of the same.
    int32_t *first_view, *next_view;
    int32_t *chain;    // room for the views between a tensor and one of it
    int32_t n_passed;  // all such operators before this one have had their turn
    bool failed;
} translation;

static void run(translation *t, int32_t v)
{
    if (!t->failed && CKM_I_GROW(t->order, t->n, t->room)) {
        t->order[t->n++] = v;
        t->ran[v] = t->n;
    } else {
        t->failed = true;
    }
}

// The operand of view operator v that it is a view of.
static int32_t shown(const translation *t, int32_t v)
{
    const ckm_i_dataflow_op *op = &t->p->original->ops[v];
    int32_t root = t->p->root[op->outputs[0]];
    for (int32_t i = 0; i < op->n_inputs; i++) {
        if (op->inputs[i] == root || t->p->root[op->inputs[i]] == root) {
            return op->inputs[i];
        }
    }
    return root;
}

// Runs view operator v, and before it those between it and the tensor that it shows, unless they have run since that
// was made.
static void make_view(translation *t, int32_t v)
{
    const ckm_dataflow *df = t->p->original;
    int32_t n = 0;
    int32_t x = df->ops[v].outputs[0];
    for (; t->p->root[x] >= 0; x = shown(t, t->chain[n - 1])) {
        t->chain[n++] = df->tensors[x].producer;
    }
    int64_t since = t->ran[df->tensors[x].producer];
    while (n > 0) {
        int32_t view = t->chain[--n];
        if (t->ran[view] < since) {
            run(t, view);
        }
        since = t->ran[view];
    }
}

// Views of x that have not run at all do so now: x is about to go.
static void run_views_of(translation *t, int32_t x)
{
    for (int32_t v = t->first_view[x]; v >= 0; v = t->next_view[v]) {
        if (t->ran[v] == 0) {
            make_view(t, v);
        }
    }
}

// Views whose place in the order is before operator `end`, as far as what they show has been made.
static void pass_views(translation *t, int32_t end)
{
    const ckm_dataflow *df = t->p->original;
    for (; t->n_passed < end; t->n_passed++) {
        int32_t v = t->n_passed;
        if (t->p->part_of[v] < 0 && t->ran[v] == 0 &&
            t->ran[df->tensors[t->p->root[df->ops[v].outputs[0]]].producer] > 0) {
            make_view(t, v);
        }
    }
}

// Runs what a reduced operator stands for.
static void run_parts(translation *t, int32_t reduced)
{
    const ckm_dataflow *df = t->p->original;
    int32_t head = t->p->head[reduced];
    pass_views(t, head);
    for (int32_t v = head; v >= 0; v = t->p->next[v]) {
        const ckm_i_dataflow_op *op = &df->ops[v];
        if (v != head && t->p->feeds[v] < 0 && t->ran[v] > 0) {
            continue;  // once is enough
        }
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (t->p->root[op->inputs[i]] >= 0) {
                make_view(t, df->tensors[op->inputs[i]].producer);
            }
        }
        run(t, v);
        for (int32_t i = 0; t->p->next[v] >= 0 && i < op->n_outputs; i++) {
            run_views_of(t, op->outputs[i]);  // nothing frees them: the reduced graph does not have them
        }
    }
}

static bool allocate(translation *t)
{
    const ckm_dataflow *df = t->p->original;
    t->ran = ckm_i_calloc((size_t)df->n_ops, sizeof *t->ran);
    t->next_view = ckm_i_malloc((size_t)df->n_ops, sizeof *t->next_view);
    t->chain = ckm_i_malloc((size_t)df->n_ops, sizeof *t->chain);
    t->first_view = ckm_i_malloc((size_t)df->n_tensors, sizeof *t->first_view);
    if (t->ran == NULL || t->next_view == NULL || t->chain == NULL || t->first_view == NULL) {
        return false;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        t->first_view[x] = -1;
    }
    for (int32_t v = df->n_ops - 1; v >= 0; v--) {
        if (t->p->part_of[v] < 0) {
            int32_t root = t->p->root[df->ops[v].outputs[0]];
            t->next_view[v] = t->first_view[root];
            t->first_view[root] = v;
        }
    }
    return true;
}

// Marks the steps that compute something for the first time, or something that another marked step reads.
static ckm_status mark_useful(const ckm_dataflow *df, const ckm_schedule *s, bool *useful, ckm_error *err)
{
    bool *ran = ckm_i_calloc((size_t)df->n_ops, sizeof *ran);
    bool *needed = ckm_i_malloc((size_t)df->n_tensors, sizeof *needed);
    ckm_status status = CKM_OK;
    if (ran == NULL || needed == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        useful[i] = step.kind == CKM_STEP_FREE || !ran[step.index];
        if (step.kind == CKM_STEP_COMPUTE) {
            ran[step.index] = true;
        }
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        needed[x] = df->tensors[x].is_result;
    }
    for (int64_t i = ckm_schedule_step_count(s) - 1; i >= 0; i--) {
        ckm_step step = ckm_schedule_get_step(s, i);
        if (step.kind == CKM_STEP_FREE) {
            continue;
        }
        const ckm_i_dataflow_op *op = &df->ops[step.index];
        for (int32_t k = 0; k < op->n_outputs; k++) {
            useful[i] = useful[i] || needed[op->outputs[k]];
        }
        for (int32_t k = 0; useful[i] && k < op->n_outputs; k++) {
            needed[op->outputs[k]] = false;
        }
        for (int32_t k = 0; useful[i] && k < op->n_inputs; k++) {
            needed[op->inputs[k]] = true;
        }
    }
cleanup:
    free(ran);
    free(needed);
    return status;
}

static void translate(translation *t, const ckm_schedule *reduced, const bool *useful)
{
    const ckm_dataflow *df = t->p->original;
    for (int64_t i = 0; i < ckm_schedule_step_count(reduced); i++) {
        ckm_step step = ckm_schedule_get_step(reduced, i);
        if (!useful[i]) {
            continue;
        }
        if (step.kind == CKM_STEP_FREE) {
            run_views_of(t, t->p->tensor[step.index]);
            continue;
        }
        for (int32_t k = 0; k < step.n_inplace; k++) {
            run_views_of(t, t->p->tensor[step.inplace[k][0]]);
        }
        run_parts(t, step.index);
    }
    pass_views(t, df->n_ops);
    for (int32_t i = 0; i < df->n_results; i++) {
        if (t->p->root[df->results[i]] >= 0) {
            make_view(t, df->tensors[df->results[i]].producer);
        }
    }
}

ckm_status ckm_i_presolve_map_back(const ckm_i_presolve *p, const ckm_schedule *reduced, ckm_schedule **out,
                                   ckm_error *err)
{
    ckm_status status = CKM_OK;
    translation t = {.p = p};
    bool *useful = ckm_i_malloc((size_t)ckm_schedule_step_count(reduced), sizeof *useful);
    if (useful == NULL || !allocate(&t)) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(mark_useful(p->reduced, reduced, useful, err));
    translate(&t, reduced, useful);
    if (t.failed) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_schedule_from_order(p->original, t.order, t.n, out, err));
cleanup:
    free(useful);
    free(t.order);
    free(t.ran);
    free(t.first_view);
    free(t.next_view);
    free(t.chain);
    return status;
}

// A merged operator runs where its first part does, if the part that makes its output then reads, directly or through
// others, what that run has made.
ckm_status ckm_i_presolve_map_forward(const ckm_i_presolve *p, const ckm_schedule *original, ckm_schedule **out,
                                      ckm_error *err)
{
    ckm_status status = CKM_OK;
    int64_t n_steps = ckm_schedule_step_count(original);
    int64_t n = 0;
    int32_t *order = ckm_i_malloc((size_t)n_steps, sizeof *order);
    int64_t *run_of = ckm_i_malloc((size_t)p->original->n_ops, sizeof *run_of);  // position that its output stems from
    bool *counts = ckm_i_calloc((size_t)n_steps, sizeof *counts);
    if (order == NULL || run_of == NULL || counts == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int64_t i = 0; i < n_steps; i++) {
        ckm_step step = ckm_schedule_get_step(original, i);
        int32_t v = step.index;
        int32_t reduced = step.kind == CKM_STEP_COMPUTE ? p->part_of[v] : -1;
        if (reduced < 0 || (v != p->head[reduced] && p->feeds[v] < 0)) {
            continue;
        }
        run_of[v] = v == p->head[reduced] ? n : run_of[p->feeds[v]];
        if (v == p->head[reduced]) {
            order[n++] = reduced;
        }
        if (v == p->tail[reduced]) {
            counts[run_of[v]] = true;
        }
    }
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (counts[i]) {
            order[kept++] = order[i];
        }
    }
    CKM_I_TRY(ckm_i_schedule_from_order(p->reduced, order, kept, out, err));
cleanup:
    free(order);
    free(run_of);
    free(counts);
    return status;
}
