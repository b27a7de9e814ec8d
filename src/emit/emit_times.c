// SPDX-License-Identifier: Apache-2.0
// When what happens in a schedule: operators one after the other and, at the same time, one transfer each way.
#include <checkmate/emit.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dataflow/dataflow.h"
#include "schedule/schedule.h"

typedef struct following {
    const ckm_emit_facts *f;
    ckm_emit_times *t;
    int64_t *under_way;  // by storage: its transfer that has not been waited for
    int64_t now, out_free, in_free, moment;
} following;

static ckm_status begin(following *g, const ckm_step *step, ckm_error *err)
{
    bool out = step->kind == CKM_STEP_OUT;
    int64_t *free_at = out ? &g->out_free : &g->in_free;
    int64_t bytes = out ? g->f->df->tensors[step->index].bytes : ckm_i_bytes_in(g->f->df, step->index);
    int64_t takes;
    if (!ckm_i_transfer_cost(g->f->df, bytes, out, &takes)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "a transfer of %lld bytes takes more than 63 bits hold",
                           (long long)bytes);
    }
    ckm_emit_transfer *x = &g->t->transfers[g->t->n_transfers];
    *x = (ckm_emit_transfer){.tensor = step->index, .out = out, .bytes = bytes, .issued = g->now};
    x->begin = *free_at > g->now ? *free_at : g->now;
    x->end = x->begin + takes;  // at most the schedule's cost: all are waited for
    *free_at = x->end;
    *(out ? &g->t->out_bytes : &g->t->in_bytes) += bytes;
    *(out ? &g->t->out_time : &g->t->in_time) += takes;
    g->under_way[step->index] = g->t->n_transfers++;
    return CKM_OK;
}

static void wait_for(following *g, const ckm_step *step)
{
    ckm_emit_transfer *x = &g->t->transfers[g->under_way[step->index]];
    x->stall = x->end > g->now ? x->end - g->now : 0;
    x->moment = g->moment;
    g->now += x->stall;
    g->t->stalled += x->stall;
}

// Fails for a schedule to which steps were added after its facts were gathered: the lists have no room for them.
static ckm_status check_unchanged(const ckm_emit_facts *f, ckm_error *err)
{
    ckm_simulation now = {.cost = -1};
    int64_t n = 0;
    for (int64_t i = 0; i < ckm_schedule_step_count(f->schedule); i++) {
        n += ckm_schedule_get_step(f->schedule, i).kind == CKM_STEP_COMPUTE;
    }
    if (n == f->n_moments) {
        CKM_I_CHECK(ckm_schedule_simulate(f->df, f->schedule, NULL, &now, err));
    }
    return n == f->n_moments && now.cost == f->cost
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_ARGUMENT, "the schedule was changed after its facts were gathered");
}

static ckm_status follow(following *g, ckm_error *err)
{
    const ckm_schedule *s = g->f->schedule;
    for (int64_t i = 0; i < ckm_schedule_step_count(s); i++) {
        ckm_step step = ckm_schedule_get_step(s, i);
        switch (step.kind) {
        case CKM_STEP_COMPUTE:
            g->t->begin[g->moment++] = g->now;
            g->now += ckm_dataflow_get_op(g->f->df, step.index).cost;
            break;
        case CKM_STEP_OUT:
        case CKM_STEP_IN:
            CKM_I_CHECK(begin(g, &step, err));
            break;
        case CKM_STEP_WAIT_OUT:
        case CKM_STEP_WAIT_IN:
            wait_for(g, &step);
            break;
        case CKM_STEP_FREE:
            break;
        }
    }
    g->t->total = g->now;
    return g->now == g->f->cost ? CKM_OK
                                : ckm_i_error(err, CKM_ERR_INTERNAL, "the schedule ends at %lld, the simulator at %lld",
                                              (long long)g->now, (long long)g->f->cost);
}

ckm_status ckm_emit_times_create(const ckm_emit_facts *facts, ckm_emit_times **out, ckm_error *err)
{
    CKM_I_NEED(facts, err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(check_unchanged(facts, err));
    ckm_status status = CKM_OK;
    following g = {.f = facts};
    g.t = ckm_i_calloc(1, sizeof *g.t);
    g.under_way = ckm_i_calloc((size_t)ckm_dataflow_tensor_count(facts->df), sizeof *g.under_way);
    if (g.t == NULL || g.under_way == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    g.t->begin = ckm_i_calloc((size_t)facts->n_moments, sizeof *g.t->begin);
    g.t->transfers = ckm_i_calloc((size_t)ckm_schedule_transfer_count(facts->schedule), sizeof *g.t->transfers);
    if (g.t->begin == NULL || g.t->transfers == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    g.t->read_back = ckm_i_calloc((size_t)facts->n_lives, sizeof *g.t->read_back);
    if (g.t->read_back == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < facts->n_lives; i++) {
        // Whatever is made begins with the operator that makes it.
        const ckm_emit_life *life = &facts->lives[i];
        g.t->read_back[i] = life->tensor >= 0 && facts->moments[life->first].op != life->op;
    }
    CKM_I_TRY(follow(&g, err));
    *out = g.t;
    g.t = NULL;
cleanup:
    free(g.under_way);
    ckm_emit_times_free(g.t);
    return status;
}

void ckm_emit_times_free(ckm_emit_times *times)
{
    if (times != NULL) {
        free(times->begin);
        free(times->read_back);
        free(times->transfers);
        free(times);
    }
}
