// SPDX-License-Identifier: Apache-2.0
// A game played forwards: every state is got into memory the way that is known to fit, while what earlier plays have left
// stays as long as there is room, and is not computed again.
#include "solve/floor/pebbling_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compare.h"
#include "base/error.h"
#include "schedule/schedule_order.h"

typedef enum task_kind {
    PLAY,     // all members of a state into memory, locked
    PLAY_OP,  // those outputs of an operator that are in a state
    STEP      // runs it; what it needed is let go
} task_kind;

typedef struct task {
    task_kind kind;
    int32_t state;  // what is locked afterwards; -1: nothing
    int32_t op;     // PLAY_OP, STEP
    int32_t from;   // STEP: the state that was locked for it
    bool alone;     // STEP: of `state`, only the operator's outputs are locked
} task;

typedef struct player {
    ckm_i_pebbling *p;
    ckm_i_play_memory m;
    ckm_i_play_manner manner;
    int64_t work_end;
    bool (*stop)(void *context);
    void *context;
    bool failed;
    bool *has_run;  // by operator
    int32_t *runs;  // by operator
    bool *in_core;  // by slot
    int32_t *slots, *next;
    int32_t *pass, n_pass;  // operators computed one after the other
    bool *in_pass;          // by operator
    int32_t *readers;       // by tensor: in the pass
    int32_t *order;
    int64_t n_order, cap_order;
    task *tasks;
    int64_t n_tasks, cap_tasks;
} player;

static ckm_status push(player *q, task t, ckm_error *err)
{
    if (!CKM_I_GROW(q->tasks, q->n_tasks, q->cap_tasks)) {
        return ckm_i_error_memory(err);
    }
    q->tasks[q->n_tasks++] = t;
    return CKM_OK;
}

static const int32_t *members_of(const player *q, int32_t state, int32_t *n)
{
    *n = state >= 0 ? q->p->states[state].n : 0;
    return state >= 0 ? q->p->arena + q->p->states[state].at : NULL;
}

// Locks (by 1) or lets go of (by -1) the members of a state, all or only those that operator `only` makes, or all but those.
static void lock_members(player *q, int32_t state, int32_t op, bool of_op, int32_t by)
{
    int32_t n = 0;
    const int32_t *slots = members_of(q, state, &n);
    for (int32_t i = 0; i < n; i++) {
        if (op < 0 || (q->p->op_of[slots[i]] == op) == of_op) {
            ckm_i_play_lock(&q->m, q->p->tensor_of[slots[i]], by);
        }
    }
}

static bool all_live(const player *q, int32_t state, int32_t op)
{
    int32_t n = 0;
    const int32_t *slots = members_of(q, state, &n);
    for (int32_t i = 0; i < n; i++) {
        if ((op < 0 || q->p->op_of[slots[i]] == op) && !q->m.live[q->p->tensor_of[slots[i]]]) {
            return false;
        }
    }
    return true;
}

static ckm_status run_op(player *q, int32_t v, ckm_error *err)
{
    const ckm_i_dataflow_op *op = &q->p->df->ops[v];
    if (!op->recomputable && q->has_run[v]) {
        return CKM_OK;  // what it made is held for good
    }
    if (!CKM_I_GROW(q->order, q->n_order, q->cap_order)) {
        return ckm_i_error_memory(err);
    }
    q->failed = !ckm_i_play_run(&q->m, v);
    q->p->work += q->m.work + op->n_inputs + op->n_outputs;
    q->m.work = 0;
    if (q->failed) {
        return CKM_OK;
    }
    q->order[q->n_order++] = v;
    q->has_run[v] = true;
    for (int32_t i = 0; i < op->n_outputs && !op->recomputable; i++) {
        ckm_i_play_lock(&q->m, op->outputs[i], 1);
    }
    return CKM_OK;
}

static ckm_status step(player *q, const task *t, ckm_error *err)
{
    if (!t->alone) {
        lock_members(q, t->state, t->op, false, 1);
    }
    lock_members(q, t->from, -1, false, -1);
    CKM_I_CHECK(run_op(q, t->op, err));
    if (!q->failed) {
        lock_members(q, t->state, t->op, true, 1);
    }
    return CKM_OK;
}

// One operator's outputs, from nothing.
static ckm_status play_op(player *q, const task *t, ckm_error *err)
{
    ckm_i_pebbling *p = q->p;
    int32_t from = -1;
    if (q->has_run[t->op] && all_live(q, t->state, t->op)) {
        lock_members(q, t->state, t->op, true, 1);
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_pebbling_intern(p, p->needs + p->needs_at[t->op], p->needs_at[t->op + 1] - p->needs_at[t->op],
                                      &from, err));
    CKM_I_CHECK(push(q, (task){STEP, t->state, t->op, from, true}, err));
    return push(q, (task){.kind = PLAY, .state = from}, err);
}

// The members that are not in the core, in the order in which they can be computed last, each while the rest is held: late
// operators first where there is a choice, so that what they have been made from is used before it is lost.
static ckm_status push_dropped(player *q, int32_t state, int32_t core, ckm_error *err)
{
    ckm_i_pebbling *p = q->p;
    int32_t n = p->states[state].n;
    int32_t n_core = 0;
    const int32_t *core_slots = members_of(q, core, &n_core);
    int64_t budget = q->m.budget_bytes - q->m.locked_bytes;
    budget = budget > p->states[state].high_bytes ? budget : p->states[state].high_bytes;
    memcpy(q->slots, p->arena + p->states[state].at, (size_t)n * sizeof *q->slots);
    for (int32_t i = 0; i < n_core; i++) {
        q->in_core[core_slots[i]] = true;
    }
    for (int32_t i = 0; i < n; i++) {
        ckm_i_pebbling_add(p, q->slots[i]);
    }
    ckm_status status = CKM_OK;
    int32_t left = n - n_core;
    bool changed = true;
    while (left > 0 && changed) {
        changed = false;
        for (int32_t end = n; end > 0 && !changed;) {
            int32_t v = p->op_of[q->slots[end - 1]];
            int32_t begin = end;
            int32_t here = 0;
            while (begin > 0 && p->op_of[q->slots[begin - 1]] == v) {
                begin--;
                here += p->is_in[q->slots[begin]] && !q->in_core[q->slots[begin]];
            }
            for (int32_t i = begin; i < end && here > 0; i++) {
                if (p->is_in[q->slots[i]]) {
                    ckm_i_pebbling_remove(p, q->slots[i]);
                }
            }
            changed = here > 0 && p->high_bytes[v] <= budget - p->bytes;
            for (int32_t i = begin; i < end && here > 0 && !changed; i++) {
                ckm_i_pebbling_add(p, q->slots[i]);
            }
            if (changed) {
                left -= here;
                CKM_I_TRY(push(q, (task){.kind = PLAY_OP, .state = state, .op = v}, err));
            }
            end = begin;
        }
        p->work += n;
    }
    q->failed = q->failed || left > 0;
cleanup:
    for (int32_t i = 0; i < n; i++) {
        q->in_core[q->slots[i]] = false;
        if (p->is_in[q->slots[i]]) {
            ckm_i_pebbling_remove(p, q->slots[i]);
        }
    }
    return status;
}

// What has to run for the missing members of a state when everything is computed once, in the graph's order: to q->pass,
// with the readers of every tensor among them (and the state) in q->readers.
static void find_pass(player *q, int32_t state)
{
    const ckm_i_pebbling *p = q->p;
    const ckm_dataflow *df = p->df;
    int32_t n = 0;
    const int32_t *slots = members_of(q, state, &n);
    q->n_pass = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t x = p->tensor_of[slots[i]];
        int32_t v = df->tensors[x].producer;
        q->readers[x]++;
        if (!q->m.live[x] && !q->in_pass[v]) {
            q->in_pass[v] = true;
            q->pass[q->n_pass++] = v;
        }
    }
    for (int32_t k = 0; k < q->n_pass; k++) {
        const ckm_i_dataflow_op *op = &df->ops[q->pass[k]];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t x = op->inputs[i];
            int32_t u = df->tensors[x].producer;
            q->readers[x]++;
            if (!q->m.live[x] && !q->in_pass[u]) {
                q->in_pass[u] = true;
                q->pass[q->n_pass++] = u;
            }
        }
    }
    qsort(q->pass, (size_t)q->n_pass, sizeof *q->pass, ckm_i_compare_int32);
    q->p->work += n + 2 * (int64_t)q->n_pass;
}

// Locks what is read of what is in memory already, or lets go of it.
static void lock_sources(player *q, int32_t state, int32_t by)
{
    const ckm_dataflow *df = q->p->df;
    int32_t n = 0;
    const int32_t *slots = members_of(q, state, &n);
    for (int32_t i = 0; i < n; i++) {
        int32_t x = q->p->tensor_of[slots[i]];
        if (!q->in_pass[df->tensors[x].producer]) {
            ckm_i_play_lock(&q->m, x, by);
        }
    }
    for (int32_t k = 0; k < q->n_pass; k++) {
        const ckm_i_dataflow_op *op = &df->ops[q->pass[k]];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            int32_t u = df->tensors[op->inputs[i]].producer;
            if (u >= 0 && !q->in_pass[u]) {
                ckm_i_play_lock(&q->m, op->inputs[i], by);
            }
        }
    }
}

// Goes through the pass, in earnest or only to see whether there is room; what the state needs is locked at the end, each
// once. *fits: there was.
static ckm_status go_through(player *q, bool in_earnest, bool *fits, int32_t *n_done, ckm_error *err)
{
    const ckm_dataflow *df = q->p->df;
    bool room = true;
    *n_done = 0;
    for (int32_t k = 0; k < q->n_pass && room; k++) {
        int32_t v = q->pass[k];
        const ckm_i_dataflow_op *op = &df->ops[v];
        if (in_earnest) {
            CKM_I_CHECK(run_op(q, v, err));
            room = !q->failed;
        }
        // An output is locked once for each reader, so that what is never read is not locked at all.
        int64_t unread = 0;
        for (int32_t i = 0; i < op->n_outputs && room; i++) {
            int32_t x = op->outputs[i];
            if (q->readers[x] > 0) {
                ckm_i_play_lock(&q->m, x, q->readers[x]);
            } else {
                unread += df->tensors[x].pinned ? 0 : df->tensors[df->tensors[x].storage].bytes;
            }
        }
        room = room && df->resident_bytes + q->m.locked_bytes + unread + op->workspace_bytes <= q->m.budget_bytes;
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (df->tensors[op->inputs[i]].producer >= 0) {
                ckm_i_play_lock(&q->m, op->inputs[i], -1);
            }
        }
        *n_done = k + 1;
    }
    *fits = room;
    return CKM_OK;
}

// Undoes the locks of a pass that was only tried, the first n_done operators of it.
static void let_go(player *q, int32_t state, int32_t n_done)
{
    const ckm_dataflow *df = q->p->df;
    for (int32_t k = n_done - 1; k >= 0; k--) {
        const ckm_i_dataflow_op *op = &df->ops[q->pass[k]];
        for (int32_t i = 0; i < op->n_inputs; i++) {
            if (df->tensors[op->inputs[i]].producer >= 0) {
                ckm_i_play_lock(&q->m, op->inputs[i], 1);
            }
        }
        for (int32_t i = 0; i < op->n_outputs; i++) {
            if (q->readers[op->outputs[i]] > 0) {
                ckm_i_play_lock(&q->m, op->outputs[i], -q->readers[op->outputs[i]]);
            }
        }
    }
    lock_sources(q, state, -1);
}

// Where there is room for it, what is missing is computed in one pass from what is in memory, each operator once.
static ckm_status play_straight(player *q, int32_t state, bool *done, ckm_error *err)
{
    const ckm_dataflow *df = q->p->df;
    ckm_status status = CKM_OK;
    int32_t n = 0;
    int32_t n_done = 0;
    const int32_t *slots = members_of(q, state, &n);
    find_pass(q, state);
    lock_sources(q, state, 1);
    CKM_I_TRY(go_through(q, false, done, &n_done, err));
    let_go(q, state, n_done);
    if (*done) {
        lock_sources(q, state, 1);
        bool fits = false;
        CKM_I_TRY(go_through(q, true, &fits, &n_done, err));
        q->failed = q->failed || !fits;
    }
cleanup:
    for (int32_t i = 0; i < n; i++) {
        q->readers[q->p->tensor_of[slots[i]]] = 0;
    }
    for (int32_t k = 0; k < q->n_pass; k++) {
        const ckm_i_dataflow_op *op = &df->ops[q->pass[k]];
        q->in_pass[q->pass[k]] = false;
        for (int32_t i = 0; i < op->n_inputs; i++) {
            q->readers[op->inputs[i]] = 0;
        }
    }
    return status;
}

// Whether the state can be reached over its latest operator, from members that can be computed one by one: then nothing
// is computed for one of them that another has been made from.
static ckm_status play_latest(player *q, int32_t state, bool *done, ckm_error *err)
{
    ckm_i_pebbling *p = q->p;
    int32_t n = p->states[state].n;
    int32_t to = -1;
    int64_t budget = q->m.budget_bytes - q->m.locked_bytes;
    memcpy(q->slots, p->arena + p->states[state].at, (size_t)n * sizeof *q->slots);
    int32_t v = p->op_of[q->slots[n - 1]];
    for (int32_t i = 0; i < n; i++) {
        ckm_i_pebbling_add(p, q->slots[i]);
    }
    bool fits = ckm_i_pebbling_go_back(p, v, q->slots, n) <= budget;
    int32_t n_next = ckm_i_pebbling_members(p, q->slots, n, q->next);
    ckm_i_pebbling_undo(p);
    for (int32_t i = 0; i < n; i++) {
        ckm_i_pebbling_remove(p, q->slots[i]);
    }
    p->work += n;
    *done = false;
    if (!fits) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_pebbling_intern(p, q->next, n_next, &to, err));
    if (p->states[to].high_bytes > budget) {
        for (int32_t i = 0; i < n_next; i++) {
            ckm_i_pebbling_add(p, q->next[i]);
        }
        int32_t left = ckm_i_pebbling_drop(p, q->next, n_next, budget);
        for (int32_t i = 0; i < left; i++) {
            ckm_i_pebbling_remove(p, q->next[i]);
        }
        if (left > 0) {
            return CKM_OK;
        }
        ckm_i_pebbling_note(p, to, budget, -1, -1);
    }
    *done = true;
    CKM_I_CHECK(push(q, (task){STEP, state, v, to, false}, err));
    return push(q, (task){.kind = PLAY, .state = to}, err);
}

static ckm_status play_state(player *q, int32_t state, ckm_error *err)
{
    const ckm_i_pebbling_state *s = &q->p->states[state];
    int64_t high_bytes = s->high_bytes;
    int32_t via = s->via;
    int32_t to = s->to;
    q->p->work += s->n + 1;
    if (all_live(q, state, -1)) {
        lock_members(q, state, -1, false, 1);
        return CKM_OK;
    }
    bool done = false;
    if (q->manner != CKM_I_PLAY_KNOWN) {
        CKM_I_CHECK(play_straight(q, state, &done, err));
        if (done) {
            return CKM_OK;
        }
    }
    if (q->manner == CKM_I_PLAY_LATE) {
        CKM_I_CHECK(play_latest(q, state, &done, err));
        if (done) {
            return CKM_OK;
        }
    }
    if (high_bytes == INT64_MAX) {
        q->failed = true;
        return CKM_OK;
    }
    if (via >= 0) {
        CKM_I_CHECK(push(q, (task){STEP, state, via, to, false}, err));
        return push(q, (task){.kind = PLAY, .state = to}, err);
    }
    CKM_I_CHECK(push_dropped(q, state, to, err));
    return to >= 0 && !q->failed ? push(q, (task){.kind = PLAY, .state = to}, err) : CKM_OK;
}

static ckm_status run_tasks(player *q, ckm_error *err)
{
    while (q->n_tasks > 0 && !q->failed) {
        task t = q->tasks[--q->n_tasks];
        switch (t.kind) {
        case PLAY:
            CKM_I_CHECK(play_state(q, t.state, err));
            break;
        case PLAY_OP:
            CKM_I_CHECK(play_op(q, &t, err));
            break;
        case STEP:
            CKM_I_CHECK(step(q, &t, err));
            break;
        }
        q->failed = q->failed || q->p->work > q->work_end || (q->stop != NULL && q->stop(q->context));
    }
    return CKM_OK;
}

static ckm_status results_state(player *q, int32_t *state, ckm_error *err)
{
    const ckm_i_pebbling *p = q->p;
    int32_t n = 0;
    for (int32_t s = 0; s < p->n_slots; s++) {
        if (p->df->tensors[p->tensor_of[s]].is_result) {
            q->slots[n++] = s;
        }
    }
    return ckm_i_pebbling_intern(q->p, q->slots, n, state, err);
}

// Every operator in the graph's order, each game played to its end before the next; then the results that are no longer there.
// So all that a game goes back over has run before.
static ckm_status play_all(player *q, ckm_error *err)
{
    int32_t results = -1;
    ckm_i_play_memory_reset(&q->m);
    q->n_order = 0;
    q->n_tasks = 0;
    q->failed = false;
    memset(q->has_run, 0, (size_t)q->p->df->n_ops * sizeof *q->has_run);
    CKM_I_CHECK(results_state(q, &results, err));
    for (int32_t v = 0; v < q->p->df->n_ops && !q->failed; v++) {
        CKM_I_CHECK(push(q, (task){.kind = PLAY_OP, .state = -1, .op = v}, err));
        CKM_I_CHECK(run_tasks(q, err));
    }
    if (!q->failed) {
        CKM_I_CHECK(push(q, (task){.kind = PLAY, .state = results}, err));
        CKM_I_CHECK(run_tasks(q, err));
    }
    return CKM_OK;
}

ckm_status ckm_i_pebbling_schedule(ckm_i_pebbling *p, ckm_i_play_manner manner, int64_t budget_bytes, int64_t work,
                                   bool (*stop)(void *context), void *context, ckm_schedule **out, ckm_error *err)
{
    const ckm_dataflow *df = p->df;
    ckm_status status = CKM_OK;
    *out = NULL;
    player q = {
        .p = p,
        .manner = manner,
        .stop = stop,
        .context = context,
        .has_run = ckm_i_calloc((size_t)df->n_ops, sizeof *q.has_run),
        .runs = ckm_i_calloc((size_t)df->n_ops, sizeof *q.runs),
        .next = ckm_i_malloc((size_t)p->n_slots, sizeof *q.next),
        .pass = ckm_i_malloc((size_t)df->n_ops, sizeof *q.pass),
        .in_pass = ckm_i_calloc((size_t)df->n_ops, sizeof *q.in_pass),
        .readers = ckm_i_calloc((size_t)df->n_tensors, sizeof *q.readers),
        .in_core = ckm_i_calloc((size_t)p->n_slots, sizeof *q.in_core),
        .slots = ckm_i_malloc((size_t)p->n_slots, sizeof *q.slots),
    };
    if (q.has_run == NULL || q.runs == NULL || q.next == NULL || q.pass == NULL || q.in_pass == NULL ||
        q.readers == NULL || q.in_core == NULL || q.slots == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_play_memory_init(&q.m, df, budget_bytes, err));
    q.work_end = p->work + work;
    CKM_I_TRY(play_all(&q, err));
    if (!q.failed) {
        q.n_order = ckm_i_play_without_idle_runs(df, q.order, q.n_order, q.m.live, q.runs);
        CKM_I_TRY(ckm_i_schedule_from_order(df, q.order, q.n_order, out, err));
    }
cleanup:
    ckm_i_play_memory_dispose(&q.m);
    free(q.has_run);
    free(q.runs);
    free(q.next);
    free(q.pass);
    free(q.in_pass);
    free(q.readers);
    free(q.in_core);
    free(q.slots);
    free(q.order);
    free(q.tasks);
    return status;
}
