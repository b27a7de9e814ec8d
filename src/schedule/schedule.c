// SPDX-License-Identifier: Apache-2.0
// The schedule as a growing list of steps, and the schedule without rematerialization.
#include "schedule/schedule.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "dataflow/dataflow.h"

ckm_status ckm_schedule_create(ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *s = ckm_i_calloc(1, sizeof *s);
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    s->info.budget_bytes = -1;
    s->info.cost = -1;
    s->info.baseline_cost = -1;
    s->info.peak_bytes = -1;
    s->info.bound_cost = NAN;
    *out = s;
    return CKM_OK;
}

void ckm_schedule_free(ckm_schedule *s)
{
    if (s != NULL) {
        free(s->steps);
        free(s->pairs);
        free(s);
    }
}

ckm_status ckm_schedule_append(ckm_schedule *s, const ckm_step *step, ckm_error *err)
{
    if (step->kind != CKM_STEP_COMPUTE && step->kind != CKM_STEP_FREE) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "step kind %d is neither compute nor free", (int)step->kind);
    }
    if (step->n_inplace < 0 || (step->kind == CKM_STEP_FREE && step->n_inplace > 0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a %s step cannot have %d in-place pairs",
                           step->kind == CKM_STEP_FREE ? "free" : "compute", (int)step->n_inplace);
    }
    int64_t n_pairs = s->n_pairs;
    for (int32_t k = 0; k < step->n_inplace; k++, n_pairs++) {
        if (!CKM_I_GROW(s->pairs, n_pairs, s->cap_pairs)) {
            return ckm_i_error_memory(err);
        }
        s->pairs[n_pairs][0] = step->inplace[k][0];
        s->pairs[n_pairs][1] = step->inplace[k][1];
    }
    if (!CKM_I_GROW(s->steps, s->n_steps, s->cap_steps)) {
        return ckm_i_error_memory(err);
    }
    s->steps[s->n_steps++] = (ckm_i_step){
        .index = step->index, .n_inplace = step->n_inplace, .inplace_at = s->n_pairs, .kind = step->kind};
    s->n_pairs = n_pairs;
    return CKM_OK;
}

int64_t ckm_schedule_step_count(const ckm_schedule *s)
{
    return s->n_steps;
}

ckm_step ckm_schedule_get_step(const ckm_schedule *s, int64_t i)
{
    const ckm_i_step *own = &s->steps[i];
    return (ckm_step){
        .kind = own->kind,
        .index = own->index,
        .n_inplace = own->n_inplace,
        .inplace = own->n_inplace > 0 ? (const int32_t(*)[2])(s->pairs + own->inplace_at) : NULL,
    };
}

const ckm_schedule_info *ckm_schedule_get_info(const ckm_schedule *s)
{
    return &s->info;
}

void ckm_schedule_set_info(ckm_schedule *s, const ckm_schedule_info *info)
{
    s->info = *info;
    s->info.graph[sizeof s->info.graph - 1] = '\0';
    s->info.strategy[sizeof s->info.strategy - 1] = '\0';
}

// Working state of the baseline, one entry per tensor.
typedef struct baseline_state {
    const ckm_dataflow *df;
    int32_t *last_use;     // operator after which the tensor is dead; n_ops: never
    int32_t *live;         // by storage owner: live tensors in it
    int32_t (*usable)[2];  // in-place pairs of the current operator
    int32_t (*chosen)[2];
} baseline_state;

static void find_last_uses(const baseline_state *b)
{
    const ckm_dataflow *df = b->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        b->last_use[x] = df->tensors[x].producer >= 0 ? df->tensors[x].producer : df->n_ops;
        b->live[x] = 0;
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        for (int32_t k = 0; k < df->ops[v].n_inputs; k++) {
            int32_t x = df->ops[v].inputs[k];
            if (b->last_use[x] < v) {
                b->last_use[x] = v;
            }
        }
    }
    for (int32_t k = 0; k < df->n_results; k++) {
        b->last_use[df->results[k]] = df->n_ops;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].producer < 0) {
            b->live[df->tensors[x].storage]++;
        }
    }
}

// The pairs of operator v that may be used now; those that save the most go to b->chosen.
static int32_t choose_inplace(const baseline_state *b, int32_t v)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_inplace; k++) {
        int32_t input = op->inplace[k][0];
        int32_t output = op->inplace[k][1];
        int32_t from = df->tensors[input].storage;
        bool fits = b->last_use[input] == v && !df->tensors[input].pinned && b->live[from] == 1 &&
                    df->tensors[output].alias_of < 0 && b->live[output] == 0 &&
                    df->tensors[output].bytes <= df->tensors[from].bytes;
        for (int32_t o = 0; fits && o < op->n_outputs; o++) {
            fits = df->tensors[op->outputs[o]].storage != from;
        }
        if (fits) {
            b->usable[n][0] = input;
            b->usable[n][1] = output;
            n++;
        }
    }
    int32_t n_chosen = 0;
    if (n > 0) {
        ckm_i_inplace_best(df, (const int32_t(*)[2])b->usable, n, b->chosen, &n_chosen);
    }
    return n_chosen;
}

// Frees tensor x unless it is needed after operator v or already gone.
static ckm_status free_if_dead(const baseline_state *b, int32_t x, int32_t v, ckm_schedule *s, ckm_error *err)
{
    if (b->last_use[x] != v) {
        return CKM_OK;
    }
    b->last_use[x] = -1;
    b->live[b->df->tensors[x].storage]--;
    ckm_step step = {.kind = CKM_STEP_FREE, .index = x};
    return ckm_schedule_append(s, &step, err);
}

static ckm_status append_operator(const baseline_state *b, int32_t v, ckm_schedule *s, ckm_error *err)
{
    const ckm_dataflow *df = b->df;
    const ckm_i_dataflow_op *op = &df->ops[v];
    int32_t n_chosen = choose_inplace(b, v);
    ckm_step step = {
        .kind = CKM_STEP_COMPUTE, .index = v, .n_inplace = n_chosen, .inplace = (const int32_t(*)[2])b->chosen};
    ckm_status status = ckm_schedule_append(s, &step, err);
    for (int32_t k = 0; k < op->n_outputs; k++) {
        b->live[df->tensors[op->outputs[k]].storage]++;
    }
    for (int32_t k = 0; k < n_chosen; k++) {
        b->live[df->tensors[b->chosen[k][0]].storage]--;
        b->last_use[b->chosen[k][0]] = -1;
    }
    for (int32_t k = 0; status == CKM_OK && k < op->n_inputs; k++) {
        status = free_if_dead(b, op->inputs[k], v, s, err);
    }
    for (int32_t k = 0; status == CKM_OK && k < op->n_outputs; k++) {
        status = free_if_dead(b, op->outputs[k], v, s, err);
    }
    return status;
}

ckm_status ckm_schedule_baseline(const ckm_dataflow *df, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *s = NULL;
    baseline_state b = {.df = df};
    int32_t most_pairs = 0;
    ckm_simulation facts;

    if (!df->finished) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the graph is not finished: call ckm_dataflow_finish first");
    }
    for (int32_t v = 0; v < df->n_ops; v++) {
        most_pairs = df->ops[v].n_inplace > most_pairs ? df->ops[v].n_inplace : most_pairs;
    }
    CKM_I_TRY(ckm_schedule_create(&s, err));
    b.last_use = ckm_i_malloc((size_t)df->n_tensors, sizeof *b.last_use);
    b.live = ckm_i_malloc((size_t)df->n_tensors, sizeof *b.live);
    b.usable = ckm_i_malloc((size_t)most_pairs, sizeof *b.usable);
    b.chosen = ckm_i_malloc((size_t)most_pairs, sizeof *b.chosen);
    if (b.last_use == NULL || b.live == NULL || b.usable == NULL || b.chosen == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    find_last_uses(&b);
    for (int32_t v = 0; v < df->n_ops; v++) {
        CKM_I_TRY(append_operator(&b, v, s, err));
    }
    CKM_I_TRY(ckm_schedule_simulate(df, s, NULL, &facts, err));
    ckm_i_text_copy(s->info.graph, sizeof s->info.graph, df->name);
    ckm_i_text_copy(s->info.strategy, sizeof s->info.strategy, "checkpoint-all");
    s->info.cost = facts.cost;
    s->info.baseline_cost = facts.cost;
    s->info.peak_bytes = facts.peak_bytes;
    *out = s;
    s = NULL;
cleanup:
    ckm_schedule_free(s);
    free(b.last_use);
    free(b.live);
    free(b.usable);
    free(b.chosen);
    return status;
}
