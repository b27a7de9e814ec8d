// SPDX-License-Identifier: Apache-2.0
// Live ranges: one pass over the steps of a legal schedule that opens an instance when a storage comes to life,
// closes it when its last tensor dies, and notes which instances every compute step's operands live in.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "dataflow/dataflow.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

typedef struct ranges {
    const ckm_dataflow *df;
    ckm_plan *plan;
    int64_t step;
    bool *live;                     // by tensor that an operator gives
    int32_t *tensors_in;            // by storage: live tensors in it
    int32_t *current;               // by storage: its instance, or -1
    bool *moved;                    // by tensor: comes back with its storage, as it was live when that was moved out
    int32_t *members_at, *members;  // by storage: its tensors
    int64_t next_binding;
} ranges;

static ckm_status open_instance(ranges *r, int32_t tensor, int32_t op, int64_t bytes, int32_t buffer, ckm_error *err)
{
    ckm_plan *plan = r->plan;
    if (!CKM_I_GROW(plan->instances, plan->n_instances, plan->cap_instances)) {
        return ckm_i_error_memory(err);
    }
    plan->instances[plan->n_instances++] = (ckm_plan_instance){.tensor = tensor,
                                                               .op = op,
                                                               .buffer = buffer >= 0 ? buffer : plan->n_buffers++,
                                                               .first = r->step,
                                                               .last = -1,
                                                               .bytes = bytes};
    return CKM_OK;
}

static ckm_status open_storage(ranges *r, int32_t storage, int32_t op, int32_t buffer, ckm_error *err)
{
    int32_t index = r->plan->n_instances;
    CKM_I_CHECK(open_instance(r, storage, op, r->df->tensors[storage].bytes, buffer, err));
    r->current[storage] = index;
    return CKM_OK;
}

static void close_storage(ranges *r, int32_t storage, int64_t last)
{
    r->plan->instances[r->current[storage]].last = last;
    r->current[storage] = -1;
}

static void bind(ranges *r, int32_t tensor)
{
    r->plan->bindings[r->next_binding++] = r->current[r->df->tensors[tensor].storage];
}

static ckm_status follow_compute(ranges *r, const ckm_step *step, ckm_error *err)
{
    const ckm_dataflow *df = r->df;
    const ckm_i_dataflow_op *op = &df->ops[step->index];
    for (int32_t k = 0; k < op->n_inputs; k++) {
        bind(r, op->inputs[k]);
    }
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t input = step->inplace[k][0];
        int32_t output = step->inplace[k][1];
        int32_t from = df->tensors[input].storage;
        int32_t buffer = r->plan->instances[r->current[from]].buffer;
        close_storage(r, from, r->step);
        r->live[input] = false;
        r->tensors_in[from] = 0;
        CKM_I_CHECK(open_storage(r, output, step->index, buffer, err));
        r->live[output] = true;
        r->tensors_in[output] = 1;
    }
    for (int32_t k = 0; k < op->n_outputs; k++) {
        int32_t x = op->outputs[k];
        int32_t storage = df->tensors[x].storage;
        if (!r->live[x]) {
            r->live[x] = true;
            if (r->tensors_in[storage]++ == 0) {  // never on a storage with an input, which is always live
                CKM_I_CHECK(open_storage(r, storage, step->index, -1, err));
            }
        }
        bind(r, x);
    }
    int32_t workspace = -1;
    if (op->workspace_bytes > 0) {
        workspace = r->plan->n_instances;
        CKM_I_CHECK(open_instance(r, -1, step->index, op->workspace_bytes, -1, err));
        r->plan->instances[workspace].last = r->step;
    }
    r->plan->bindings[r->next_binding++] = workspace;
    return CKM_OK;
}

static void follow_free(ranges *r, int32_t x)
{
    int32_t storage = r->df->tensors[x].storage;
    r->live[x] = false;
    if (--r->tensors_in[storage] == 0) {
        close_storage(r, storage, r->step - 1);
    }
}

// A transfer's beginning has one operand, the storage: an input of the way out, an output of the way in, where the storage takes its
// bytes from this step on. Its tensors are live once the way in has been waited for.
static ckm_status follow_transfer(ranges *r, const ckm_step *step, ckm_error *err)
{
    int32_t x = step->index;
    if (step->kind == CKM_STEP_IN) {
        CKM_I_CHECK(open_storage(r, x, -1, -1, err));
    }
    if (step->kind == CKM_STEP_OUT || step->kind == CKM_STEP_IN) {
        bind(r, x);
        r->plan->bindings[r->next_binding++] = -1;
    }
    for (int32_t k = r->members_at[x]; k < r->members_at[x + 1]; k++) {
        int32_t y = r->members[k];
        if (step->kind == CKM_STEP_OUT) {
            r->moved[y] = r->live[y];
        } else if (step->kind == CKM_STEP_WAIT_IN && (r->moved[y] || ckm_i_is_loaded(r->df, y))) {
            r->live[y] = true;
            r->tensors_in[x]++;
        }
    }
    return CKM_OK;
}

// Room for all bindings, and where each step's are.
static ckm_status lay_out_bindings(const ckm_dataflow *df, const ckm_schedule *s, ckm_plan *plan, ckm_error *err)
{
    plan->n_steps = s->n_steps;
    plan->steps = ckm_i_calloc((size_t)s->n_steps, sizeof *plan->steps);
    if (plan->steps == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t t = 0; t < s->n_steps; t++) {
        if (s->steps[t].kind == CKM_STEP_COMPUTE) {
            const ckm_i_dataflow_op *op = &df->ops[s->steps[t].index];
            plan->steps[t] = (ckm_i_plan_step){plan->n_bindings, op->n_inputs, op->n_outputs};
            plan->n_bindings += (int64_t)op->n_inputs + op->n_outputs + 1;
        } else if (s->steps[t].kind == CKM_STEP_OUT || s->steps[t].kind == CKM_STEP_IN) {
            bool out = s->steps[t].kind == CKM_STEP_OUT;
            plan->steps[t] = (ckm_i_plan_step){plan->n_bindings, out ? 1 : 0, out ? 0 : 1};
            plan->n_bindings += 2;
        } else {
            plan->steps[t].at = -1;
        }
    }
    plan->bindings = ckm_i_malloc((size_t)plan->n_bindings, sizeof *plan->bindings);
    return plan->bindings != NULL ? CKM_OK : ckm_i_error_memory(err);
}

ckm_status ckm_i_plan_ranges(const ckm_dataflow *df, const ckm_schedule *s, ckm_plan *plan, ckm_error *err)
{
    size_t n = (size_t)df->n_tensors;
    ckm_status status;
    ranges r = {.df = df, .plan = plan};
    r.live = ckm_i_calloc(n, sizeof *r.live);
    r.tensors_in = ckm_i_calloc(n, sizeof *r.tensors_in);
    r.current = ckm_i_malloc(n, sizeof *r.current);
    r.moved = ckm_i_calloc(n, sizeof *r.moved);
    r.members_at = ckm_i_calloc(n + 1, sizeof *r.members_at);
    r.members = ckm_i_malloc(n, sizeof *r.members);
    if (r.live == NULL || r.tensors_in == NULL || r.current == NULL || r.moved == NULL || r.members_at == NULL ||
        r.members == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        r.current[x] = -1;
        r.tensors_in[df->tensors[x].storage] += df->tensors[x].producer < 0;
    }
    ckm_i_dataflow_members(df, r.members_at, r.members);
    CKM_I_TRY(lay_out_bindings(df, s, plan, err));
    for (r.step = 0; r.step < s->n_steps; r.step++) {
        ckm_step step = ckm_schedule_get_step(s, r.step);
        if (step.kind == CKM_STEP_COMPUTE) {
            CKM_I_TRY(follow_compute(&r, &step, err));
        } else if (step.kind == CKM_STEP_FREE) {
            follow_free(&r, step.index);
        } else {
            CKM_I_TRY(follow_transfer(&r, &step, err));
        }
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (r.current[x] >= 0) {
            close_storage(&r, x, s->n_steps - 1);
        }
    }
cleanup:
    free(r.live);
    free(r.tensors_in);
    free(r.current);
    free(r.moved);
    free(r.members_at);
    free(r.members);
    return status;
}
