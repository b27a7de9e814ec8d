// SPDX-License-Identifier: Apache-2.0
// Writes a network that runs forward as a file for other programs, with the metadata of its file of weights.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "import/import.h"
#include "run/data/safetensors.h"
#include "trainer/inference.h"

static const char *fact_of_weights(const void *user, const char *key)
{
    const ckm_i_safetensors *const *file = user;
    return *file != NULL ? ckm_i_safetensors_metadata(*file, key) : NULL;
}

// Metadata is copied, except for entries about that file alone.
static void keep_pair(void *user, const char *key, const char *value)
{
    static const char *const wanted[] = {"input", "layout", "network_options", "classes", "class_names"};
    ckm_i_train_settings *settings = user;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        if (strcmp(key, wanted[i]) == 0) {
            ckm_i_train_note(settings, wanted[i], value);
        }
    }
    if (strcmp(key, "setting.pixels") == 0 || strcmp(key, "setting.data") == 0) {
        ckm_i_train_set(settings, strcmp(key, "setting.data") == 0 ? "data" : "pixels", "%s", value);
    }
}

static ckm_status write_weights(const ckm_inference *f, const ckm_i_safetensors *file, const char *path, ckm_error *err)
{
    ckm_i_train_settings settings = {0};
    if (file != NULL) {
        ckm_i_safetensors_each_pair(file, keep_pair, &settings);
    }
    return ckm_i_train_export(f->session, path, &f->trainer->place, &settings, err);
}

static bool is_onnx(const char *path)
{
    const char *ending = strrchr(path, '.');
    return ending != NULL && strcmp(ending, ".onnx") == 0;
}

ckm_status ckm_inference_export(const ckm_inference *f, const char *path, ckm_error *err)
{
    ckm_i_safetensors *file = NULL;
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED(path, err);
    CKM_I_NEED_NAMED(f->session, "session", err);
    CKM_I_CHECK(ckm_i_inference_check_values(f, false, err));
    ckm_status status = CKM_OK;
    if (f->options.weights != NULL) {
        CKM_I_TRY(ckm_i_safetensors_open(f->options.weights, &file, err));
    }
    if (is_onnx(path)) {
        CKM_I_TRY(ckm_i_trainer_check_modes(f->trainer, err));
        CKM_I_TRY(ckm_i_trainer_write_onnx(f->session, f->graph, f->options.model, path, fact_of_weights, &file, err));
    } else {
        CKM_I_TRY(write_weights(f, file, path, err));
    }
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}

ckm_status ckm_inference_read_note(const char *path, const char *key, char *out, size_t size, bool *found,
                                   ckm_error *err)
{
    char *text = NULL;
    CKM_I_NEED(path, err);
    CKM_I_NEED(key, err);
    CKM_I_NEED(out, err);
    CKM_I_NEED(found, err);
    if (!is_onnx(path)) {
        return ckm_train_read_note(path, key, out, size, found, err);
    }
    CKM_I_CHECK(ckm_i_import_read_note(path, key, &text, err));
    *found = text != NULL;
    snprintf(out, size, "%s", text != NULL ? text : "");
    free(text);
    return CKM_OK;
}

ckm_status ckm_inference_read_class_names(const char *path, char ***out, int64_t *n, ckm_error *err)
{
    char *text = NULL;
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    CKM_I_NEED(n, err);
    if (!is_onnx(path)) {
        return ckm_train_read_class_names(path, out, n, err);
    }
    CKM_I_CHECK(ckm_i_import_read_note(path, "class_names", &text, err));
    ckm_status status = ckm_i_train_parse_class_names(text, path, out, n, err);
    free(text);
    if (status == CKM_ERR_FORMAT) {  // other programs may write anything under that key
        *out = NULL;
        *n = 0;
        return CKM_OK;
    }
    return status;
}
