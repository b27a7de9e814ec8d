// SPDX-License-Identifier: Apache-2.0
#include "solve/moves/moves_expand.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"

// The stand-in's schedule is followed on one side, what is really in memory on the other. A tensor that the stand-in has twice, itself
// and its copy, is there once.
typedef struct expansion {
    const ckm_i_moves_graph *m;
    const ckm_schedule *from;
    ckm_schedule *to;
    bool *live;           // by tensor of the graph
    int32_t *n_live;      // by storage: live tensors on it
    bool *held;           // by tensor of the stand-in: live there
    int32_t *copy_of;     // by tensor of the graph: its copy in the stand-in, or -1
    bool *is_read;        // by storage: has been read for the first time
    bool *leaving;        // by storage: on its way out
    bool *stored;         // by storage: moved out, or loaded
    bool *travels;        // by tensor of the graph: comes back with its storage
    int32_t *reads_left;  // by storage: reads to come
    int64_t *last_write;  // by storage: the last step that makes a tensor on it before it is first freed, or read again
    int32_t *members_at, *members;  // tensors of each storage
    int32_t (*pairs)[2];
    int64_t budget_bytes;
    int64_t *in_use;  // by step of the stand-in's schedule
    ckm_error *err;
} expansion;

static ckm_status append(expansion *e, ckm_step_kind kind, int32_t index)
{
    ckm_step step = {.kind = kind, .index = index};
    return ckm_schedule_append(e->to, &step, e->err);
}

static int32_t storage_of(const expansion *e, int32_t x)
{
    return e->m->df->tensors[x].storage;
}

static ckm_status settle(expansion *e, int32_t storage)
{
    if (e->leaving[storage]) {
        e->leaving[storage] = false;
        return append(e, CKM_STEP_WAIT_OUT, storage);
    }
    return CKM_OK;
}

static ckm_status drop(expansion *e, int32_t x)
{
    int32_t storage = storage_of(e, x);
    if (!e->live[x] || e->m->df->tensors[x].producer < 0) {
        return CKM_OK;
    }
    if (e->n_live[storage] == 1) {
        CKM_I_CHECK(settle(e, storage));
    }
    e->live[x] = false;
    e->n_live[storage]--;
    return append(e, CKM_STEP_FREE, x);
}

// Whether the stand-in has the tensor, as itself or as its copy.
static bool is_wanted(const expansion *e, int32_t x)
{
    return e->held[x] || (e->copy_of[x] >= 0 && e->held[e->copy_of[x]]);
}

static void make_live(expansion *e, int32_t x)
{
    if (!e->live[x]) {
        e->live[x] = true;
        e->n_live[storage_of(e, x)]++;
    }
}

// The way out begins after the last step that writes on the storage, if it is to come back.
static ckm_status send_out(expansion *e, int64_t at, int32_t storage)
{
    if (e->stored[storage] || !e->is_read[storage] || e->reads_left[storage] == 0 || e->last_write[storage] > at ||
        e->n_live[storage] == 0) {
        return CKM_OK;
    }
    e->stored[storage] = true;
    e->leaving[storage] = true;
    for (int32_t k = e->members_at[storage]; k < e->members_at[storage + 1]; k++) {
        e->travels[e->members[k]] = e->live[e->members[k]];
    }
    return append(e, CKM_STEP_OUT, storage);
}

static ckm_status expand_compute(expansion *e, int64_t at, const ckm_step *step)
{
    const ckm_dataflow *df = e->m->df;
    const ckm_i_dataflow_op *made = &e->m->stand_in->ops[step->index];
    int32_t v = e->m->op_of[step->index];
    const ckm_i_dataflow_op *op = &df->ops[v];
    for (int32_t i = 0; i < op->n_outputs; i++) {
        CKM_I_CHECK(settle(e, storage_of(e, op->outputs[i])));
    }
    ckm_step real = {.kind = CKM_STEP_COMPUTE, .index = v, .inplace = (const int32_t(*)[2])e->pairs};
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t from = e->m->tensor_of[step->inplace[k][0]];
        int32_t to = e->m->tensor_of[step->inplace[k][1]];
        e->held[step->inplace[k][0]] = false;
        // What is there already is written where it is, and the input goes by itself. So it does while it leaves, where there is room for
        // both: nothing has to wait for it then.
        bool stays = e->leaving[storage_of(e, from)] &&
                     e->in_use[at] <= e->budget_bytes - df->tensors[storage_of(e, from)].bytes;
        if (e->n_live[to] == 0 && !is_wanted(e, from) && !stays) {
            CKM_I_CHECK(settle(e, storage_of(e, from)));
            e->pairs[real.n_inplace][0] = from;
            e->pairs[real.n_inplace++][1] = to;
        }
    }
    CKM_I_CHECK(ckm_schedule_append(e->to, &real, e->err));
    for (int32_t k = 0; k < real.n_inplace; k++) {
        e->live[e->pairs[k][0]] = false;
        e->n_live[storage_of(e, e->pairs[k][0])]--;
    }
    for (int32_t i = 0; i < made->n_outputs; i++) {
        int32_t x = e->m->tensor_of[made->outputs[i]];
        e->held[made->outputs[i]] = true;
        if (x >= 0) {
            make_live(e, x);
        }
    }
    for (int32_t k = 0; k < step->n_inplace; k++) {
        int32_t from = e->m->tensor_of[step->inplace[k][0]];
        if (!is_wanted(e, from)) {
            CKM_I_CHECK(drop(e, from));
        }
    }
    for (int32_t i = 0; i < op->n_outputs; i++) {
        CKM_I_CHECK(send_out(e, at, storage_of(e, op->outputs[i])));
    }
    return CKM_OK;
}

// What the read gives, and with it whatever travelled; what of that the stand-in has not is freed.
static ckm_status bring_back(expansion *e, int32_t storage)
{
    CKM_I_CHECK(append(e, CKM_STEP_IN, storage));
    CKM_I_CHECK(append(e, CKM_STEP_WAIT_IN, storage));
    for (int32_t k = e->members_at[storage]; k < e->members_at[storage + 1]; k++) {
        if (e->travels[e->members[k]]) {
            make_live(e, e->members[k]);
        }
    }
    for (int32_t k = e->members_at[storage]; k < e->members_at[storage + 1]; k++) {
        CKM_I_CHECK(is_wanted(e, e->members[k]) ? CKM_OK : drop(e, e->members[k]));
    }
    return CKM_OK;
}

static ckm_status expand_read(expansion *e, int64_t at, const ckm_step *step)
{
    const ckm_i_dataflow_op *read = &e->m->stand_in->ops[step->index];
    int32_t storage = e->m->read_of[step->index];
    bool there = true;
    e->reads_left[storage]--;
    for (int32_t i = 0; i < read->n_outputs; i++) {
        e->held[read->outputs[i]] = true;
        there = there && e->live[read->outputs[i]];
    }
    bool remains = ckm_i_is_loaded(e->m->df, storage) && e->n_live[storage] > 0;
    if (!there && remains) {  // a view is there, so the storage cannot come: it is loaded in place
        CKM_I_CHECK(append(e, CKM_STEP_COMPUTE, e->m->df->tensors[storage].producer));
        make_live(e, storage);
    } else if (!there) {
        CKM_I_CHECK(bring_back(e, storage));
    }
    e->is_read[storage] = true;
    return send_out(e, at, storage);
}

static ckm_status expand_free(expansion *e, int32_t standing)
{
    int32_t x = e->m->tensor_of[standing];
    e->held[standing] = false;
    if (x < 0 || is_wanted(e, x)) {
        return CKM_OK;
    }
    // A copy is freed right before the read that makes the tensor itself.
    if (standing == e->copy_of[x] && !e->is_read[storage_of(e, x)]) {
        return CKM_OK;
    }
    return drop(e, x);
}

// Which reads there are, and until when each chosen storage is written before it goes for the first time.
static void look_ahead(const expansion *e)
{
    const ckm_dataflow *df = e->m->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        e->last_write[x] = -1;
        e->copy_of[x] = -1;
    }
    for (int32_t i = 0; i < e->m->stand_in->n_tensors; i++) {
        if (i >= df->n_tensors && e->m->tensor_of[i] >= 0) {
            e->copy_of[e->m->tensor_of[i]] = i;
        }
    }
    int32_t *on = e->n_live;  // by storage: tensors of the stand-in that are live on it, as long as it has not gone
    bool *gone = e->travels;  // by storage
    bool *seen = e->live;     // by tensor
    for (int64_t at = 0; at < e->from->n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(e->from, at);
        int32_t read = step.kind == CKM_STEP_COMPUTE ? e->m->read_of[step.index] : -1;
        if (read >= 0) {
            e->reads_left[read]++;
        }
        if (step.kind == CKM_STEP_FREE) {
            if (step.index < df->n_tensors && seen[step.index]) {
                seen[step.index] = false;
                gone[storage_of(e, step.index)] = gone[storage_of(e, step.index)] ||
                                                  --on[storage_of(e, step.index)] == 0;
            }
            continue;
        }
        for (int32_t k = 0; k < step.n_inplace; k++) {
            int32_t x = step.inplace[k][0];
            if (x < df->n_tensors && seen[x]) {
                seen[x] = false;
                gone[storage_of(e, x)] = gone[storage_of(e, x)] || --on[storage_of(e, x)] == 0;
            }
        }
        const ckm_i_dataflow_op *op = &e->m->stand_in->ops[step.index];
        for (int32_t i = 0; i < op->n_outputs; i++) {
            int32_t x = op->outputs[i];
            if (x < df->n_tensors && !seen[x]) {
                seen[x] = true;
                on[storage_of(e, x)]++;
            }
            if (x < df->n_tensors && !gone[storage_of(e, x)]) {
                e->last_write[storage_of(e, x)] = at;
            }
        }
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        on[x] = 0;
        gone[x] = seen[x] = false;
    }
}

static void start(expansion *e)
{
    const ckm_dataflow *df = e->m->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        if (df->tensors[x].producer < 0) {
            make_live(e, x);
            e->held[x] = true;
        }
        e->stored[x] = e->travels[x] = ckm_i_is_loaded(df, x);
    }
}

static ckm_status run(expansion *e)
{
    const ckm_dataflow *df = e->m->df;
    look_ahead(e);
    start(e);
    for (int64_t at = 0; at < e->from->n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(e->from, at);
        if (step.kind == CKM_STEP_FREE) {
            CKM_I_CHECK(expand_free(e, step.index));
        } else if (e->m->read_of[step.index] < 0) {
            CKM_I_CHECK(expand_compute(e, at, &step));
        } else {
            CKM_I_CHECK(expand_read(e, at, &step));
        }
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        CKM_I_CHECK(settle(e, x));
    }
    return CKM_OK;
}

ckm_status ckm_i_moves_expand(const ckm_i_moves_graph *m, const ckm_schedule *from, int64_t budget_bytes,
                              ckm_schedule **out, ckm_error *err)
{
    ckm_status status = CKM_OK;
    size_t n = (size_t)m->df->n_tensors;
    expansion e = {.m = m, .from = from, .budget_bytes = budget_bytes, .err = err};
    ckm_simulation facts;
    e.live = ckm_i_calloc(n, sizeof *e.live);
    e.n_live = ckm_i_calloc(n, sizeof *e.n_live);
    e.held = ckm_i_calloc((size_t)m->stand_in->n_tensors, sizeof *e.held);
    e.copy_of = ckm_i_malloc(n, sizeof *e.copy_of);
    e.is_read = ckm_i_calloc(n, sizeof *e.is_read);
    e.leaving = ckm_i_calloc(n, sizeof *e.leaving);
    e.stored = ckm_i_calloc(n, sizeof *e.stored);
    e.travels = ckm_i_calloc(n, sizeof *e.travels);
    e.reads_left = ckm_i_calloc(n, sizeof *e.reads_left);
    e.last_write = ckm_i_malloc(n, sizeof *e.last_write);
    e.members_at = ckm_i_malloc(n + 1, sizeof *e.members_at);
    e.members = ckm_i_malloc(n, sizeof *e.members);
    e.pairs = ckm_i_malloc(ckm_i_most_pairs(m->stand_in), sizeof *e.pairs);
    e.in_use = ckm_i_malloc((size_t)from->n_steps, sizeof *e.in_use);
    if (e.live == NULL || e.in_use == NULL || e.n_live == NULL || e.held == NULL || e.copy_of == NULL ||
        e.is_read == NULL || e.leaving == NULL || e.stored == NULL || e.travels == NULL || e.reads_left == NULL ||
        e.last_write == NULL || e.members_at == NULL || e.members == NULL || e.pairs == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    ckm_i_dataflow_members(m->df, e.members_at, e.members);
    CKM_I_TRY(ckm_i_schedule_try(m->stand_in, from, e.in_use, &facts, err));
    CKM_I_TRY(ckm_schedule_create(&e.to, err));
    CKM_I_TRY(run(&e));
    *out = e.to;
    e.to = NULL;
cleanup:
    ckm_schedule_free(e.to);
    free(e.live);
    free(e.n_live);
    free(e.held);
    free(e.copy_of);
    free(e.is_read);
    free(e.leaving);
    free(e.stored);
    free(e.travels);
    free(e.reads_left);
    free(e.last_write);
    free(e.members_at);
    free(e.members);
    free(e.pairs);
    free(e.in_use);
    return status;
}
