// SPDX-License-Identifier: Apache-2.0
// The schedule as a growing list of steps, and the schedule without rematerialization.
#include "schedule/schedule.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"
#include "dataflow/dataflow.h"
#include "schedule/schedule_order.h"

ckm_status ckm_schedule_create(ckm_schedule **out, ckm_error *err)
{
    CKM_I_NEED(out, err);
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
    CKM_I_NEED(s, err);
    CKM_I_NEED(step, err);
    if (step->kind < CKM_STEP_COMPUTE || step->kind > CKM_STEP_WAIT_IN) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "there is no step of kind %d", (int)step->kind);
    }
    if (step->n_inplace > 0 && step->inplace == NULL) {
        return ckm_i_error_null(err, __func__, "step->inplace");
    }
    if (step->n_inplace < 0 || (step->kind != CKM_STEP_COMPUTE && step->n_inplace > 0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a %s step cannot have %d in-place pairs",
                           step->kind == CKM_STEP_FREE      ? "free"
                           : step->kind == CKM_STEP_COMPUTE ? "compute"
                                                            : "transfer",
                           (int)step->n_inplace);
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
    s->n_transfers += step->kind > CKM_STEP_FREE;
    return CKM_OK;
}

ckm_status ckm_i_schedule_copy(const ckm_schedule *s, ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *copy = NULL;
    CKM_I_CHECK(ckm_schedule_create(&copy, err));
    copy->steps = ckm_i_memdup(s->steps, (size_t)s->n_steps, sizeof *s->steps);
    copy->pairs = ckm_i_memdup(s->pairs, (size_t)s->n_pairs, sizeof *s->pairs);
    if (copy->steps == NULL || copy->pairs == NULL) {
        ckm_schedule_free(copy);
        return ckm_i_error_memory(err);
    }
    copy->n_steps = copy->cap_steps = s->n_steps;
    copy->n_pairs = copy->cap_pairs = s->n_pairs;
    copy->n_transfers = s->n_transfers;
    *out = copy;
    return CKM_OK;
}

int64_t ckm_schedule_step_count(const ckm_schedule *s)
{
    return s != NULL ? s->n_steps : 0;
}

int64_t ckm_schedule_transfer_count(const ckm_schedule *s)
{
    return s != NULL ? s->n_transfers : 0;
}

ckm_step ckm_schedule_get_step(const ckm_schedule *s, int64_t i)
{
    if (s == NULL || i < 0 || i >= s->n_steps) {
        return (ckm_step){.kind = CKM_STEP_COMPUTE, .index = -1};
    }
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
    return s != NULL ? &s->info : NULL;
}

void ckm_schedule_set_info(ckm_schedule *s, const ckm_schedule_info *info)
{
    if (s == NULL || info == NULL) {
        return;
    }
    s->info = *info;
    s->info.graph[sizeof s->info.graph - 1] = '\0';
    s->info.strategy[sizeof s->info.strategy - 1] = '\0';
}
