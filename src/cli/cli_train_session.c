// SPDX-License-Identifier: Apache-2.0
// checkmate train: the session and what it begins with, and what it gives away at the end.
#include "cli/cli_train.h"

#include <stdlib.h>
#include <string.h>

// What the model's file holds: weights if it has any, and constants, without which nothing can be computed.
static ckm_status set_from_model(train_setup *t, ckm_session *session, ckm_error *err)
{
    int32_t n_parameters = 0;
    int32_t n_found = 0;
    for (int32_t i = 0; i < ckm_session_tensor_count(session); i++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(session, i);
        bool found = false;
        bool wanted = tensor.role == CKM_ROLE_PARAMETER || tensor.role == CKM_ROLE_CONSTANT ||
                      (tensor.role == CKM_ROLE_STATE && !ckm_train_is_optimizer_state(session, i));
        if (!wanted) {
            continue;
        }
        ckm_status status = ckm_import_values_read(t->values, tensor.name, tensor.dtype, &tensor.shape, tensor.data,
                                                   &found, err);
        if (status != CKM_OK) {
            return status;
        }
        if (!found && tensor.role == CKM_ROLE_CONSTANT) {
            return cli_error(
                err, CKM_ERR_UNSUPPORTED, t->model,
                "the values of constant \"%.200s\" are not in the file, or are computed from constants too "
                "large to be folded",
                tensor.name);
        }
        n_parameters += tensor.role == CKM_ROLE_PARAMETER;
        n_found += found && tensor.role == CKM_ROLE_PARAMETER;
    }
    if (n_found > 0) {
        snprintf(t->weights_from, sizeof t->weights_from, "%d of %d tensors from the model's file", (int)n_found,
                 (int)n_parameters);
    }
    return CKM_OK;
}

ckm_status cli_train_set_parameters(train_setup *t, ckm_session *session, ckm_error *err)
{
    const train_settings *s = t->settings;
    ckm_status status = CKM_OK;
    snprintf(t->weights_from, sizeof t->weights_from, "initialised from seed %llu", (unsigned long long)t->place.seed);
    if (t->values != NULL) {
        status = set_from_model(t, session, err);
    }
    if (status == CKM_OK && s->weights != NULL) {
        int32_t n = 0;
        status = ckm_train_load_weights(session, s->weights, &n, err);
        if (status == CKM_OK && n == 0) {
            status = cli_error(err, CKM_ERR_ARGUMENT, s->weights, "holds no tensor with a name of this network's");
        }
        snprintf(t->weights_from, sizeof t->weights_from, "%d tensors from --weights", (int)n);
    }
    if (status == CKM_OK && s->resume != NULL) {
        status = ckm_train_load(session, s->resume, &t->place, err);
        snprintf(t->weights_from, sizeof t->weights_from, "step %lld of --resume", (long long)t->place.step);
    }
    return status;
}

ckm_status cli_train_open_session(train_setup *t, ckm_error *err)
{
    enum { MOST_ATTEMPTS = 4 };
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    options.seed = t->place.seed;
    options.prefault = true;
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        ckm_status status = ckm_session_create(t->program, t->df, t->fit.schedule, t->fit.plan, &options, &t->session,
                                               err);
        if (status != CKM_OK) {
            return status;
        }
        ckm_session_memory memory = ckm_session_get_memory(t->session);
        int64_t outside = cli_train_beside(t) + memory.table_bytes;
        if (memory.region_bytes + outside <= t->budget_bytes) {
            t->outside_bytes = outside;
            return cli_train_set_parameters(t, t->session, err);
        }
        // The tables turned out larger than guessed: plan again with less room.
        ckm_session_free(t->session);
        t->session = NULL;
        t->outside_bytes = outside + memory.table_bytes / 4;
        status = cli_train_fit(t, err);
        if (status != CKM_OK || t->fit.schedule == NULL) {
            return status != CKM_OK ? status
                                    : cli_error(err, CKM_ERR_ARGUMENT, NULL,
                                                "no schedule fits the budget together with its tables; give more");
        }
    }
    return cli_error(err, CKM_ERR_INTERNAL, NULL, "the plan and its tables do not settle within the budget");
}

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text);
    size_t m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

ckm_status cli_train_export(const train_setup *t, ckm_error *err)
{
    const char *path = t->settings->export_to;
    if (!ends_with(path, ".onnx")) {
        return ckm_train_export(t->session, path, err);
    }
    int32_t n_tensors = ckm_session_tensor_count(t->session);
    ckm_export_tensor *list = calloc((size_t)n_tensors, sizeof *list);
    int32_t n = 0;
    if (list == NULL) {
        return cli_error(err, CKM_ERR_MEMORY, NULL, "out of memory");
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        ckm_session_tensor tensor = ckm_session_get_tensor(t->session, i);
        if (tensor.role == CKM_ROLE_PARAMETER ||
            (tensor.role == CKM_ROLE_STATE && !ckm_train_is_optimizer_state(t->session, i))) {
            list[n++] = (ckm_export_tensor){tensor.name, tensor.dtype, tensor.shape, tensor.data};
        }
    }
    ckm_status status = ckm_export_onnx(t->model, path, list, n, err);
    free(list);
    return status;
}
