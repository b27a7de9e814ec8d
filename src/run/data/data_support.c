// SPDX-License-Identifier: Apache-2.0
// Data: what readers share. Files, fields, classes.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "graph/graph.h"
#include "run/data/data.h"

char *ckm_i_data_path(const char *folder, const char *name)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *path = ckm_i_malloc(room, 1);
    if (path != NULL) {
        snprintf(path, room, "%s/%s", folder, name);
    }
    return path;
}

static bool has(const char *folder, const char *name, bool wants_folder)
{
    struct stat facts;
    char *path = ckm_i_data_path(folder, name);
    bool found = path != NULL && stat(path, &facts) == 0 &&
                 (wants_folder ? S_ISDIR(facts.st_mode) : S_ISREG(facts.st_mode));
    free(path);
    return found;
}

bool ckm_i_data_has_file(const char *folder, const char *name)
{
    return has(folder, name, false);
}

bool ckm_i_data_has_folder(const char *folder, const char *name)
{
    return has(folder, name, true);
}

ckm_status ckm_i_data_pread(int fd, const char *path, int64_t at, int64_t n, void *out, ckm_error *err)
{
    int64_t done = 0;
    while (done < n) {
        ssize_t got = pread(fd, (char *)out + done, (size_t)(n - done), (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return ckm_i_error_at(err, CKM_ERR_IO, path, 0, at + done, "cannot read: %s", strerror(errno));
        }
        if (got == 0) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, at + done, "the file ends too early");
        }
        done += got;
    }
    return CKM_OK;
}

int64_t ckm_i_data_elements(const ckm_data_field *field)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < field->shape.rank; i++) {
        elements *= field->shape.dims[i];
    }
    return elements;
}

int64_t ckm_i_data_field_bytes(const ckm_data_field *field)
{
    return ckm_i_data_elements(field) * ckm_i_dtype_bytes(field->dtype);
}

ckm_status ckm_i_data_store_class(const ckm_i_data_source *source, const char *path, int64_t sample,
                                  int64_t class_number, void *labels, ckm_error *err)
{
    int64_t limit = source->options->labels.limit;
    if (class_number < 0 || class_number > INT32_MAX || (limit > 0 && class_number >= limit)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "sample %lld: label %lld is out of range: the network has %lld classes, 0 to %lld",
                              (long long)sample, (long long)class_number, (long long)limit, (long long)(limit - 1));
    }
    *(int32_t *)labels = (int32_t)class_number;
    return CKM_OK;
}

ckm_status ckm_i_data_require_classes(const ckm_data_options *options, const char *format, ckm_error *err)
{
    if (options->n_inputs != 1 || options->inputs[0].dtype != CKM_F32) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "%s data are images, but the network takes %d inputs, the first one \"%.100s\" of %s; give "
                           "the data as .npy files, one for each input",
                           format, (int)options->n_inputs, options->inputs[0].name,
                           options->inputs[0].dtype == CKM_F32 ? "reals" : "integers");
    }
    if (options->labels.dtype != CKM_I32 || ckm_i_data_elements(&options->labels) != 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "%s data give one class a sample, but the loss of this network takes %s; give the data as "
                           "x.npy and y.npy",
                           format, options->labels.dtype == CKM_I32 ? "a class for every position" : "real targets");
    }
    return CKM_OK;
}
