// SPDX-License-Identifier: Apache-2.0
#include "solve/moves/moves_lift.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_i_moves_lower(const ckm_i_moves_graph *m, const ckm_schedule *from, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *to = NULL;
    int32_t(*pairs)[2] = ckm_i_malloc(ckm_i_most_pairs(m->stand_in), sizeof *pairs);
    if (pairs == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_schedule_create(&to, err));
    for (int64_t i = 0; i < from->n_steps; i++) {
        ckm_step step = ckm_schedule_get_step(from, i);
        if (step.kind == CKM_STEP_FREE) {
            if (step.index >= m->df->n_tensors) {
                continue;
            }
        } else {
            int32_t v = m->op_of[step.index];
            step.index = v >= 0 ? v : m->df->n_ops + m->read_of[step.index];
            for (int32_t k = 0; k < step.n_inplace; k++) {
                pairs[k][0] = m->tensor_of[step.inplace[k][0]];
                pairs[k][1] = m->tensor_of[step.inplace[k][1]];
            }
            step.inplace = (const int32_t(*)[2])pairs;
        }
        CKM_I_TRY(ckm_schedule_append(to, &step, err));
    }
    *out = to;
    to = NULL;
cleanup:
    ckm_schedule_free(to);
    free(pairs);
    return status;
}

typedef struct lifting {
    const ckm_i_moves_graph *m;
    ckm_schedule *to;
    int32_t *made_by;  // by operator of the graph: the stand-in's, of a load also a read
    int32_t *read_by;  // by storage: the stand-in's read, or -1
    int32_t *copy_of;  // by tensor of the graph: its copy, or -1
    bool *is_read;     // by storage: the schedule reads it
    int32_t (*pairs)[2];
    ckm_error *err;
} lifting;

static void index_stand_in(const lifting *l)
{
    const ckm_i_moves_graph *m = l->m;
    for (int32_t x = 0; x < m->df->n_tensors; x++) {
        l->read_by[x] = l->copy_of[x] = -1;
    }
    for (int32_t i = m->df->n_tensors; i < m->stand_in->n_tensors; i++) {
        if (m->tensor_of[i] >= 0) {
            l->copy_of[m->tensor_of[i]] = i;
        }
    }
    for (int32_t v = 0; v < m->stand_in->n_ops; v++) {
        if (m->op_of[v] >= 0) {
            l->made_by[m->op_of[v]] = v;
        } else {
            l->read_by[m->read_of[v]] = v;
            if (ckm_i_is_loaded(m->df, m->read_of[v])) {
                l->made_by[m->df->tensors[m->read_of[v]].producer] = v;
            }
        }
    }
}

static ckm_status append(const lifting *l, ckm_step_kind kind, int32_t index)
{
    ckm_step step = {.kind = kind, .index = index};
    return ckm_schedule_append(l->to, &step, l->err);
}

static ckm_status lift_compute(const lifting *l, ckm_step step)
{
    const ckm_dataflow *df = l->m->df;
    const ckm_i_dataflow_op *op = &df->ops[step.index];
    for (int32_t k = 0; k < step.n_inplace; k++) {
        int32_t to = step.inplace[k][1];
        l->pairs[k][0] = step.inplace[k][0];
        l->pairs[k][1] = l->copy_of[to] >= 0 ? l->copy_of[to] : to;
    }
    step.index = l->made_by[step.index];
    step.inplace = (const int32_t(*)[2])l->pairs;
    CKM_I_CHECK(ckm_schedule_append(l->to, &step, l->err));
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t copy = l->copy_of[op->outputs[i]];
        CKM_I_CHECK(copy >= 0 ? append(l, CKM_STEP_FREE, copy) : CKM_OK);
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        int32_t x = op->outputs[i];
        if (df->tensors[x].storage == x && op->kind != CKM_OP_LOAD && l->read_by[x] >= 0 && !l->is_read[x]) {
            CKM_I_CHECK(append(l, CKM_STEP_COMPUTE, l->read_by[x]));
        }
    }
    return CKM_OK;
}

// *possible: the stand-in has all the reads of the schedule.
static ckm_status lift(const lifting *l, const ckm_schedule *from, bool *possible)
{
    int32_t n_ops = l->m->df->n_ops;
    index_stand_in(l);
    *possible = true;
    for (int64_t i = 0; i < from->n_steps; i++) {
        if (from->steps[i].kind == CKM_STEP_COMPUTE && from->steps[i].index >= n_ops) {
            int32_t storage = from->steps[i].index - n_ops;
            l->is_read[storage] = true;
            *possible = *possible && (l->read_by[storage] >= 0 || ckm_i_is_loaded(l->m->df, storage));
        }
    }
    for (int64_t i = 0; *possible && i < from->n_steps; i++) {
        ckm_step step = ckm_schedule_get_step(from, i);
        if (step.kind == CKM_STEP_FREE) {
            CKM_I_CHECK(append(l, CKM_STEP_FREE, step.index));
        } else if (step.index >= n_ops && !ckm_i_is_loaded(l->m->df, step.index - n_ops)) {
            CKM_I_CHECK(append(l, CKM_STEP_COMPUTE, l->read_by[step.index - n_ops]));
        } else {
            step.index = step.index >= n_ops ? l->m->df->tensors[step.index - n_ops].producer : step.index;
            CKM_I_CHECK(lift_compute(l, step));
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_moves_lift(const ckm_i_moves_graph *m, const ckm_schedule *from, ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)m->df->n_tensors;
    bool possible = false;
    lifting l = {.m = m, .err = err};
    *out = NULL;
    l.made_by = ckm_i_malloc((size_t)m->df->n_ops, sizeof *l.made_by);
    l.read_by = ckm_i_malloc(n, sizeof *l.read_by);
    l.copy_of = ckm_i_malloc(n, sizeof *l.copy_of);
    l.is_read = ckm_i_calloc(n, sizeof *l.is_read);
    l.pairs = ckm_i_malloc(ckm_i_most_pairs(m->stand_in), sizeof *l.pairs);
    if (l.made_by == NULL || l.read_by == NULL || l.copy_of == NULL || l.is_read == NULL || l.pairs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_create(&l.to, err));
    CKM_I_TRY(lift(&l, from, &possible));
    if (possible) {
        *out = l.to;
        l.to = NULL;
    }
cleanup:
    ckm_schedule_free(l.to);
    free(l.made_by);
    free(l.read_by);
    free(l.copy_of);
    free(l.is_read);
    free(l.pairs);
    return status;
}
