// SPDX-License-Identifier: Apache-2.0
// Reading files. Opening never waits: a pipe instead of a file is an error or is read, as the function says.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file_below.h"

static ckm_status cannot(const char *path, const char *what, int reason, ckm_error *err)
{
    return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot %s: %s", what, strerror(reason));
}

static ckm_status not_a_file(const char *path, mode_t mode, ckm_error *err)
{
    const char *what = S_ISDIR(mode)                    ? "a directory"
                       : S_ISFIFO(mode)                 ? "a pipe"
                       : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
                                                        : "a socket";
    return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "is %s, not a file", what);
}

// Opens a file of any kind, without waiting for a writer and without taking over a terminal.
static ckm_status open_any(const char *path, int *fd, struct stat *facts, ckm_error *err)
{
    int opened;
    do {
        opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (opened < 0 && errno == EINTR);
    if (opened < 0) {
        // A socket cannot be opened at all.
        return errno == ENXIO && stat(path, facts) == 0 ? not_a_file(path, facts->st_mode, err)
                                                        : cannot(path, "open", errno, err);
    }
    if (fstat(opened, facts) != 0) {
        int reason = errno;
        close(opened);
        return cannot(path, "read", reason, err);
    }
    *fd = opened;
    return CKM_OK;
}

// Only a regular file; any other is closed.
static ckm_status accept_file(const char *path, int opened, const struct stat *facts, int *fd, int64_t *size_bytes,
                              ckm_error *err)
{
    if (!S_ISREG(facts->st_mode)) {
        close(opened);
        return not_a_file(path, facts->st_mode, err);
    }
    *fd = opened;
    *size_bytes = (int64_t)facts->st_size;
    return CKM_OK;
}

ckm_status ckm_i_file_open(const char *path, int *fd, int64_t *size_bytes, ckm_error *err)
{
    struct stat facts;
    int opened = -1;
    CKM_I_CHECK(open_any(path, &opened, &facts, err));
    return accept_file(path, opened, &facts, fd, size_bytes, err);
}

ckm_status ckm_i_file_open_below(int folder, const char *path, const char *shown, ckm_i_below how, int *fd,
                                 int64_t *size_bytes, ckm_error *err)
{
    struct stat facts;
    int opened = ckm_i_below_open(folder, path, how);
    if (opened < 0 && errno == EXDEV) {
        return CKM_ERR_ARGUMENT;
    }
    if (opened < 0 && errno == ENXIO) {
        return ckm_i_error_at(err, CKM_ERR_IO, shown, 0, -1, "is a socket, not a file");
    }
    if (opened < 0) {
        return cannot(shown, "open", errno, err);
    }
    if (fstat(opened, &facts) != 0) {
        int reason = errno;
        close(opened);
        return cannot(shown, "read", reason, err);
    }
    return accept_file(shown, opened, &facts, fd, size_bytes, err);
}

ckm_status ckm_i_file_open_stream(const char *path, FILE **out, ckm_error *err)
{
    int fd = -1;
    int64_t size_bytes;
    CKM_I_CHECK(ckm_i_file_open(path, &fd, &size_bytes, err));
    FILE *stream = fdopen(fd, "rb");
    if (stream == NULL) {
        close(fd);
        return ckm_i_error_memory(err);
    }
    *out = stream;
    return CKM_OK;
}

// A pipe with neither content nor a writer would look like an empty file. With a writer, waits for data. *first is the
// number of bytes of `buffer` that this filled.
static ckm_status open_pipe(const char *path, int fd, char *buffer, size_t room, size_t *first, ckm_error *err)
{
    ssize_t got;
    do {
        got = read(fd, buffer, room);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "is a pipe, and nothing writes to it");
    }
    if (got < 0 && errno != EAGAIN) {
        return cannot(path, "read", errno, err);
    }
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        return cannot(path, "read", errno, err);
    }
    *first = got > 0 ? (size_t)got : 0;
    return CKM_OK;
}

// Reads to the end, from *size on. The buffer keeps room for the zero byte.
static ckm_status read_all(const char *path, int fd, int64_t max_bytes, char **buffer, size_t *capacity, size_t *size,
                           ckm_error *err)
{
    for (;;) {
        if ((int64_t)*size > max_bytes) {
            return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1, "larger than %lld bytes",
                                  (long long)max_bytes);
        }
        if (*size + 1 >= *capacity) {
            char *grown = ckm_i_realloc(*buffer, *capacity * 2, 1);
            if (grown == NULL) {
                return ckm_i_error_memory(err);
            }
            *buffer = grown;
            *capacity *= 2;
        }
        ssize_t got = read(fd, *buffer + *size, *capacity - *size - 1);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return ckm_i_error_at(err, CKM_ERR_IO, path, 0, (int64_t)*size, "cannot read: %s", strerror(errno));
        }
        if (got == 0) {
            return CKM_OK;
        }
        *size += (size_t)got;
    }
}

ckm_status ckm_i_file_read(const char *path, int64_t max_bytes, char **data, size_t *size_bytes, ckm_error *err)
{
    enum { FIRST_BYTES = 65536 };
    ckm_status status = CKM_OK;
    size_t size = 0;
    size_t capacity = FIRST_BYTES;
    struct stat facts;
    bool from_stdin = strcmp(path, "-") == 0 || strcmp(path, "/dev/stdin") == 0;
    int fd = STDIN_FILENO;
    char *buffer = ckm_i_malloc(capacity, 1);
    if (buffer == NULL) {
        return ckm_i_error_memory(err);
    }
    if (from_stdin) {
        if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) {
            status = not_a_file(path, facts.st_mode, err);
            goto cleanup;
        }
    } else {
        fd = -1;
        CKM_I_TRY(open_any(path, &fd, &facts, err));
        if (S_ISFIFO(facts.st_mode)) {
            CKM_I_TRY(open_pipe(path, fd, buffer, capacity - 1, &size, err));
        } else if (!S_ISREG(facts.st_mode)) {
            status = not_a_file(path, facts.st_mode, err);
            goto cleanup;
        }
    }
    CKM_I_TRY(read_all(path, fd, max_bytes, &buffer, &capacity, &size, err));
    buffer[size] = '\0';
    *data = buffer;
    *size_bytes = size;
    buffer = NULL;
cleanup:
    free(buffer);
    if (!from_stdin && fd >= 0) {
        close(fd);
    }
    return status;
}
