// SPDX-License-Identifier: Apache-2.0
// One training step: the calls, one after the other.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "run/session.h"

// Four independent lanes, so that it runs at the speed of memory rather than of one multiplication after the other.
uint64_t ckm_i_session_fingerprint(const void *data, int64_t bytes)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t lanes[4] = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344), UINT64_C(0xa4093822299f31d0),
                         UINT64_C(0x082efa98ec4e6c89)};
    const char *at = data;
    int64_t left = bytes;
    for (; left >= 32; left -= 32, at += 32) {
        uint64_t words[4];
        memcpy(words, at, sizeof words);
        for (int k = 0; k < 4; k++) {
            lanes[k] = (lanes[k] ^ words[k]) * odd;
            lanes[k] ^= lanes[k] >> 29;
        }
    }
    uint64_t hash = (uint64_t)bytes;
    for (; left > 0; left--, at++) {
        hash = (hash ^ (unsigned char)*at) * odd;
    }
    for (int k = 0; k < 4; k++) {
        hash = (hash ^ lanes[k]) * odd;
        hash ^= hash >> 32;
    }
    return hash;
}

// Compares the outputs of a computation with those of the operator's first one in this step.
static bool trace_call(ckm_session *session, const ckm_i_kernel_call *call)
{
    const ckm_graph *step = session->program->training->step;
    const ckm_i_graph_op *op = &step->ops[call->op];
    ckm_i_trace *trace = &session->trace[call->op];
    uint64_t hash = 0;
    for (int32_t k = 0; k < op->n_outputs; k++) {
        if (call->outputs[k] != NULL) {
            int64_t bytes = ckm_i_session_value_bytes(step, op->outputs[k]);
            hash = hash * 31 + ckm_i_session_fingerprint(call->outputs[k], bytes);
        }
    }
    if (trace->seen && trace->fingerprint != hash) {
        session->first_mismatch = session->first_mismatch < 0 ? call->op : session->first_mismatch;
        return false;
    }
    *trace = (ckm_i_trace){hash, true};
    return true;
}

static void start_trace(ckm_session *session)
{
    for (int32_t v = 0; session->trace != NULL && v < session->program->n_ops; v++) {
        session->trace[v].seen = false;
    }
}

ckm_status ckm_session_step(ckm_session *session, int64_t step, double learning_rate, ckm_step_result *out,
                            ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(out, err);
    ckm_i_backend *backend = session->program->backend;
    ckm_step_result result = {.loss = NAN, .correct = -1};
    double start = ckm_i_clock_seconds();
    start_trace(session);
    for (int64_t i = 0; i < session->n_calls; i++) {
        ckm_i_bound_call *bound = &session->calls[i];
        bound->call.seed = session->seed;
        bound->call.step = step;
        bound->call.learning_rate = learning_rate;
        double begin = session->call_nanoseconds != NULL ? ckm_i_clock_seconds() : 0.0;
        ckm_status status = backend->run(backend, bound->kernel, &bound->call, err);
        if (status != CKM_OK) {
            return status;
        }
        if (session->call_nanoseconds != NULL) {
            session->call_nanoseconds[i] = (int64_t)((ckm_i_clock_seconds() - begin) * 1e9);
        }
        if (session->trace != NULL && !trace_call(session, &bound->call)) {
            result.mismatches++;
        }
    }
    result.seconds = ckm_i_clock_seconds() - start;
    if (session->loss >= 0) {
        float loss;
        memcpy(&loss, session->tensors[session->loss].data, sizeof loss);
        result.loss = (double)loss;
    }
    if (session->correct >= 0) {
        int32_t correct;
        memcpy(&correct, session->tensors[session->correct].data, sizeof correct);
        result.correct = correct;
    }
    *out = result;
    return CKM_OK;
}
