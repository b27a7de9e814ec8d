// SPDX-License-Identifier: Apache-2.0
// One training step: the calls, one after the other.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "run/session/session.h"

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
            hash = hash * 31 + ckm_i_session_fingerprint(values, bytes);
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

static ckm_status run_calls(ckm_session *session, int64_t step, double learning_rate, int64_t *mismatches,
                            ckm_error *err)
{
    ckm_i_backend *backend = session->program->backend;
    CKM_I_CHECK(mark(session, 0, err));
    for (int64_t i = 0; i < session->n_calls; i++) {
        ckm_i_bound_call *bound = &session->calls[i];
        bound->call.seed = session->seed;
        bound->call.step = step;
        bound->call.learning_rate = learning_rate;
        CKM_I_CHECK(backend->run(backend, bound->kernel, &bound->call, err));
        CKM_I_CHECK(mark(session, i + 1, err));
        if (session->trace != NULL) {
            CKM_I_CHECK(trace_call(session, &bound->call, mismatches, err));
        }
    }
    return backend->memory->synchronize(backend, err);
}

ckm_status ckm_session_step(ckm_session *session, int64_t step, double learning_rate, ckm_step_result *out,
                            ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(out, err);
    ckm_step_result result = {.loss = NAN, .correct = -1};
    double start = ckm_i_clock_seconds();
    start_trace(session);
    CKM_I_CHECK(run_calls(session, step, learning_rate, &result.mismatches, err));
    result.seconds = ckm_i_clock_seconds() - start;
    for (int64_t i = 0; session->marks != NULL && i < session->n_calls; i++) {
        session->call_nanoseconds[i] = session->marks[i + 1] - session->marks[i];
    }
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
