// SPDX-License-Identifier: Apache-2.0
// One training step: the calls, one after the other.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fingerprint.h"
#include "run/session/session.h"
#include "run/session/session_moves.h"

// Compares the outputs of a computation with those of the operator's first one in this step.
static ckm_status trace_call(ckm_session *session, const ckm_i_kernel_call *call, int64_t *mismatches, ckm_error *err)
{
    const ckm_graph *step = session->program->training->step;
    const ckm_i_graph_op *op = &step->ops[call->op];
    ckm_i_trace *trace = &session->trace[call->op];
    uint64_t hash = 0;
    for (int32_t k = 0; k < op->n_outputs; k++) {
        if (call->outputs[k] != NULL) {
            const void *values = NULL;
            int64_t bytes = ckm_i_session_value_bytes(step, op->outputs[k]);
            CKM_I_CHECK(ckm_i_session_look(session, call->outputs[k], bytes, &values, err));
            hash = hash * 31 + ckm_i_fingerprint(values, bytes);
        }
    }
    if (trace->seen && trace->fingerprint != hash) {
        session->first_mismatch = session->first_mismatch < 0 ? call->op : session->first_mismatch;
        ++*mismatches;
        return CKM_OK;
    }
    *trace = (ckm_i_trace){hash, true};
    return CKM_OK;
}

static void start_trace(ckm_session *session)
{
    for (int32_t v = 0; session->trace != NULL && v < session->program->n_ops; v++) {
        session->trace[v].seen = false;
    }
}

static ckm_status mark(ckm_session *session, int64_t i, ckm_error *err)
{
    ckm_i_backend *backend = session->program->backend;
    return session->marks != NULL ? backend->memory->mark(backend, &session->marks[i], err) : CKM_OK;
}

typedef ckm_status (*state_fn)(ckm_i_exchange *x, void *state, int64_t bytes, ckm_error *err);

static ckm_status give_state(ckm_i_exchange *x, void *state, int64_t bytes, ckm_error *err)
{
    return x->give_state(x, state, bytes, err);
}

// `what` with every state that a call moves. Where it does not compute them for the first time it leaves them alone.
static ckm_status each_state(const ckm_session *session, const ckm_i_bound_call *bound, ckm_i_exchange *x,
                             state_fn what, ckm_error *err)
{
    const ckm_graph *step = session->program->training->step;
    const ckm_i_graph_op *op = &step->ops[bound->call.op];
    for (int32_t k = 0; k < op->n_inputs && x != NULL && bound->moves_states && bound->call.first; k++) {
        if (op->inputs[k] >= 0 && step->tensors[op->inputs[k]].role == CKM_ROLE_STATE) {
            void **inputs = &session->pointers[bound->call.inputs - (const void *const *)session->pointers];
            CKM_I_CHECK(what(x, inputs[k], ckm_i_session_value_bytes(step, op->inputs[k]), err));
        }
    }
    return CKM_OK;
}

static ckm_status run_call(ckm_session *session, ckm_i_bound_call *bound, const ckm_i_step_part *part, ckm_error *err)
{
    ckm_i_backend *backend = session->program->backend;
    ckm_i_exchange *x = part->exchange;
    bound->call.seed = session->seed;
    bound->call.step = part->step;
    bound->call.batch = part->batch;
    bound->call.part = part->part;
    bound->call.parts = part->parts;
    bound->call.learning_rate = part->learning_rate;
    bound->call.exchange = x;
    if (bound->updates && part->part < part->parts - 1) {
        return CKM_OK;
    }
    if (x != NULL) {
        CKM_I_CHECK(each_state(session, bound, x, x->take_state, err));
    }
    CKM_I_CHECK(backend->run(backend, bound->kernel, &bound->call, err));
    CKM_I_CHECK(each_state(session, bound, x, give_state, err));
    return x != NULL ? x->advance(x, err) : CKM_OK;
}

// All ranks get the running statistics of the last one, and all transfers under way end.
static ckm_status end_exchange(const ckm_session *session, ckm_i_exchange *x, ckm_error *err)
{
    if (x == NULL) {
        return CKM_OK;
    }
    for (int64_t i = 0; i < session->n_calls; i++) {
        CKM_I_CHECK(each_state(session, &session->calls[i], x, x->share_state, err));
    }
    return x->finish(x, err);
}

static ckm_status run_calls(ckm_session *session, const ckm_i_step_part *part, int64_t *mismatches, ckm_error *err)
{
    ckm_i_backend *backend = session->program->backend;
    int64_t move = 0;
    CKM_I_CHECK(mark(session, 0, err));
    for (int64_t i = 0; i < session->n_calls; i++) {
        ckm_i_bound_call *bound = &session->calls[i];
        if (session->stop != NULL && session->stop(session->stop_user)) {
            return ckm_i_error(err, CKM_ERR_STOPPED, "stopped in the middle of a step");
        }
        CKM_I_CHECK(ckm_i_session_run_moves(session, &move, i, err));
        CKM_I_CHECK(run_call(session, bound, part, err));
        CKM_I_CHECK(mark(session, i + 1, err));
        if (session->trace != NULL) {
            CKM_I_CHECK(trace_call(session, &bound->call, mismatches, err));
        }
    }
    CKM_I_CHECK(ckm_i_session_run_moves(session, &move, session->n_calls, err));
    CKM_I_CHECK(end_exchange(session, part->exchange, err));
    return backend->memory->synchronize(backend, err);
}

// What the calls of the step took, without the transfers before them.
static void note_times(ckm_session *session)
{
    for (int64_t i = 0; session->marks != NULL && i < session->n_calls; i++) {
        session->call_nanoseconds[i] = session->marks[i + 1] - session->marks[i];
    }
    for (int64_t k = 0; session->marks != NULL && k < session->n_moves; k++) {
        if (session->moves[k].before < session->n_calls) {
            session->call_nanoseconds[session->moves[k].before] -= session->moves[k].nanoseconds;
        }
    }
}

ckm_status ckm_i_session_step_part(ckm_session *session, const ckm_i_step_part *part, ckm_step_result *out,
                                   ckm_error *err)
{
    ckm_step_result result = {.loss = NAN, .correct = -1};
    double start = ckm_i_clock_seconds();
    start_trace(session);
    ckm_status status = run_calls(session, part, &result.mismatches, err);
    if (status != CKM_OK) {
        ckm_i_session_settle_moves(session);
        return status;
    }
    result.seconds = ckm_i_clock_seconds() - start;
    note_times(session);
    if (session->loss >= 0) {
        float loss = 0;
        CKM_I_CHECK(ckm_session_read(session, session->loss, 0, sizeof loss, &loss, err));
        result.loss = (double)loss;
    }
    if (session->correct >= 0) {
        int32_t correct = 0;
        CKM_I_CHECK(ckm_session_read(session, session->correct, 0, sizeof correct, &correct, err));
        result.correct = correct;
    }
    *out = result;
    return CKM_OK;
}

ckm_status ckm_session_step(ckm_session *session, int64_t step, double learning_rate, ckm_step_result *out,
                            ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(out, err);
    const ckm_i_step_part whole = {.step = step, .batch = step, .parts = 1, .learning_rate = learning_rate};
    return ckm_i_session_step_part(session, &whole, out, err);
}
