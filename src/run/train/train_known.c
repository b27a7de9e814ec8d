// SPDX-License-Identifier: Apache-2.0
// Weights by the names that PyTorch has for them, in the order of axes that it has: written where all of the network's parameters have
// such names, and read wherever a file has them.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/known_as.h"
#include "graph/training.h"
#include "run/session/session.h"
#include "run/train/train.h"

void ckm_i_train_free_list(ckm_i_safetensor *list, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        union {
            const char *kept;
            char *owned;
        } name = {list[i].name};
        free(name.owned);
    }
    free(list);
}

static const ckm_i_known_as *known_as(const ckm_session *session, int32_t i)
{
    return ckm_i_graph_find_known(session->program->training->graph, ckm_session_get_tensor(session, i).name);
}

bool ckm_i_train_is_known(const ckm_session *session)
{
    return ckm_i_graph_is_known(session->program->training->graph);
}

// A tensor that is the same under two names is in the file twice: a strict load needs both.
ckm_status ckm_i_train_list_known(const ckm_session *session, ckm_i_safetensor **out, int32_t *n_out, ckm_error *err)
{
    int32_t n = 0;
    int32_t n_tensors = ckm_session_tensor_count(session);
    ckm_i_safetensor *list = ckm_i_calloc(3 * (size_t)n_tensors + 1, sizeof *list);
    if (list == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        ckm_session_tensor t = ckm_session_get_tensor(session, i);
        bool kept = t.role == CKM_ROLE_PARAMETER || t.role == CKM_ROLE_STATE;
        const ckm_i_known_as *as = kept ? known_as(session, i) : NULL;  // an optimizer's states have no such name
        for (int k = 0; as != NULL && k < 3; k++) {
            const char *called = k < 2 ? as->names[k] : as->index;
            int64_t pairs = as->window[0] * as->window[1] * as->window[0] * as->window[1];
            char *name = called[0] != '\0' ? ckm_i_strdup(called) : NULL;
            if (name == NULL && called[0] != '\0') {
                ckm_i_train_free_list(list, n);
                return ckm_i_error_memory(err);
            }
            if (name != NULL && k < 2) {
                list[n++] = (ckm_i_safetensor){name, t.dtype, as->shape, t.bytes, NULL, 0, i};
            } else if (name != NULL) {
                list[n++] = (ckm_i_safetensor){name, CKM_I64, {1, {pairs}}, pairs * (int64_t)sizeof pairs, NULL, 0, i};
            }
        }
    }
    *out = list;
    *n_out = n;
    return CKM_OK;
}

// Element by element, so that no copy of the tensor is needed.
ckm_status ckm_i_train_known_source(void *user, const ckm_i_safetensor *tensor, int64_t at, int64_t bytes, void *out,
                                    ckm_error *err)
{
    const int64_t size = (int64_t)sizeof(float);
    const ckm_session *const *session = user;
    const float *host = ckm_i_session_host(*session, tensor->id);
    float *to = out;
    if (tensor->dtype == CKM_I64) {
        int64_t *rows = out;
        for (int64_t k = 0; k < bytes / (int64_t)sizeof *rows; k++) {
            rows[k] = ckm_i_known_row(known_as(*session, tensor->id), at / (int64_t)sizeof *rows + k);
        }
        return CKM_OK;
    }
    ckm_i_known_walk w = ckm_i_known_begin(known_as(*session, tensor->id), at / size);
    for (int64_t k = 0; k < bytes / size; k++, ckm_i_known_next(&w)) {
        if (host != NULL) {
            to[k] = host[w.offset];
        } else {
            CKM_I_CHECK(ckm_session_read(*session, tensor->id, w.offset * size, size, &to[k], err));
        }
    }
    return CKM_OK;
}

const ckm_i_safetensor *ckm_i_train_find_known(const ckm_session *session, int32_t i, const ckm_i_safetensors *file,
                                               ckm_session_tensor *wanted)
{
    const ckm_i_known_as *as = known_as(session, i);
    for (int k = 0; as != NULL && k < 2 && as->names[k][0] != '\0'; k++) {
        const ckm_i_safetensor *found = ckm_i_safetensors_find(file, as->names[k]);
        if (found != NULL) {
            wanted->name = as->names[k];
            wanted->shape = as->shape;
            return found;
        }
    }
    return NULL;
}

ckm_status ckm_i_train_read_known(ckm_session *session, int32_t i, const ckm_i_safetensors *file,
                                  const ckm_i_safetensor *found, ckm_error *err)
{
    enum { NUMBERS = 4096 };
    float piece[NUMBERS];
    const int64_t size = (int64_t)sizeof piece[0];
    float *host = ckm_i_session_host(session, i);
    ckm_i_known_walk w = ckm_i_known_begin(known_as(session, i), 0);
    for (int64_t at = 0; at < found->bytes; at += (int64_t)sizeof piece) {
        int64_t left = found->bytes - at;
        int64_t n = left < (int64_t)sizeof piece ? left : (int64_t)sizeof piece;
        CKM_I_CHECK(ckm_i_safetensors_read_part(file, found, at, n, piece, err));
        for (int64_t k = 0; k < n / size; k++, ckm_i_known_next(&w)) {
            if (host != NULL) {
                host[w.offset] = piece[k];
            } else {
                CKM_I_CHECK(ckm_session_write(session, i, w.offset * size, size, &piece[k], err));
            }
        }
    }
    return CKM_OK;
}
