// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule_order.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dataflow/dataflow.h"
#include "schedule/schedule.h"

typedef struct completion {
    const ckm_dataflow *df;
    ckm_schedule *schedule;
    int64_t *flag_at;      // per computation: where its flags begin
    bool *keep;            // per operand of a computation, inputs first: needed afterwards
    bool *needed;          // per tensor
    bool *live;            // per tensor
    int32_t *on_storage;   // per storage owner: live tensors on it
    int32_t (*usable)[2];  // in-place pairs of the current computation
    int32_t (*chosen)[2];
} completion;

// One sweep backwards decides, for every operand of every computation, whether it is still needed afterwards.
static void mark_needed(const completion *c, const int32_t *order, int64_t n_computes)
{
    const ckm_dataflow *df = c->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        c->needed[x] = df->tensors[x].is_result || df->tensors[x].producer < 0;
    }
    for (int64_t at = n_computes - 1; at >= 0; at--) {
        const ckm_i_dataflow_op *op = &df->ops[order[at]];
        bool *flags = c->keep + c->flag_at[at];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            flags[i] = c->needed[op->inputs[i]];
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            flags[op->n_inputs + i] = c->needed[op->outputs[i]];
            c->needed[op->outputs[i]] = false;
        }
        for (int32_t i = 0; i < op->n_inputs; i++) {
            c->needed[op->inputs[i]] = true;
        }
    }
}

static ckm_status allocate(completion *c, const int32_t *order, int64_t n_computes, ckm_error *err)
{
    const ckm_dataflow *df = c->df;
    size_t most_pairs = ckm_i_most_pairs(df);
    c->flag_at = ckm_i_malloc((size_t)n_computes + 1, sizeof *c->flag_at);
    if (c->flag_at == NULL) {
        return ckm_i_error_memory(err);
    }
    c->flag_at[0] = 0;
    for (int64_t at = 0; at < n_computes; at++) {
        const ckm_i_dataflow_op *op = &df->ops[order[at]];
        c->flag_at[at + 1] = c->flag_at[at] + op->n_inputs + op->n_outputs;
    }
    c->keep = ckm_i_malloc((size_t)c->flag_at[n_computes], sizeof *c->keep);
    c->needed = ckm_i_malloc((size_t)df->n_tensors, sizeof *c->needed);
    c->live = ckm_i_calloc((size_t)df->n_tensors, sizeof *c->live);
    c->on_storage = ckm_i_calloc((size_t)df->n_tensors, sizeof *c->on_storage);
    c->usable = ckm_i_malloc(most_pairs, sizeof *c->usable);
    c->chosen = ckm_i_malloc(most_pairs, sizeof *c->chosen);
    if (c->keep == NULL || c->needed == NULL || c->live == NULL || c->on_storage == NULL || c->usable == NULL ||
        c->chosen == NULL) {
        return ckm_i_error_memory(err);
    }
    return CKM_OK;
}

static void set_live(const completion *c, int32_t x, bool live)
{
    if (c->live[x] != live) {
        c->live[x] = live;
        c->on_storage[c->df->tensors[x].storage] += live ? 1 : -1;
    }
}

// The pairs of operator v that may be used now; those that save the most go to c->chosen. `keep` is of its operands.
static int32_t choose_inplace(const completion *c, int32_t v, const bool *keep)
{
    const ckm_dataflow *df = c->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        int32_t input = op->inplace[k][0];
        int32_t output = op->inplace[k][1];
        int32_t from = df->tensors[input].storage;
        bool fits = !df->tensors[input].pinned && c->live[input] && c->on_storage[from] == 1 &&
                    df->tensors[output].alias_of < 0 && c->on_storage[output] == 0 &&
                    df->tensors[output].bytes <= df->tensors[from].bytes;
        for (int32_t i = 0; fits && i < op->n_inputs; i++) {
            fits = op->inputs[i] != input || !keep[i];
        }
        for (int32_t o = 0; fits && o < op->n_outputs; o++) {
            fits = df->tensors[op->outputs[o]].storage != from;
        }
        if (fits) {
            c->usable[n][0] = input;
            c->usable[n][1] = output;
            n++;
        }
    }
    int32_t n_chosen = 0;
    if (n > 0) {
        ckm_i_inplace_best(df, (const int32_t(*)[2])c->usable, n, c->chosen, &n_chosen);
    }
    return n_chosen;
}

static ckm_status append_computation(const completion *c, int32_t v, const bool *keep, ckm_error *err)
{
    const ckm_i_dataflow_op *op = &c->df->ops[v];
    int32_t n_chosen = choose_inplace(c, v, keep);
    ckm_step step = {
        .kind = CKM_STEP_COMPUTE, .index = v, .n_inplace = n_chosen, .inplace = (const int32_t(*)[2])c->chosen};
    CKM_I_CHECK(ckm_schedule_append(c->schedule, &step, err));
    for (int32_t k = 0; k < n_chosen; k++) {
        set_live(c, c->chosen[k][0], false);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        set_live(c, op->outputs[i], true);
    }
    for (int32_t i = 0; i < op->n_inputs + op->n_outputs; i++) {
        int32_t x = i < op->n_inputs ? op->inputs[i] : op->outputs[i - op->n_inputs];
        if (c->live[x] && !keep[i]) {
            ckm_step drop = {.kind = CKM_STEP_FREE, .index = x};
            CKM_I_CHECK(ckm_schedule_append(c->schedule, &drop, err));
            set_live(c, x, false);
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_schedule_from_order(const ckm_dataflow *df, const int32_t *order, int64_t n_computes,
                                     ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    completion c = {.df = df};
    CKM_I_TRY(allocate(&c, order, n_computes, err));
    CKM_I_TRY(ckm_schedule_create(&c.schedule, err));
    mark_needed(&c, order, n_computes);
    for (int32_t x = 0; x < df->n_tensors; x++) {
        // A graph input stays; so does what shares its storage, as far as in-place use is concerned.
        c.on_storage[df->tensors[x].storage] += df->tensors[x].producer < 0;
        c.live[x] = df->tensors[x].producer < 0;
    }
    for (int64_t at = 0; at < n_computes; at++) {
        CKM_I_TRY(append_computation(&c, order[at], c.keep + c.flag_at[at], err));
    }
    *out = c.schedule;
    c.schedule = NULL;
cleanup:
    free(c.flag_at);
    free(c.keep);
    free(c.needed);
    free(c.live);
    free(c.on_storage);
    free(c.usable);
    free(c.chosen);
    ckm_schedule_free(c.schedule);
    return status;
}

ckm_bound_class ckm_i_schedule_class(const ckm_dataflow *df, const ckm_schedule *s)
{
    ckm_bound_class narrowest = CKM_BOUND_FRONTIER;
    if (s->n_transfers > 0) {
        return CKM_BOUND_ANY;
    }
    int32_t next = 0;      // the operator whose first computation ends the stage
    int32_t position = 0;  // nothing before it may still run in the stage
    for (int64_t i = 0; i < s->n_steps; i++) {
        int32_t v = s->steps[i].index;
        if (s->steps[i].kind != CKM_STEP_COMPUTE) {
            continue;
        }
        if (v > next) {
            return CKM_BOUND_ANY;
        }
        if (v == next) {
            next++;
            position = 0;
            continue;
        }
        // After the last first computation comes no stage.
        if (v < position || next == df->n_ops) {
            narrowest = CKM_BOUND_ORDER;
        }
        position = v + 1;
    }
    return narrowest;
}
