// SPDX-License-Identifier: Apache-2.0
// Transfers bound to addresses and to places in the second memory, and run between the calls of a step.
#include "run/session/session_moves.h"

#include <math.h>
#include <stdlib.h>

#include "base/align.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "dataflow/dataflow.h"
#include "plan/plan.h"
#include "schedule/schedule.h"

// Copies in the second memory: by storage its slot, or -1; by slot the steps in which the copy is there, and the move that began last.
typedef struct places {
    int32_t n;
    int32_t *slot_of;
    ckm_i_plan_packing packing;
    int64_t *begun;
} places;

static bool is_move(ckm_step_kind kind)
{
    return kind != CKM_STEP_COMPUTE && kind != CKM_STEP_FREE;
}

// A slot for every storage that is moved, with the steps in which its copy is there: until it has come back for the last time.
static ckm_status find_slots(const ckm_dataflow *df, const ckm_schedule *s, int64_t alignment, places *p,
                             ckm_error *err)
{
    int64_t n_steps = ckm_schedule_step_count(s);
    p->slot_of = ckm_i_malloc((size_t)df->n_tensors, sizeof *p->slot_of);
    p->packing.buffers = ckm_i_calloc((size_t)ckm_schedule_transfer_count(s), sizeof *p->packing.buffers);
    p->begun = ckm_i_calloc((size_t)ckm_schedule_transfer_count(s), sizeof *p->begun);
    if (p->slot_of == NULL || p->packing.buffers == NULL || p->begun == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t x = 0; x < df->n_tensors; x++) {
        p->slot_of[x] = -1;
    }
    for (int64_t at = 0; at < n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        if (!is_move(step.kind)) {
            continue;
        }
        if (ckm_i_is_loaded(df, step.index)) {
            return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "\"%.100s\" is loaded, which a session cannot do yet",
                               df->tensors[step.index].name);
        }
        if (p->slot_of[step.index] < 0) {
            ckm_i_plan_buffer *copy = &p->packing.buffers[p->n];
            p->slot_of[step.index] = p->n++;
            *copy = (ckm_i_plan_buffer){.first = at, .last = n_steps - 1};
            if (!ckm_i_round_up(df->tensors[step.index].bytes, alignment, &copy->bytes)) {
                return ckm_i_error(err, CKM_ERR_OVERFLOW, "a copy's size does not fit 63 bits");
            }
        }
    }
    for (int64_t at = 0; at < n_steps; at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        if (step.kind == CKM_STEP_WAIT_IN) {
            p->packing.buffers[p->slot_of[step.index]].last = at;
        }
    }
    p->packing.n = p->n;
    return CKM_OK;
}

// Where in the second memory every copy lies.
static ckm_status place(const ckm_dataflow *df, const ckm_schedule *s, int64_t alignment, places *p, ckm_error *err)
{
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    options.alignment = alignment;
    CKM_I_CHECK(find_slots(df, s, alignment, p, err));
    return ckm_i_plan_pack(&p->packing, &options, err);
}

static void bind(ckm_session *session, const ckm_dataflow *df, const ckm_plan *plan, const places *p, int64_t at,
                 const ckm_step *step, int64_t before)
{
    int64_t index = session->n_moves++;
    ckm_i_move *move = &session->moves[index];
    int32_t slot = p->slot_of[step->index];
    int32_t instance = -1;
    bool out = step->kind == CKM_STEP_OUT;
    *move = (ckm_i_move){.before = before, .kind = step->kind, .begun_by = p->begun[slot]};
    move->what = (ckm_i_transfer){slot, NULL, p->packing.buffers[slot].offset, df->tensors[step->index].bytes};
    if (out || step->kind == CKM_STEP_IN) {
        p->begun[slot] = index;
        move->begun_by = -1;
        ckm_plan_get_step(plan, at, out ? &instance : NULL, out ? NULL : &instance, NULL);
        move->what.address = session->region + session->arena_at + ckm_plan_get_instance(plan, instance).offset;
        int64_t bytes = out ? move->what.bytes : ckm_i_bytes_in(df, step->index);
        int64_t cost = 0;
        if (ckm_i_transfer_cost(df, bytes, out, &cost)) {
            move->cost_ns = df->cost_unit == CKM_COST_US && cost < INT64_MAX / 1000 ? cost * 1000 : cost;
        }
        *(out ? &session->transferred.out_bytes : &session->transferred.in_bytes) += move->what.bytes;
        *(out ? &session->transferred.moves_out : &session->transferred.moves_in) += 1;
    }
}

static ckm_status open_second(ckm_session *session, const places *p, ckm_error *err)
{
    ckm_program *program = session->program;
    const ckm_i_second_memory *second = program->backend->memory->second;
    CKM_I_CHECK(
        second->open(program->backend, program->second_memory, p->packing.arena_bytes, p->n, &session->transfers, err));
    session->transferred.file_bytes = p->packing.arena_bytes;
    session->transferred.direct = session->transfers->direct;
    session->transferred.concurrent = session->transfers->concurrent;
    session->transferred.in_memory = session->transfers->in_memory;
    return CKM_OK;
}

static ckm_status check_program(const ckm_program *program, ckm_error *err)
{
    if (program->second_memory == NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "the schedule moves tensors to a second memory, and the program has none: its options name "
                           "a folder for that (`second_memory`)");
    }
    return program->backend->memory->second != NULL
               ? CKM_OK
               : ckm_i_error(err, CKM_ERR_UNSUPPORTED, "back end \"%.60s\" has no second memory to move tensors to",
                             program->backend->name);
}

ckm_status ckm_i_session_bind_moves(ckm_session *session, const ckm_dataflow *df, const ckm_schedule *s,
                                    const ckm_plan *plan, ckm_error *err)
{
    const ckm_program *program = session->program;
    places p = {.n = 0};
    int64_t before = 0;
    ckm_status status = CKM_OK;
    if (ckm_schedule_transfer_count(s) == 0) {
        return CKM_OK;
    }
    CKM_I_CHECK(check_program(program, err));
    session->moves = ckm_i_calloc((size_t)ckm_schedule_transfer_count(s), sizeof *session->moves);
    if (session->moves == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(place(df, s, program->backend->memory->second->alignment, &p, err));
    for (int64_t at = 0; at < ckm_schedule_step_count(s); at++) {
        ckm_step step = ckm_schedule_get_step(s, at);
        if (is_move(step.kind)) {
            bind(session, df, plan, &p, at, &step, before);
        }
        before += step.kind == CKM_STEP_COMPUTE && program->kernels[step.index] != NULL;
    }
    CKM_I_TRY(open_second(session, &p, err));
cleanup:
    free(p.slot_of);
    free(p.packing.buffers);
    free(p.begun);
    return status;
}

void ckm_i_session_free_moves(ckm_session *session)
{
    if (session->transfers != NULL) {
        session->transfers->close(session->transfers);
    }
    free(session->moves);
}

int64_t ckm_i_session_move_bytes(const ckm_program *program, const ckm_schedule *s)
{
    const ckm_i_second_memory *second = program->backend->memory->second;
    int64_t n = ckm_schedule_transfer_count(s);
    // A storage that is moved has two steps at the least.
    return n * (int64_t)sizeof(ckm_i_move) + (second != NULL ? n / 2 * second->slot_bytes : 0);
}

ckm_status ckm_i_session_run_moves(ckm_session *session, int64_t *at, int64_t call, ckm_error *err)
{
    ckm_i_transfers *t = session->transfers;
    for (; *at < session->n_moves && session->moves[*at].before == call; ++*at) {
        ckm_i_move *move = &session->moves[*at];
        double start = ckm_i_clock_seconds();
        bool waits = move->kind == CKM_STEP_WAIT_OUT || move->kind == CKM_STEP_WAIT_IN;
        CKM_I_CHECK(waits ? t->wait(t, move->what.slot, err)
                          : t->begin(t, &move->what, move->kind == CKM_STEP_OUT, err));
        double took = ckm_i_clock_seconds() - start;
        move->nanoseconds = (int64_t)(took * 1e9);
        session->transferred.waited_seconds += took;
    }
    return CKM_OK;
}

void ckm_i_session_settle_moves(ckm_session *session)
{
    if (session->transfers != NULL) {
        session->transfers->settle(session->transfers);
    }
}

double ckm_i_session_makespan(ckm_session *session, const double *seconds_by_op)
{
    double now = 0.0;
    double free_at[2] = {0.0, 0.0};
    int64_t at = 0;
    for (int64_t c = 0; c <= session->n_calls; c++) {
        for (; at < session->n_moves && session->moves[at].before == c; at++) {
            ckm_i_move *move = &session->moves[at];
            if (move->begun_by < 0) {
                double *link = &free_at[move->kind == CKM_STEP_IN];
                *link = fmax(*link, now) + (double)move->cost_ns * 1e-9;
                move->ends = *link;
            } else {
                now = fmax(now, session->moves[move->begun_by].ends);
            }
        }
        now += c < session->n_calls ? seconds_by_op[session->calls[c].call.op] : 0.0;
    }
    return now;
}

ckm_session_transfers ckm_session_get_transfers(const ckm_session *session)
{
    return session != NULL ? session->transferred : (ckm_session_transfers){0};
}
