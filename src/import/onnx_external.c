// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // O_PATH
#include "import/onnx_external.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

// The pair's key is its field 1, the value field 2.
ckm_status ckm_i_onnx_external_pair(ckm_i_onnx_source *source, const ckm_i_wire_field *pair, const char *tensor,
                                    ckm_i_onnx_external *where, ckm_error *err)
{
    char key[64] = "";
    char value[1024] = "";
    int64_t at = pair->at;
    while (at < pair->at + pair->bytes) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, pair->at + pair->bytes, NULL, &field, err));
        if (field.number == 1 || field.number == 2) {
            CKM_I_CHECK(ckm_i_wire_text(source, &field, field.number == 1 ? key : value,
                                        field.number == 1 ? sizeof key : sizeof value, err));
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

// A model must not name files outside its folder.
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

// What is wrong with the file, and whose values it should hold.
static ckm_status name_tensor(ckm_status status, const char *tensor, ckm_error *err)
{
    char why[512];
    char file[sizeof err->file];
    if (err == NULL) {
        return status;
    }
    snprintf(why, sizeof why, "%.500s", err->message);
    snprintf(file, sizeof file, "%s", err->file);
    return ckm_i_error_at(err, status, file, 0, -1, "%s (values of tensor \"%.200s\")", why, tensor);
}

// Opens the file in the model's folder, the first n bytes of where->path.
static ckm_status open_in_folder(const ckm_i_onnx_external *where, int n, const char *tensor, ckm_i_onnx_source *out,
                                 ckm_error *err)
{
    char name[4096 + 2];
    int fd = -1;
    int64_t size_bytes = 0;
    snprintf(name, sizeof name, "%.*s", n > 0 ? n : 1, n > 0 ? where->path : ".");
    int folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 && errno == EACCES) {
        folder = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    }
    if (folder < 0) {
        return ckm_i_error_at(err, CKM_ERR_IO, name, 0, -1, "cannot open: %s", strerror(errno));
    }
    ckm_status status = ckm_i_file_open_below(folder, where->location, where->path, CKM_I_BELOW_KERNEL, &fd,
                                              &size_bytes, err);
    close(folder);
    if (status == CKM_ERR_ARGUMENT) {
        return ckm_i_error(err, CKM_ERR_FORMAT,
                           "tensor \"%.200s\": its values are in \"%.200s\", which a symbolic link leads out of the "
                           "model's folder; put the file itself there",
                           tensor, where->location);
    }
    if (status == CKM_ERR_IO) {
        return name_tensor(status, tensor, err);
    }
    CKM_I_CHECK(status);
    return ckm_i_onnx_source_take(out, fd, size_bytes, err);
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
    CKM_I_CHECK(open_in_folder(where, folder, tensor, &source, err));
    if (where->offset > source.size_bytes || bytes > source.size_bytes - where->offset) {
        ckm_i_onnx_source_close(&source);
        return ckm_i_error_at(err, CKM_ERR_FORMAT, where->path, 0, -1,
                              "ends before the %lld bytes of tensor \"%.200s\" at %lld", (long long)bytes, tensor,
                              (long long)where->offset);
    }
    *out = source;
    return CKM_OK;
}
