// SPDX-License-Identifier: Apache-2.0
// Initial values of parameters, and states of training in files.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/import.h"
#include "run/data/safetensors.h"
#include "run/session/session.h"
#include "run/train/train.h"
#include "trainer/trainer.h"

bool ckm_i_trainer_is_the_networks(const ckm_session *session, int32_t i)
{
    ckm_tensor_role role = ckm_session_get_tensor(session, i).role;
    return role == CKM_ROLE_PARAMETER || (role == CKM_ROLE_STATE && !ckm_train_is_optimizer_state(session, i));
}

// Straight to where the tensor is, if that is the host's: the budget has no room for another copy.
static ckm_status read_value(ckm_trainer *t, ckm_session *session, int32_t i, bool *found, ckm_error *err)
{
    ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
    void *host = ckm_i_session_host(session, i);
    void *copy = host == NULL ? ckm_i_malloc((size_t)tensor.bytes, 1) : NULL;
    if (host == NULL && copy == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_import_values_read(t->values, tensor.name, tensor.dtype, &tensor.shape, host != NULL ? host : copy,
                                     found, err));
    if (copy != NULL && *found) {
        CKM_I_TRY(ckm_session_write(session, i, 0, tensor.bytes, copy, err));
    }
cleanup:
    free(copy);
    return status;
}

// The values in the model's file: weights if it has any, and constants, without which nothing can be computed.
static ckm_status set_from_model(ckm_trainer *t, ckm_session *session, ckm_error *err)
{
    int32_t n_parameters = 0;
    int32_t n_found = 0;
    for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
        bool found = false;
        if (tensor.role != CKM_ROLE_CONSTANT && !ckm_i_trainer_is_the_networks(session, i)) {
            continue;
        }
        CKM_I_CHECK(read_value(t, session, i, &found, err));
        if (t->valued != NULL) {
            t->valued[i] = found;
        }
        if (!found && tensor.role == CKM_ROLE_CONSTANT && !t->predicts) {
            return ckm_i_error_at(
                err, CKM_ERR_UNSUPPORTED, t->options.model, 0, -1,
                "the values of constant \"%.200s\" are not in the file, or are computed from constants "
                "too large to be folded",
                tensor.name);
        }
        n_parameters += tensor.role == CKM_ROLE_PARAMETER;
        n_found += found && tensor.role == CKM_ROLE_PARAMETER;
    }
    if (n_found > 0 && !t->predicts) {
        CKM_I_CHECK(ckm_i_trainer_check_merged(t, session, err));
    }
    if (n_found > 0) {
        snprintf(t->parameters_from, sizeof t->parameters_from, "%d of %d tensors from the model's file", (int)n_found,
                 (int)n_parameters);
    }
    return CKM_OK;
}

// None of the names in the file is one of the network's.
static ckm_status refuse_weights(const ckm_session *session, const char *path, ckm_error *err)
{
    ckm_i_safetensors *file = NULL;
    const char *here = "";
    CKM_I_CHECK(ckm_i_safetensors_open(path, &file, err));
    for (int32_t i = 0; i < ckm_session_tensor_count(session) && here[0] == '\0'; i++) {
        here = ckm_i_trainer_is_the_networks(session, i) ? ckm_session_get_tensor(session, i).name : here;
    }
    const char *there = ckm_i_safetensors_count(file) > 0 ? ckm_i_safetensors_at(file, 0)->name : "none";
    ckm_status status = ckm_i_error_at(
        err, CKM_ERR_ARGUMENT, path, 0, -1,
        "holds no tensor that has the name of one in this network: it has \"%.100s\", say, and the network "
        "\"%.100s\"%s",
        there, here,
        strchr(there, '.') != NULL
            ? ". Names of PyTorch are read where the network is PyTorch's: docs/TRAINING.md has the list"
            : "");
    ckm_i_safetensors_close(file);
    return status;
}

ckm_status ckm_i_trainer_set_parameters(ckm_trainer *t, ckm_session *session, ckm_error *err)
{
    const ckm_trainer_options *o = &t->options;
    snprintf(t->parameters_from, sizeof t->parameters_from, "initialised from seed %llu",
             (unsigned long long)t->place.seed);
    if (t->predicts) {
        free(t->valued);
        t->valued = ckm_i_calloc((size_t)ckm_session_tensor_count(session), sizeof *t->valued);
        if (t->valued == NULL) {
            return ckm_i_error_memory(err);
        }
        snprintf(t->parameters_from, sizeof t->parameters_from, "none given");
    }
    if (t->values != NULL) {
        CKM_I_CHECK(set_from_model(t, session, err));
    }
    if (o->weights != NULL) {
        int32_t n = 0;
        CKM_I_CHECK(ckm_i_train_load_weights(session, o->weights, t->valued, &n, err));
        if (n == 0) {
            return refuse_weights(session, o->weights, err);
        }
        snprintf(t->parameters_from, sizeof t->parameters_from, "%d tensors from %.200s", (int)n, o->weights);
    }
    if (o->resume != NULL) {
        CKM_I_CHECK(ckm_train_load(session, o->resume, &t->place, err));
        snprintf(t->parameters_from, sizeof t->parameters_from, "step %lld of %.200s", (long long)t->place.step,
                 o->resume);
    }
    return CKM_OK;
}

ckm_status ckm_trainer_save(const ckm_trainer *t, const char *path, ckm_error *err)
{
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(path, err);
    CKM_I_NEED_NAMED(t->session, "session", err);
    return ckm_i_train_save(t->session, path, &t->place, &t->settings, err);
}
