// SPDX-License-Identifier: Apache-2.0
// The facts of a schedule: what is in memory at every moment, what is computed again, and what for. The memory plan
// says which storage is there from which step to which; everything else follows from that.
#include <checkmate/emit.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "emit/emit_maximum.h"
#include "schedule/schedule.h"

const char *ckm_emit_class_name(ckm_emit_class what)
{
    static const char *const names[CKM_EMIT_N_CLASSES] = {
        "fixed",          "inputs, parameters", "kept for backward", "freed before backward",
        "computed again", "gradients",          "workspace",
    };
    int i = (int)what;
    return i >= 0 && i < CKM_EMIT_N_CLASSES ? names[i] : "";
}

typedef struct gathering {
    ckm_emit_facts *f;
    const ckm_dataflow *df;
    const ckm_schedule *s;
    const ckm_plan *plan;
    int64_t *moment_of;  // by step: the moment of the last compute step at or before it; -1: none
} gathering;

// ---- moments ----

static ckm_status list_moments(gathering *g, const int64_t *timeline, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    int64_t n_steps = ckm_schedule_step_count(g->s);
    f->moments = ckm_i_calloc((size_t)n_steps, sizeof *f->moments);
    g->moment_of = ckm_i_malloc((size_t)n_steps, sizeof *g->moment_of);
    if (f->moments == NULL || g->moment_of == NULL) {
        return ckm_i_error_memory(err);
    }
    f->turn_moment = -1;
    for (int64_t i = 0; i < n_steps; i++) {
        ckm_step step = ckm_schedule_get_step(g->s, i);
        if (step.kind == CKM_STEP_COMPUTE) {
            ckm_emit_moment *m = &f->moments[f->n_moments];
            *m = (ckm_emit_moment){i, step.index, f->ops[step.index].executions++, timeline[i], {0}};
            if (f->turn_moment < 0 && ckm_dataflow_get_op(g->df, step.index).kind == CKM_OP_BACKWARD) {
                f->turn_moment = f->n_moments;
            }
            if (m->bytes > f->moments[f->peak_moment].bytes) {
                f->peak_moment = f->n_moments;
            }
            f->n_moments++;
        }
        g->moment_of[i] = f->n_moments - 1;
    }
    return CKM_OK;
}

// ---- lives ----

static bool is_forward(const ckm_dataflow *df, int32_t op)
{
    ckm_op_kind kind = ckm_dataflow_get_op(df, op).kind;
    return kind == CKM_OP_FORWARD || kind == CKM_OP_LOSS;
}

static ckm_emit_class class_of(const ckm_emit_facts *f, const ckm_emit_life *life, bool is_back)
{
    if (life->tensor < 0) {
        return CKM_EMIT_WORKSPACE;
    }
    if (!is_forward(f->df, life->op)) {
        return CKM_EMIT_GRADIENT;
    }
    if (is_back) {
        return CKM_EMIT_KEPT;
    }
    if (f->moments[life->first].execution > 0) {
        return CKM_EMIT_RECOMPUTED;
    }
    bool crosses = f->turn_moment >= 0 && life->first < f->turn_moment && life->last >= f->turn_moment;
    return crosses ? CKM_EMIT_KEPT : CKM_EMIT_PASSING;
}

static ckm_status list_lives(gathering *g, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    int32_t n = ckm_plan_instance_count(g->plan);
    // By buffer, the moment in which its instance so far ends.
    int64_t *ends = ckm_i_malloc((size_t)n, sizeof *ends);
    f->lives = ckm_i_calloc((size_t)n, sizeof *f->lives);
    if (f->lives == NULL || ends == NULL) {
        free(ends);
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < n; i++) {
        ends[i] = -1;
    }
    for (int32_t i = 0; i < n; i++) {
        ckm_plan_instance at = ckm_plan_get_instance(g->plan, i);
        ckm_emit_life *life = &f->lives[f->n_lives];
        bool is_back = at.op < 0;
        int32_t op = is_back ? ckm_dataflow_producer(g->df, at.tensor) : at.op;
        *life = (ckm_emit_life){.tensor = at.tensor, .op = op, .bytes = at.bytes, .offset = at.offset};
        // What comes back begins between two moments.
        life->first = g->moment_of[at.first] + (is_back ? 1 : 0);
        life->last = g->moment_of[at.last];
        if (life->last < life->first) {
            continue;
        }
        life->handed_over = !is_back && ends[at.buffer] == life->first;
        ends[at.buffer] = life->last;
        life->what = class_of(f, life, is_back);
        f->n_lives++;
    }
    // In the order of moments, too.
    for (int32_t i = 1; i < f->n_lives; i++) {
        ckm_emit_life life = f->lives[i];
        int32_t at = i;
        for (; at > 0 && f->lives[at - 1].first > life.first; at--) {
            f->lives[at] = f->lives[at - 1];
        }
        f->lives[at] = life;
    }
    free(ends);
    return CKM_OK;
}

// Fills class_bytes: each life adds its bytes where it begins to count and takes them away after its end.
static ckm_status add_up(gathering *g, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    int64_t(*change)[CKM_EMIT_N_CLASSES] = ckm_i_calloc((size_t)f->n_moments + 2, sizeof *change);
    if (change == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < f->n_lives; i++) {
        const ckm_emit_life *life = &f->lives[i];
        int64_t first = life->first + (life->handed_over ? 1 : 0);
        if (first <= life->last) {
            change[first][life->what] += life->bytes;
            change[life->last + 1][life->what] -= life->bytes;
        }
    }
    change[0][CKM_EMIT_FIXED] = f->fixed_bytes;
    change[0][CKM_EMIT_INPUT] = f->input_bytes;
    int64_t now[CKM_EMIT_N_CLASSES] = {0};
    ckm_status status = CKM_OK;
    for (int64_t m = 0; m < f->n_moments; m++) {
        int64_t sum = 0;
        for (int c = 0; c < CKM_EMIT_N_CLASSES; c++) {
            now[c] += change[m][c];
            f->moments[m].class_bytes[c] = now[c];
            sum += now[c];
        }
        if (sum != f->moments[m].bytes) {
            status = ckm_i_error(err, CKM_ERR_INTERNAL,
                                 "step %lld: the memory plan holds %lld bytes, the simulator %lld",
                                 (long long)f->moments[m].step, (long long)sum, (long long)f->moments[m].bytes);
            goto cleanup;
        }
    }
cleanup:
    free(change);
    return status;
}

// ---- recomputations ----

// What of `op`'s earlier outputs comes back at moment m: `current[t]` is the life of storage t that began last,
// `before[t]` the one before that.
static void describe_return(ckm_emit_facts *f, const int32_t *current, const int32_t *before, ckm_emit_recompute *r)
{
    ckm_dataflow_op op = ckm_dataflow_get_op(f->df, r->op);
    int64_t largest = -1;
    for (int32_t k = 0; k < op.n_outputs; k++) {
        int32_t t = op.outputs[k];
        int32_t alias_of = ckm_dataflow_get_tensor(f->df, t).alias_of;
        int32_t storage = alias_of >= 0 ? alias_of : t;
        // A storage with several views among the outputs comes back once: with its owner, or its first view.
        bool seen = false;
        for (int32_t j = 0; j < k && !seen; j++) {
            int32_t other = ckm_dataflow_get_tensor(f->df, op.outputs[j]).alias_of;
            seen = (other >= 0 ? other : op.outputs[j]) == storage;
        }
        if (seen || current[storage] < 0 || f->lives[current[storage]].first != r->moment || before[storage] < 0 ||
            f->moments[r->moment].op != f->lives[current[storage]].op) {
            continue;
        }
        const ckm_emit_life *life = &f->lives[current[storage]];
        r->freed_bytes += life->bytes;
        if (life->bytes > largest) {
            largest = life->bytes;
            r->tensor = storage;
            r->gone_first = f->lives[before[storage]].last + 1;
            r->gone_last = r->moment - 1;
        }
    }
}

static ckm_status list_recomputes(gathering *g, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    size_t n_tensors = (size_t)ckm_dataflow_tensor_count(g->df);
    ckm_status status = CKM_OK;
    ckm_i_maximum memory = {0};
    int64_t *bytes = ckm_i_malloc((size_t)f->n_moments, sizeof *bytes);
    int32_t *current = ckm_i_malloc(n_tensors, sizeof *current);
    int32_t *before = ckm_i_malloc(n_tensors, sizeof *before);
    f->recomputes = ckm_i_calloc((size_t)f->n_moments, sizeof *f->recomputes);
    if (bytes == NULL || current == NULL || before == NULL || f->recomputes == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int64_t m = 0; m < f->n_moments; m++) {
        bytes[m] = f->moments[m].bytes;
    }
    CKM_I_TRY(ckm_i_maximum_init(&memory, bytes, f->n_moments, err));
    for (size_t t = 0; t < n_tensors; t++) {
        current[t] = before[t] = -1;
    }
    int32_t next_life = 0;
    for (int64_t m = 0; m < f->n_moments; m++) {
        for (; next_life < f->n_lives && f->lives[next_life].first == m; next_life++) {
            int32_t t = f->lives[next_life].tensor;
            if (t >= 0) {
                before[t] = current[t];
                current[t] = next_life;
            }
        }
        if (f->moments[m].execution == 0) {
            continue;
        }
        ckm_emit_recompute *r = &f->recomputes[f->n_recomputes++];
        *r = (ckm_emit_recompute){f->moments[m].op, m, -1, 0, 0, -1, -1, -1, -1, -1};
        describe_return(f, current, before, r);
        if (r->gone_first <= r->gone_last) {
            r->fullest = ckm_i_maximum_at(&memory, r->gone_first, r->gone_last);
            r->held_bytes = f->moments[r->fullest].bytes + ckm_dataflow_get_tensor(g->df, r->tensor).bytes;
        }
    }
cleanup:
    ckm_i_maximum_dispose(&memory);
    free(bytes);
    free(current);
    free(before);
    return status;
}

// Backwards over the moments, so that the next one to read a tensor is known.
static ckm_status find_readers(gathering *g, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    size_t n_tensors = (size_t)ckm_dataflow_tensor_count(g->df);
    int64_t *next_read = ckm_i_malloc(n_tensors, sizeof *next_read);
    if (next_read == NULL) {
        return ckm_i_error_memory(err);
    }
    for (size_t t = 0; t < n_tensors; t++) {
        next_read[t] = -1;
    }
    int32_t at = f->n_recomputes - 1;
    for (int64_t m = f->n_moments - 1; m >= 0; m--) {
        ckm_dataflow_op op = ckm_dataflow_get_op(g->df, f->moments[m].op);
        for (int32_t k = 0; k < op.n_outputs; k++) {
            int64_t read = next_read[op.outputs[k]];
            if (f->moments[m].execution > 0 && read >= 0) {
                ckm_emit_recompute *r = &f->recomputes[at];
                if (r->for_moment < 0 || read < r->for_moment) {
                    r->for_moment = read;
                    r->for_op = f->moments[read].op;
                }
            }
            next_read[op.outputs[k]] = -1;  // what is read later is what is computed here
        }
        at -= f->moments[m].execution > 0 ? 1 : 0;
        for (int32_t k = 0; k < op.n_inputs; k++) {
            next_read[op.inputs[k]] = m;
        }
    }
    free(next_read);
    return CKM_OK;
}

static void sum_up_ops(gathering *g)
{
    ckm_emit_facts *f = g->f;
    for (int32_t v = 0; v < ckm_dataflow_op_count(g->df); v++) {
        ckm_emit_op_fact *fact = &f->ops[v];
        fact->what = is_forward(g->df, v) ? CKM_EMIT_PASSING : CKM_EMIT_GRADIENT;
    }
    for (int32_t i = 0; i < f->n_lives; i++) {
        if (f->lives[i].what == CKM_EMIT_KEPT) {
            f->ops[f->lives[i].op].what = CKM_EMIT_KEPT;
        }
    }
    for (int32_t i = 0; i < f->n_recomputes; i++) {
        const ckm_emit_recompute *r = &f->recomputes[i];
        ckm_emit_op_fact *fact = &f->ops[r->op];
        f->n_recomputed_ops += f->moments[r->moment].execution == 1 ? 1 : 0;
        fact->extra_cost += ckm_dataflow_get_op(g->df, r->op).cost;  // part of the schedule's cost, which fits
        fact->freed_bytes = r->freed_bytes > fact->freed_bytes ? r->freed_bytes : fact->freed_bytes;
        if (is_forward(g->df, r->op)) {
            fact->what = CKM_EMIT_RECOMPUTED;
        }
    }
}

// ---- without rematerialization ----

static ckm_status run_baseline(gathering *g, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    ckm_schedule *baseline = NULL;
    ckm_simulation simulation;
    int64_t *timeline = NULL;
    ckm_status status;
    f->baseline_bytes = ckm_i_calloc((size_t)ckm_dataflow_op_count(g->df), sizeof *f->baseline_bytes);
    if (f->baseline_bytes == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_schedule_baseline(g->df, &baseline, err));
    timeline = ckm_i_malloc((size_t)ckm_schedule_step_count(baseline), sizeof *timeline);
    if (timeline == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_simulate(g->df, baseline, timeline, &simulation, err));
    f->baseline_peak_bytes = simulation.peak_bytes;
    f->baseline_cost = simulation.cost;
    for (int64_t i = 0; i < ckm_schedule_step_count(baseline); i++) {
        ckm_step step = ckm_schedule_get_step(baseline, i);
        if (step.kind == CKM_STEP_COMPUTE) {
            f->baseline_bytes[step.index] = timeline[i];
        }
    }
    f->baseline_peak_op = ckm_schedule_get_step(baseline, simulation.peak_step).index;
cleanup:
    ckm_schedule_free(baseline);
    free(timeline);
    return status;
}

// ---- all of it ----

static ckm_status gather(gathering *g, ckm_error *err)
{
    ckm_emit_facts *f = g->f;
    ckm_simulation simulation;
    ckm_status status;
    int64_t *timeline = ckm_i_malloc((size_t)ckm_schedule_step_count(g->s), sizeof *timeline);
    f->ops = ckm_i_calloc((size_t)ckm_dataflow_op_count(g->df), sizeof *f->ops);
    if (timeline == NULL || f->ops == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_simulate(g->df, g->s, timeline, &simulation, err));
    f->cost = simulation.cost;
    f->peak_bytes = simulation.peak_bytes;
    f->budget_bytes = ckm_schedule_get_info(g->s)->budget_bytes;
    f->arena = *ckm_plan_get_info(g->plan);
    f->fixed_bytes = ckm_dataflow_fixed_bytes(g->df);
    f->input_bytes = f->arena.resident_bytes - f->fixed_bytes;
    CKM_I_TRY(list_moments(g, timeline, err));
    CKM_I_TRY(list_lives(g, err));
    CKM_I_TRY(add_up(g, err));
    CKM_I_TRY(list_recomputes(g, err));
    CKM_I_TRY(find_readers(g, err));
    sum_up_ops(g);
    status = run_baseline(g, err);
cleanup:
    free(timeline);
    free(g->moment_of);
    return status;
}

ckm_status ckm_emit_facts_create(const ckm_dataflow *df, const ckm_schedule *s, ckm_emit_facts **out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(out, err);
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_plan *plan = NULL;
    ckm_emit_facts *facts = ckm_i_calloc(1, sizeof *facts);
    if (facts == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_plan_create(df, s, &options, &plan, err));
    facts->df = df;
    facts->schedule = s;
    gathering g = {facts, df, s, plan, NULL};
    CKM_I_TRY(gather(&g, err));
    *out = facts;
    facts = NULL;
cleanup:
    ckm_plan_free(plan);
    ckm_emit_facts_free(facts);
    return status;
}

void ckm_emit_facts_free(ckm_emit_facts *facts)
{
    if (facts != NULL) {
        free(facts->moments);
        free(facts->baseline_bytes);
        free(facts->lives);
        free(facts->recomputes);
        free(facts->ops);
        free(facts);
    }
}
