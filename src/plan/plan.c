// SPDX-License-Identifier: Apache-2.0
// Making a plan: live ranges, the buffers they form, packing, and reading the result.
#include <checkmate/plan.h>

#include <stdlib.h>
#include <string.h>

#include "base/align.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "dataflow/dataflow.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

// Buffers from instances: those linked by hand-over are one buffer that shrinks from the step after the hand-over on.
static ckm_status make_buffers(const ckm_plan *plan, int64_t alignment, ckm_i_plan_packing *p, ckm_error *err)
{
    p->n = plan->n_buffers;
    p->buffers = ckm_i_calloc((size_t)plan->n_buffers, sizeof *p->buffers);
    p->parts = ckm_i_malloc((size_t)plan->n_instances, sizeof *p->parts);
    if (p->buffers == NULL || p->parts == NULL) {
        return ckm_i_error_memory(err);
    }
    // Instances of one buffer follow each other in time but not in the array: count them, then fill.
    for (int32_t i = 0; i < plan->n_instances; i++) {
        p->buffers[plan->instances[i].buffer].n_parts++;
    }
    int32_t at = 0;
    for (int32_t b = 0; b < p->n; b++) {
        p->buffers[b].part_at = at;
        at += p->buffers[b].n_parts;
        p->buffers[b].n_parts = 0;
        p->buffers[b].first = -1;
    }
    for (int32_t i = 0; i < plan->n_instances; i++) {
        const ckm_plan_instance *instance = &plan->instances[i];
        ckm_i_plan_buffer *b = &p->buffers[instance->buffer];
        int64_t bytes;
        if (!ckm_i_round_up(instance->bytes, alignment, &bytes)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "a buffer's size does not fit 63 bits");
        }
        if (b->first < 0) {
            b->first = instance->first;
            b->bytes = bytes;
        }
        int64_t before = b->n_parts > 0 ? p->parts[b->part_at + b->n_parts - 1].bytes : b->bytes;
        if (bytes < before) {
            p->parts[b->part_at + b->n_parts++] = (ckm_i_plan_part){instance->first + 1, bytes};
        }
        b->last = instance->last;
    }
    return CKM_OK;
}

typedef struct change {
    int64_t step, bytes;
} change;

static int by_step(const void *left, const void *right)
{
    const change *a = left;
    const change *b = right;
    return a->step < b->step ? -1 : a->step > b->step;
}

// The most bytes in use at one step. Sizes are summed up, all of them, to learn of an overflow.
static ckm_status find_bound(ckm_i_plan_packing *p, int32_t n_parts, ckm_error *err)
{
    int64_t n = 0;
    int64_t total = 0;
    change *changes = ckm_i_malloc(2 * (size_t)p->n + (size_t)n_parts, sizeof *changes);
    if (changes == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t b = 0; b < p->n; b++) {
        const ckm_i_plan_buffer *buffer = &p->buffers[b];
        int64_t bytes = buffer->bytes;
        if (!ckm_i_add(total, bytes, &total)) {
            free(changes);
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "the sizes of all buffers do not fit 63 bits");
        }
        changes[n++] = (change){buffer->first, bytes};
        for (int32_t k = 0; k < buffer->n_parts; k++) {
            const ckm_i_plan_part *part = &p->parts[buffer->part_at + k];
            changes[n++] = (change){part->from, part->bytes - bytes};
            bytes = part->bytes;
        }
        changes[n++] = (change){buffer->last + 1, -bytes};
    }
    if (n > 0) {
        qsort(changes, (size_t)n, sizeof *changes, by_step);
    }
    int64_t in_use = 0;
    for (int64_t i = 0; i < n;) {
        int64_t step = changes[i].step;
        for (; i < n && changes[i].step == step; i++) {
            in_use += changes[i].bytes;
        }
        p->bound_bytes = in_use > p->bound_bytes ? in_use : p->bound_bytes;
    }
    free(changes);
    return CKM_OK;
}

static ckm_status check_arguments(const ckm_dataflow *df, const ckm_plan_options *options, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    if (options->alignment < 1 || (options->alignment & (options->alignment - 1)) != 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "alignment %lld is not a power of two",
                           (long long)options->alignment);
    }
    return CKM_OK;
}

ckm_status ckm_plan_create(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan_options *options,
                           ckm_plan **out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    double start = ckm_i_clock_seconds();
    ckm_plan_options o = CKM_PLAN_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_plan_options, &o, user, options, err));
    o.alignment = ckm_i_usual_count(o.alignment, 64);
    ckm_simulation facts;
    ckm_plan *plan = NULL;
    ckm_i_plan_packing packing = {0};
    ckm_status status;
    CKM_I_TRY(check_arguments(df, &o, err));
    CKM_I_TRY(ckm_schedule_simulate(df, s, NULL, &facts, err));
    plan = ckm_i_calloc(1, sizeof *plan);
    if (plan == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_plan_ranges(df, s, plan, err));
    CKM_I_TRY(make_buffers(plan, o.alignment, &packing, err));
    CKM_I_TRY(find_bound(&packing, plan->n_instances, err));
    CKM_I_TRY(ckm_i_plan_pack(&packing, &o, err));
    plan->info.peak_bytes = facts.peak_bytes;
    plan->info.resident_bytes = df->resident_bytes;
    plan->info.arena_bytes = packing.arena_bytes;
    plan->info.bound_bytes = packing.bound_bytes;
    plan->info.fragmentation = packing.bound_bytes > 0 ? (double)packing.arena_bytes / (double)packing.bound_bytes - 1.0
                                                       : 0.0;
    plan->info.iterations = packing.iterations;
    ckm_i_text_copy(plan->info.method, sizeof plan->info.method, packing.method);
    for (int32_t i = 0; i < plan->n_instances; i++) {
        ckm_plan_instance *instance = &plan->instances[i];
        instance->offset = packing.buffers[instance->buffer].offset;
        if (instance->tensor < 0 && instance->bytes > plan->info.workspace_bytes) {
            plan->info.workspace_bytes = instance->bytes;
        }
    }
    plan->info.seconds = ckm_i_clock_seconds() - start;
    *out = plan;
    plan = NULL;
cleanup:
    ckm_plan_free(plan);
    free(packing.buffers);
    free(packing.parts);
    return status;
}

void ckm_plan_free(ckm_plan *plan)
{
    if (plan != NULL) {
        free(plan->instances);
        free(plan->steps);
        free(plan->bindings);
        free(plan);
    }
}

const ckm_plan_info *ckm_plan_get_info(const ckm_plan *plan)
{
    return plan != NULL ? &plan->info : NULL;
}

int32_t ckm_plan_instance_count(const ckm_plan *plan)
{
    return plan != NULL ? plan->n_instances : 0;
}

ckm_plan_instance ckm_plan_get_instance(const ckm_plan *plan, int32_t i)
{
    if (plan == NULL || i < 0 || i >= plan->n_instances) {
        return (ckm_plan_instance){.tensor = -1, .op = -1, .buffer = -1};
    }
    return plan->instances[i];
}

void ckm_plan_get_step(const ckm_plan *plan, int64_t step, int32_t *inputs, int32_t *outputs, int32_t *workspace)
{
    const ckm_i_plan_step *at = plan != NULL && step >= 0 && step < plan->n_steps ? &plan->steps[step] : NULL;
    if (at == NULL || at->at < 0) {
        if (workspace != NULL) {
            *workspace = -1;
        }
        return;
    }
    const int32_t *bindings = plan->bindings + at->at;
    if (inputs != NULL) {
        memcpy(inputs, bindings, (size_t)at->n_inputs * sizeof *inputs);
    }
    if (outputs != NULL) {
        memcpy(outputs, bindings + at->n_inputs, (size_t)at->n_outputs * sizeof *outputs);
    }
    if (workspace != NULL) {
        *workspace = bindings[at->n_inputs + at->n_outputs];
    }
}
