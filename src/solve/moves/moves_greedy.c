// SPDX-License-Identifier: Apache-2.0
#include "solve/moves/moves_greedy.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "dataflow/dataflow.h"

// A storage rests between two steps that touch it.
typedef struct rest {
    int64_t after, before;
    int32_t storage;
    bool moved;
} rest;

typedef struct greedy {
    const ckm_dataflow *df;
    const bool *can;
    bool *moved;  // by storage
    const ckm_schedule *plain;
    int64_t *in_use;  // by step, with what is moved so far
    rest *rests;
    int64_t n_rests, cap_rests;
    int64_t *touched, *written;     // by storage: the last step that did; -1: none yet
    int32_t *members_at, *members;  // tensors of each storage
    // While the schedule is built.
    ckm_schedule *to, *lowered;  // the second with reads instead of transfers
    bool *live, *travels;        // by tensor
    bool *away, *stored;         // by storage
    ckm_error *err;
} greedy;

static ckm_status touch(greedy *g, int64_t at, int32_t x)
{
    int32_t storage = g->df->tensors[x].storage;
    int64_t last = g->touched[storage];
    g->touched[storage] = at;
    // A copy does not change, so a storage goes when nothing on it is made any more.
    if (last < 0 || at - last < 2 || !g->can[storage] || ckm_i_is_loaded(g->df, storage) ||
        g->written[storage] > last) {
        return CKM_OK;
    }
    if (!CKM_I_GROW(g->rests, g->n_rests, g->cap_rests)) {
        return ckm_i_error_memory(g->err);
    }
    g->rests[g->n_rests++] = (rest){last, at, storage, false};
    return CKM_OK;
}

static ckm_status find_rests(greedy *g)
{
    const ckm_dataflow *df = g->df;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        g->touched[x] = -1;
        g->written[x] = -1;
    }
    for (int64_t at = 0; at < g->plain->n_steps; at++) {
        const ckm_i_step *step = &g->plain->steps[at];
        for (int32_t k = 0; step->kind == CKM_STEP_COMPUTE && k < df->ops[step->index].n_outputs; k++) {
            g->written[df->tensors[df->ops[step->index].outputs[k]].storage] = at;
        }
    }
    for (int64_t at = 0; at < g->plain->n_steps; at++) {
        const ckm_i_step *step = &g->plain->steps[at];
        if (step->kind != CKM_STEP_COMPUTE) {
            continue;
        }
        const ckm_i_dataflow_op *op = &df->ops[step->index];
        for (int32_t k = 0; k < op->n_inputs; k++) {
            CKM_I_CHECK(touch(g, at, op->inputs[k]));
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            CKM_I_CHECK(touch(g, at, op->outputs[k]));
        }
    }
    return CKM_OK;
}

// What moving in this rest relieves, in bytes above the budget of all steps, for each unit of time on the links.
static double worth(const greedy *g, const rest *r, int64_t budget)
{
    int64_t bytes = g->df->tensors[r->storage].bytes;
    double relieved = 0.0;
    int64_t out = 0;
    int64_t in = 0;
    for (int64_t at = r->after + 1; at < r->before; at++) {
        int64_t excess = g->in_use[at] - budget;
        relieved += excess > 0 ? (double)(excess < bytes ? excess : bytes) : 0.0;
    }
    if (!ckm_i_transfer_cost(g->df, bytes, true, &out) || !ckm_i_transfer_cost(g->df, bytes, false, &in)) {
        return 0.0;
    }
    return relieved / ((g->moved[r->storage] ? 0.0 : (double)out) + (double)in + 1.0);
}

// Moves until no step takes more than the budget; false where that cannot be.
static bool choose(greedy *g, int64_t budget)
{
    for (;;) {
        int64_t worst = 0;
        for (int64_t at = 1; at < g->plain->n_steps; at++) {
            worst = g->in_use[at] > g->in_use[worst] ? at : worst;
        }
        if (g->plain->n_steps == 0 || g->in_use[worst] <= budget) {
            return true;
        }
        rest *best = NULL;
        double most = 0.0;
        for (int64_t i = 0; i < g->n_rests; i++) {
            rest *r = &g->rests[i];
            if (!r->moved && r->after < worst && r->before > worst) {
                double value = worth(g, r, budget);
                best = value > most ? r : best;
                most = value > most ? value : most;
            }
        }
        if (best == NULL) {
            return false;
        }
        best->moved = true;
        g->moved[best->storage] = true;
        for (int64_t at = best->after + 1; at < best->before; at++) {
            g->in_use[at] -= g->df->tensors[best->storage].bytes;
        }
    }
}

static ckm_status append(greedy *g, ckm_step_kind kind, int32_t index)
{
    const ckm_step step = {.kind = kind, .index = index};
    return ckm_schedule_append(g->to, &step, g->err);
}

static ckm_status append_lowered(greedy *g, ckm_step_kind kind, int32_t index)
{
    const ckm_step step = {.kind = kind, .index = index};
    return ckm_schedule_append(g->lowered, &step, g->err);
}

// Steps that are the same in both.
static ckm_status append_both(greedy *g, const ckm_step *step)
{
    CKM_I_CHECK(ckm_schedule_append(g->to, step, g->err));
    return ckm_schedule_append(g->lowered, step, g->err);
}

// A read makes what is made with its storage; what came later is made anew from it.
static ckm_status read_back(greedy *g, int32_t x)
{
    int32_t maker = g->df->tensors[x].producer;
    CKM_I_CHECK(append_lowered(g, CKM_STEP_COMPUTE, g->df->n_ops + x));
    for (int32_t k = g->members_at[x]; k < g->members_at[x + 1]; k++) {
        int32_t y = g->members[k];
        if (g->df->tensors[y].producer == maker) {
            CKM_I_CHECK(g->live[y] ? CKM_OK : append_lowered(g, CKM_STEP_FREE, y));
        } else if (g->travels[y] && g->live[y]) {
            CKM_I_CHECK(append_lowered(g, CKM_STEP_COMPUTE, g->df->tensors[y].producer));
        }
    }
    return CKM_OK;
}

static ckm_status send(greedy *g, int32_t x)
{
    if (!g->stored[x]) {
        g->stored[x] = true;
        CKM_I_CHECK(append(g, CKM_STEP_OUT, x));
        CKM_I_CHECK(append(g, CKM_STEP_WAIT_OUT, x));
        for (int32_t k = g->members_at[x]; k < g->members_at[x + 1]; k++) {
            g->travels[g->members[k]] = g->live[g->members[k]];
        }
    }
    for (int32_t k = g->members_at[x]; k < g->members_at[x + 1]; k++) {
        const ckm_step step = {.kind = CKM_STEP_FREE, .index = g->members[k]};
        CKM_I_CHECK(g->live[g->members[k]] ? append_both(g, &step) : CKM_OK);
    }
    g->away[x] = true;
    return CKM_OK;
}

// All that comes back for a step, then the waits; what came along but has died meanwhile goes.
static ckm_status fetch(greedy *g, int64_t at)
{
    for (int64_t i = 0; i < g->n_rests; i++) {
        if (g->rests[i].moved && g->rests[i].before == at) {
            CKM_I_CHECK(append(g, CKM_STEP_IN, g->rests[i].storage));
        }
    }
    for (int64_t i = 0; i < g->n_rests; i++) {
        int32_t x = g->rests[i].storage;
        if (!g->rests[i].moved || g->rests[i].before != at) {
            continue;
        }
        g->away[x] = false;
        CKM_I_CHECK(append(g, CKM_STEP_WAIT_IN, x));
        CKM_I_CHECK(read_back(g, x));
        for (int32_t k = g->members_at[x]; k < g->members_at[x + 1]; k++) {
            int32_t y = g->members[k];
            CKM_I_CHECK(g->travels[y] && !g->live[y] ? append(g, CKM_STEP_FREE, y) : CKM_OK);
        }
    }
    return CKM_OK;
}

static ckm_status build(greedy *g)
{
    for (int64_t at = 0; at < g->plain->n_steps; at++) {
        const ckm_step step = ckm_schedule_get_step(g->plain, at);
        if (step.kind == CKM_STEP_FREE) {
            g->live[step.index] = false;
            // What is away has been freed already.
            CKM_I_CHECK(g->away[g->df->tensors[step.index].storage] ? CKM_OK : append_both(g, &step));
            continue;
        }
        const ckm_i_dataflow_op *op = &g->df->ops[step.index];
        CKM_I_CHECK(fetch(g, at));
        CKM_I_CHECK(append_both(g, &step));
        for (int32_t k = 0; k < step.n_inplace; k++) {
            g->live[step.inplace[k][0]] = false;
        }
        for (int32_t k = 0; k < op->n_outputs; k++) {
            int32_t y = op->outputs[k];
            g->live[y] = true;
            bool is_read = g->df->tensors[y].storage == y && g->moved[y];  // for the first time right after it is made
            CKM_I_CHECK(is_read ? append_lowered(g, CKM_STEP_COMPUTE, g->df->n_ops + y) : CKM_OK);
        }
        for (int64_t i = 0; i < g->n_rests; i++) {
            CKM_I_CHECK(g->rests[i].moved && g->rests[i].after == at ? send(g, g->rests[i].storage) : CKM_OK);
        }
    }
    return CKM_OK;
}

static ckm_status make_room(greedy *g)
{
    size_t n = (size_t)g->df->n_tensors;
    g->in_use = ckm_i_malloc((size_t)g->plain->n_steps, sizeof *g->in_use);
    g->touched = ckm_i_malloc(n, sizeof *g->touched);
    g->written = ckm_i_malloc(n, sizeof *g->written);
    g->members_at = ckm_i_calloc(n + 1, sizeof *g->members_at);
    g->members = ckm_i_malloc(n, sizeof *g->members);
    g->live = ckm_i_calloc(n, sizeof *g->live);
    g->travels = ckm_i_calloc(n, sizeof *g->travels);
    g->away = ckm_i_calloc(n, sizeof *g->away);
    g->stored = ckm_i_calloc(n, sizeof *g->stored);
    return g->in_use != NULL && g->touched != NULL && g->written != NULL && g->members_at != NULL &&
                   g->members != NULL && g->live != NULL && g->travels != NULL && g->away != NULL && g->stored != NULL
               ? CKM_OK
               : ckm_i_error_memory(g->err);
}

ckm_status ckm_i_moves_greedy(const ckm_dataflow *df, const bool *can, int64_t budget_bytes, bool *moved,
                              ckm_schedule **out, ckm_schedule **lowered, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *plain = NULL;
    ckm_simulation facts;
    greedy g = {.df = df, .can = can, .moved = moved, .err = err};
    CKM_I_TRY(ckm_schedule_baseline(df, &plain, err));
    g.plain = plain;
    CKM_I_TRY(make_room(&g));
    for (int32_t x = 0; x < df->n_tensors; x++) {
        moved[x] = false;
    }
    ckm_i_dataflow_members(df, g.members_at, g.members);
    CKM_I_TRY(ckm_schedule_simulate(df, plain, g.in_use, &facts, err));
    CKM_I_TRY(find_rests(&g));
    if (!choose(&g, budget_bytes)) {
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_create(&g.to, err));
    CKM_I_TRY(ckm_schedule_create(&g.lowered, err));
    CKM_I_TRY(build(&g));
    *out = g.to;
    g.to = NULL;
    if (lowered != NULL) {
        *lowered = g.lowered;
        g.lowered = NULL;
    }
cleanup:
    ckm_schedule_free(plain);
    ckm_schedule_free(g.to);
    ckm_schedule_free(g.lowered);
    free(g.in_use);
    free(g.rests);
    free(g.touched);
    free(g.written);
    free(g.members_at);
    free(g.members);
    free(g.live);
    free(g.travels);
    free(g.away);
    free(g.stored);
    return status;
}
