// SPDX-License-Identifier: Apache-2.0
// The host's side of a session's tensors.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/session/session.h"

int64_t ckm_i_session_value_bytes(const ckm_graph *step, int32_t value)
{
    int64_t elements = 0;
    if (ckm_i_shape_elements(&step->tensors[value].shape, &elements, NULL) != CKM_OK) {
        return 0;
    }
    return elements * ckm_i_dtype_bytes(step->tensors[value].dtype);
}

static ckm_status check_range(const ckm_session *session, int32_t tensor, int64_t at, int64_t bytes, ckm_error *err)
{
    if (tensor < 0 || tensor >= session->n_tensors) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "tensor %d: the session has %d", (int)tensor,
                           (int)session->n_tensors);
    }
    const ckm_session_tensor *t = &session->tensors[tensor];
    if (at < 0 || bytes < 0 || at > t->bytes || bytes > t->bytes - at) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "tensor \"%.200s\": %lld bytes from byte %lld on, but it has %lld",
                           t->name, (long long)bytes, (long long)at, (long long)t->bytes);
    }
    return CKM_OK;
}

ckm_status ckm_session_read(const ckm_session *session, int32_t tensor, int64_t at, int64_t bytes, void *out,
                            ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(check_range(session, tensor, at, bytes, err));
    ckm_i_backend *backend = session->program->backend;
    return backend->memory->copy_out(backend, out, session->addresses[tensor] + at, bytes, err);
}

ckm_status ckm_session_write(ckm_session *session, int32_t tensor, int64_t at, int64_t bytes, const void *data,
                             ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(data, err);
    CKM_I_CHECK(check_range(session, tensor, at, bytes, err));
    ckm_i_backend *backend = session->program->backend;
    return backend->memory->copy_in(backend, session->addresses[tensor] + at, data, bytes, err);
}

void *ckm_i_session_host(const ckm_session *session, int32_t tensor)
{
    return session->program->backend->memory->host ? session->addresses[tensor] : NULL;
}

ckm_status ckm_i_session_look(const ckm_session *session, const char *address, int64_t bytes, const void **out,
                              ckm_error *err)
{
    ckm_i_backend *backend = session->program->backend;
    if (backend->memory->host) {
        *out = address;
        return CKM_OK;
    }
    *out = session->trace_room;
    return backend->memory->copy_out(backend, session->trace_room, address, bytes, err);
}

ckm_status ckm_i_session_time_calls(ckm_session *session, ckm_error *err)
{
    session->call_nanoseconds = ckm_i_calloc((size_t)session->n_calls + 1, sizeof *session->call_nanoseconds);
    session->marks = ckm_i_calloc((size_t)session->n_calls + 1, sizeof *session->marks);
    return session->call_nanoseconds != NULL && session->marks != NULL ? CKM_OK : ckm_i_error_memory(err);
}

bool ckm_i_session_is_sum(const ckm_session *session, int32_t tensor)
{
    const ckm_graph *step = session->program->training->step;
    for (int32_t v = 0; session->tensors[tensor].role == CKM_ROLE_STATE && v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        if (op->op_class->id == CKM_I_OP_gradient_sum && op->inputs[1] == session->values[tensor]) {
            return true;
        }
    }
    return false;
}

int32_t ckm_i_session_exchanged(const ckm_program *program, int64_t *most)
{
    const ckm_graph *step = program->training->step;
    int32_t n = 0;
    *most = 0;
    for (int32_t v = 0; v < step->n_ops; v++) {
        const ckm_i_graph_op *op = &step->ops[v];
        if (op->op_class->id == CKM_I_OP_gradient_send) {
            int64_t elements = ckm_i_session_value_bytes(step, op->inputs[0]) / (int64_t)sizeof(float);
            *most = elements > *most ? elements : *most;
            n++;
        }
    }
    return n;
}
