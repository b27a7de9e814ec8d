// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_load.h"

ckm_status ckm_i_json_parse(const char *text, size_t size_bytes, const char *file, json_t **out, ckm_error *err)
{
    json_error_t problem;
    bool exhausted = false;
    json_t *root = ckm_i_json_load(text, size_bytes, &problem, &exhausted);
    if (root == NULL) {
        if (exhausted) {
            return ckm_i_error_memory(err);
        }
        ckm_status status = CKM_ERR_FORMAT;
        return ckm_i_error_at(err, status, file, problem.line, problem.position, "not valid JSON: %s", problem.text);
    }
    *out = root;
    return CKM_OK;
}

ckm_status ckm_i_json_read(const char *path, int64_t max_bytes, json_t **out, ckm_error *err)
{
    char *text = NULL;
    size_t size_bytes = 0;
    CKM_I_CHECK(ckm_i_file_read(path, max_bytes, &text, &size_bytes, err));
    ckm_status status = ckm_i_json_parse(text, size_bytes, path, out, err);
    free(text);
    return ckm_i_error_in_file(err, status, path);
}

ckm_i_json_place ckm_i_json_root(const char *file)
{
    ckm_i_json_place place = {.file = file, .path = ""};
    return place;
}

ckm_i_json_place ckm_i_json_member(const ckm_i_json_place *parent, const char *key)
{
    ckm_i_json_place place = {.file = parent->file, .path = ""};
    snprintf(place.path, sizeof place.path, "%.90s%s%.32s", parent->path, parent->path[0] != '\0' ? "." : "", key);
    return place;
}

ckm_i_json_place ckm_i_json_element(const ckm_i_json_place *parent, size_t i)
{
    ckm_i_json_place place = {.file = parent->file, .path = ""};
    snprintf(place.path, sizeof place.path, "%.100s[%zu]", parent->path, i);
    return place;
}

// In parentheses: the function, not the macro around it.
ckm_status(ckm_i_json_error)(ckm_error *err, const ckm_i_json_place *place, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ckm_i_error_at(err, CKM_ERR_FORMAT, place->file, 0, -1, "%s%s%s", place->path,
                          place->path[0] != '\0' ? ": " : "", message);
}

// A member, or NULL with *status saying whether that is an error.
static const json_t *find(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                          ckm_status *status, ckm_error *err)
{
    const json_t *value = json_object_get(object, key);
    *status = CKM_OK;
    if (value == NULL && required) {
        *status = ckm_i_json_error(err, place, "member \"%s\" is missing", key);
    }
    return value;
}

ckm_status ckm_i_json_int(const json_t *value, const ckm_i_json_place *place, int64_t min, int64_t max, int64_t *out,
                          ckm_error *err)
{
    if (!json_is_integer(value)) {
        return ckm_i_json_error(err, place, "must be an integer");
    }
    int64_t number = (int64_t)json_integer_value(value);
    if (number < min || number > max) {
        if (max == INT64_MAX) {
            return ckm_i_json_error(err, place, "%lld is out of range: must be at least %lld", (long long)number,
                                    (long long)min);
        }
        return ckm_i_json_error(err, place, "%lld is out of range: must be from %lld to %lld", (long long)number,
                                (long long)min, (long long)max);
    }
    *out = number;
    return CKM_OK;
}

ckm_status ckm_i_json_get_int(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                              int64_t min, int64_t max, int64_t *out, ckm_error *err)
{
    ckm_status status;
    const json_t *value = find(object, place, key, required, &status, err);
    if (value == NULL) {
        return status;
    }
    ckm_i_json_place here = ckm_i_json_member(place, key);
    return ckm_i_json_int(value, &here, min, max, out, err);
}

ckm_status ckm_i_json_get_bool(const json_t *object, const ckm_i_json_place *place, const char *key, bool *out,
                               ckm_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL) {
        return CKM_OK;
    }
    if (!json_is_boolean(value)) {
        ckm_i_json_place here = ckm_i_json_member(place, key);
        return ckm_i_json_error(err, &here, "must be true or false");
    }
    *out = json_is_true(value);
    return CKM_OK;
}

ckm_status ckm_i_json_get_text(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                               const char **out, ckm_error *err)
{
    ckm_status status;
    const json_t *value = find(object, place, key, required, &status, err);
    if (value == NULL) {
        return status;
    }
    if (!json_is_string(value)) {
        ckm_i_json_place here = ckm_i_json_member(place, key);
        return ckm_i_json_error(err, &here, "must be a string");
    }
    *out = json_string_value(value);
    return CKM_OK;
}

ckm_status ckm_i_json_get_array(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                                const json_t **out, ckm_error *err)
{
    ckm_status status;
    const json_t *value = find(object, place, key, required, &status, err);
    if (value == NULL) {
        return status;
    }
    if (!json_is_array(value)) {
        ckm_i_json_place here = ckm_i_json_member(place, key);
        return ckm_i_json_error(err, &here, "must be an array");
    }
    *out = value;
    return CKM_OK;
}

ckm_status ckm_i_json_check_versions(const json_t *root, const char *file, const char *format, int newest, int *version,
                                     ckm_error *err)
{
    ckm_i_json_place place = ckm_i_json_root(file);
    if (!json_is_object(root)) {
        return ckm_i_json_error(err, &place, "must be a JSON object with \"format\": \"%s\"", format);
    }
    const char *found = NULL;
    CKM_I_CHECK(ckm_i_json_get_text(root, &place, "format", true, &found, err));
    if (strcmp(found, format) != 0) {
        return ckm_i_json_error(err, &place, "format is \"%.60s\", expected \"%s\"", found, format);
    }
    int64_t given = 0;
    CKM_I_CHECK(ckm_i_json_get_int(root, &place, "version", true, INT64_MIN, INT64_MAX, &given, err));
    if (given < 1 || given > newest) {
        return ckm_i_json_error(err, &place, "version is %lld; this program reads version%s", (long long)given,
                                newest > 1 ? "s 1 and 2" : " 1");
    }
    *version = (int)given;
    return CKM_OK;
}

ckm_status ckm_i_json_check_header(const json_t *root, const char *file, const char *format, ckm_error *err)
{
    int version;
    return ckm_i_json_check_versions(root, file, format, 1, &version, err);
}
