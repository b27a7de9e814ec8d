// SPDX-License-Identifier: Apache-2.0
// What parameters begin with, and what is given away at the end.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/import.h"
#include "run/session/session.h"
#include "run/train/train.h"
#include "trainer/trainer.h"

// Parameters and running statistics; an optimizer's states are nobody else's business.
static bool is_the_networks(const ckm_session *session, int32_t i)
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

// What the model's file holds: weights if it has any, and constants, without which nothing can be computed.
static ckm_status set_from_model(ckm_trainer *t, ckm_session *session, ckm_error *err)
{
    int32_t n_parameters = 0;
    int32_t n_found = 0;
    for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
        bool found = false;
        if (tensor.role != CKM_ROLE_CONSTANT && !is_the_networks(session, i)) {
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
            return ckm_i_error_at(err, CKM_ERR_ARGUMENT, o->weights, 0, -1,
                                  "holds no tensor that has the name of one in this network");
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

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

// One tensor for the file: where it is, or a copy on the host.
static ckm_status list_tensor(const ckm_session *session, int32_t i, ckm_export_tensor *out, void **copy,
                              ckm_error *err)
{
    ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
    *out = (ckm_export_tensor){tensor.name, tensor.dtype, tensor.shape, ckm_i_session_host(session, i)};
    if (out->data != NULL) {
        return CKM_OK;
    }
    *copy = ckm_i_malloc((size_t)tensor.bytes, 1);
    out->data = *copy;
    return *copy != NULL ? ckm_session_read(session, i, 0, tensor.bytes, *copy, err) : ckm_i_error_memory(err);
}

static ckm_status export_onnx(const ckm_session *session, const char *model, const char *path, ckm_error *err)
{
    ckm_status status = CKM_OK;
    int32_t n_tensors = ckm_session_tensor_count(session);
    int32_t n = 0;
    CKM_I_CHECK(ckm_i_train_check_finite(session, path, err));
    ckm_export_tensor *list = ckm_i_calloc((size_t)n_tensors, sizeof *list);
    void **copies = ckm_i_calloc((size_t)n_tensors, sizeof *copies);
    if (list == NULL || copies == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        if (is_the_networks(session, i)) {
            CKM_I_TRY(list_tensor(session, i, &list[n], &copies[n], err));
            n++;
        }
    }
    CKM_I_TRY(ckm_i_export_onnx(model, path, list, n, true, err));
cleanup:
    for (int32_t i = 0; copies != NULL && i < n_tensors; i++) {
        free(copies[i]);
    }
    free(copies);
    free(list);
    return status;
}

ckm_status ckm_trainer_export(const ckm_trainer *t, const char *path, ckm_error *err)
{
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(path, err);
    CKM_I_NEED_NAMED(t->session, "session", err);
    if (!ends_with(path, ".onnx")) {
        return ckm_i_train_export(t->session, path, &t->place, &t->settings, err);
    }
    if (t->options.model == NULL) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "only a network that was read from an ONNX file can be written as one");
    }
    return export_onnx(t->session, t->options.model, path, err);
}
