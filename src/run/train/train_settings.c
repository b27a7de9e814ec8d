// SPDX-License-Identifier: Apache-2.0
// Settings that a training run has to keep when it is resumed.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_load.h"
#include "base/text.h"
#include "run/data/safetensors.h"
#include "run/train/train.h"

void ckm_i_train_set(ckm_i_train_settings *s, const char *name, const char *format, ...)
{
    int32_t i = 0;
    while (i < s->n && strcmp(s->items[i].name, name) != 0) {
        i++;
    }
    if (i == CKM_I_TRAIN_SETTINGS) {
        return;
    }
    s->n = i == s->n ? i + 1 : s->n;
    s->items[i].name = name;
    snprintf(s->items[i].key, sizeof s->items[i].key, "setting.%s", name);
    va_list args;
    va_start(args, format);
    vsnprintf(s->items[i].value, sizeof s->items[i].value, format, args);
    va_end(args);
    // As it will be read: a name that is cut, or that no file can hold, is the same each time.
    ckm_i_text_clean(s->items[i].value);
}

void ckm_i_train_note(ckm_i_train_settings *s, const char *key, const char *value)
{
    if (s->n_notes < CKM_I_TRAIN_NOTES) {
        s->notes[s->n_notes].key = key;
        s->notes[s->n_notes++].value = value;
    }
}

static bool is_listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at != NULL; at = strchr(at, ',') != NULL ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
    }
    return false;
}

ckm_status ckm_i_train_compare(const char *path, const ckm_i_train_settings *settings, const char *change,
                               ckm_error *err)
{
    ckm_i_safetensors *file = NULL;
    ckm_status status;
    CKM_I_TRY(ckm_i_safetensors_open(path, &file, err));
    for (int32_t i = 0; i < settings->n; i++) {
        const char *name = settings->items[i].name;
        const char *before = ckm_i_safetensors_metadata(file, settings->items[i].key);
        if (before == NULL && strcmp(name, "augment") == 0) {
            before = "none";  // the file is older than this setting
        }
        if (before != NULL && strcmp(before, settings->items[i].value) != 0 && !is_listed(change, name)) {
            status = ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                                    "was trained with %s %.128s, and this run has %s%s: give the same, or let it "
                                    "differ by the option `change` (\"%s\")",
                                    name, before, settings->items[i].value,
                                    strcmp(name, "classes") == 0   ? " (in parentheses a sum of their names)"
                                    : strcmp(name, "network") == 0 ? " (in parentheses a sum of its operators)"
                                                                   : "",
                                    name);
            goto cleanup;
        }
    }
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}

ckm_status ckm_train_read_note(const char *path, const char *key, char *out, size_t size, bool *found, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(key, err);
    CKM_I_NEED(out, err);
    CKM_I_NEED(found, err);
    ckm_i_safetensors *file = NULL;
    ckm_status status;
    CKM_I_TRY(ckm_i_safetensors_open(path, &file, err));
    const char *text = ckm_i_safetensors_metadata(file, key);
    *found = text != NULL;
    snprintf(out, size, "%s", text != NULL ? text : "");
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}

void ckm_train_free_class_names(char **names, int64_t n)
{
    for (int64_t i = 0; names != NULL && i < n; i++) {
        free(names[i]);
    }
    free(names);
}

static ckm_status copy_names(const json_t *list, const char *path, char **names, ckm_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name == NULL) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1, "__metadata__.class_names[%zu]: must be a text", i);
        }
        names[i] = ckm_i_strdup(name);
        if (names[i] == NULL) {
            return ckm_i_error_memory(err);
        }
    }
    return CKM_OK;
}

static ckm_status load_names(const char *text, const char *path, json_t **out, ckm_error *err)
{
    json_error_t problem;
    bool exhausted = false;
    *out = ckm_i_json_load(text, strlen(text), &problem, &exhausted);
    if (exhausted) {
        return ckm_i_error_memory(err);
    }
    return json_is_array(*out)
               ? CKM_OK
               : ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, -1, "__metadata__.class_names: must be a list of texts");
}

ckm_status ckm_i_train_parse_class_names(const char *text, const char *path, char ***out, int64_t *n, ckm_error *err)
{
    json_t *list = NULL;
    char **names = NULL;
    size_t count = 0;
    ckm_status status = CKM_OK;
    if (text != NULL) {
        CKM_I_TRY(load_names(text, path, &list, err));
        count = json_array_size(list);
        names = ckm_i_calloc(count, sizeof *names);
        if (names == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        CKM_I_TRY(copy_names(list, path, names, err));
    }
    *out = names;
    *n = (int64_t)count;
    names = NULL;
cleanup:
    ckm_train_free_class_names(names, (int64_t)count);
    json_decref(list);
    return status;
}

ckm_status ckm_train_read_class_names(const char *path, char ***out, int64_t *n, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    CKM_I_NEED(n, err);
    ckm_i_safetensors *file = NULL;
    ckm_status status;
    CKM_I_TRY(ckm_i_safetensors_open(path, &file, err));
    CKM_I_TRY(ckm_i_train_parse_class_names(ckm_i_safetensors_metadata(file, "class_names"), path, out, n, err));
cleanup:
    ckm_i_safetensors_close(file);
    return status;
}
