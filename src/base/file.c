// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

ckm_status ckm_i_file_read(const char *path, int64_t max_bytes, char **data, size_t *size_bytes, ckm_error *err)
{
    ckm_status status = CKM_OK;
    char *buffer = NULL;
    size_t size = 0;
    size_t capacity = 0;
    struct stat facts;
    bool from_stdin = strcmp(path, "-") == 0;
    FILE *file = from_stdin ? stdin : fopen(path, "rb");
    if (file == NULL) {
        return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot open: %s", strerror(errno));
    }
    if (fstat(fileno(file), &facts) == 0 && S_ISDIR(facts.st_mode)) {
        status = ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "is a directory, not a file");
        goto cleanup;
    }
    for (;;) {
        if (size + 1 >= capacity) {
            capacity = capacity == 0 ? 65536 : capacity * 2;
            char *grown = ckm_i_realloc(buffer, capacity, 1);
            if (grown == NULL) {
                status = ckm_i_error_memory(err);
                goto cleanup;
            }
            buffer = grown;
        }
        size_t got = fread(buffer + size, 1, capacity - size - 1, file);
        size += got;
        if (got == 0) {
            break;
        }
        if ((int64_t)size > max_bytes) {
            status = ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1, "larger than %lld bytes",
                                    (long long)max_bytes);
            goto cleanup;
        }
    }
    if (ferror(file)) {
        status = ckm_i_error_at(err, CKM_ERR_IO, path, 0, (int64_t)size, "cannot read: %s", strerror(errno));
        goto cleanup;
    }
    buffer[size] = '\0';
    *data = buffer;
    *size_bytes = size;
    buffer = NULL;
cleanup:
    free(buffer);
    if (!from_stdin) {
        fclose(file);
    }
    return status;
}

ckm_status ckm_i_writer_open(ckm_i_writer *w, const char *path, ckm_error *err)
{
    *w = (ckm_i_writer){0};
    w->path = ckm_i_strdup(path);
    if (w->path == NULL) {
        return ckm_i_error_memory(err);
    }
    struct stat facts;
    bool direct = strcmp(path, "-") == 0 || (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode));
    if (strcmp(path, "-") == 0) {
        w->stream = stdout;
        return CKM_OK;
    }
    if (direct) {
        w->stream = fopen(path, "wb");
    } else {
        size_t room = strlen(path) + 32;
        w->temporary = ckm_i_malloc(room, 1);
        if (w->temporary == NULL) {
            ckm_i_writer_abort(w);
            return ckm_i_error_memory(err);
        }
        snprintf(w->temporary, room, "%s.tmp.%ld", path, (long)getpid());
        w->stream = fopen(w->temporary, "wb");
    }
    if (w->stream == NULL) {
        ckm_status status = ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot open for writing: %s",
                                           strerror(errno));
        free(w->temporary);
        w->temporary = NULL;
        ckm_i_writer_abort(w);
        return status;
    }
    return CKM_OK;
}

ckm_status ckm_i_writer_commit(ckm_i_writer *w, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool failed = fflush(w->stream) != 0 || ferror(w->stream) != 0;
    if (!failed && w->temporary != NULL) {
        failed = fsync(fileno(w->stream)) != 0;
    }
    int reason = errno;
    if (w->stream != stdout) {
        if (fclose(w->stream) != 0 && !failed) {
            failed = true;
            reason = errno;
        }
    }
    w->stream = NULL;
    if (!failed && w->temporary != NULL && rename(w->temporary, w->path) != 0) {
        failed = true;
        reason = errno;
    }
    if (failed) {
        status = ckm_i_error_at(err, CKM_ERR_IO, w->path, 0, -1, "cannot write: %s", strerror(reason));
    } else {
        free(w->temporary);
        w->temporary = NULL;
    }
    ckm_i_writer_abort(w);
    return status;
}

void ckm_i_writer_abort(ckm_i_writer *w)
{
    if (w->stream != NULL && w->stream != stdout) {
        fclose(w->stream);
    }
    if (w->temporary != NULL) {
        unlink(w->temporary);
    }
    free(w->temporary);
    free(w->path);
    *w = (ckm_i_writer){0};
}
