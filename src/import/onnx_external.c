// SPDX-License-Identifier: Apache-2.0
#include "import/onnx_external.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// The pair's key is its field 1, the value field 2.
ckm_status ckm_i_onnx_external_pair(ckm_i_onnx_source *source, const ckm_i_wire_field *pair, const char *tensor,
                                    ckm_i_onnx_external *where, ckm_error *err)
{
    char key[64] = "";
    char value[1024] = "";
    int64_t at = pair->at;
    while (at < pair->at + pair->bytes) {
        ckm_i_wire_field field;
        ckm_status status = ckm_i_wire_next(source, &at, pair->at + pair->bytes, NULL, &field, err);
        if (status == CKM_OK && (field.number == 1 || field.number == 2)) {
            status = ckm_i_wire_text(source, &field, field.number == 1 ? key : value,
                                     field.number == 1 ? sizeof key : sizeof value, err);
        }
        if (status != CKM_OK) {
            return status;
        }
    }
    if (strcmp(key, "location") == 0) {
        snprintf(where->location, sizeof where->location, "%s", value);
    } else if (strcmp(key, "offset") == 0 || strcmp(key, "length") == 0) {
        char *end = NULL;
        errno = 0;
        long long number = strtoll(value, &end, 10);
        if (end == value || *end != '\0' || errno != 0 || number < 0) {
            return ckm_i_error(err, CKM_ERR_FORMAT, "tensor \"%.200s\": %s of its external data is \"%.40s\"", tensor,
                               key, value);
        }
        *(key[0] == 'o' ? &where->offset : &where->length) = (int64_t)number;
    }
    return CKM_OK;
}

// Files outside the model's folder are not for the model to name.
static bool stays_inside(const char *location)
{
    if (location[0] == '\0' || location[0] == '/') {
        return false;
    }
    for (const char *part = location; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == '\0')) {
            return false;
        }
    }
    return true;
}

ckm_status ckm_i_onnx_external_open(ckm_i_onnx_external *where, const char *model, const char *tensor, int64_t bytes,
                                    ckm_i_onnx_source *out, ckm_error *err)
{
    const char *slash = strrchr(model, '/');
    int folder = slash != NULL ? (int)(slash - model) + 1 : 0;
    if (!stays_inside(where->location) || folder > 4096) {
        return ckm_i_error(
            err, CKM_ERR_FORMAT,
            "tensor \"%.200s\": its values are in \"%.200s\", which is not a file below the model's folder", tensor,
            where->location);
    }
    if (where->length >= 0 && where->length != bytes) {
        return ckm_i_error(err, CKM_ERR_FORMAT, "tensor \"%.200s\": %lld bytes of external data, expected %lld", tensor,
                           (long long)where->length, (long long)bytes);
    }
    snprintf(where->path, sizeof where->path, "%.*s%s", folder, model, where->location);
    ckm_i_onnx_source source;
    ckm_status status = ckm_i_onnx_source_open(&source, where->path, err);
    if (status != CKM_OK) {
        return status;
    }
    if (where->offset > source.size_bytes || bytes > source.size_bytes - where->offset) {
        ckm_i_onnx_source_close(&source);
        return ckm_i_error_at(err, CKM_ERR_FORMAT, where->path, 0, -1,
                              "ends before the %lld bytes of tensor \"%.200s\" at %lld", (long long)bytes, tensor,
                              (long long)where->offset);
    }
    *out = source;
    return CKM_OK;
}
