// SPDX-License-Identifier: Apache-2.0
// Bytes of an ONNX model, from memory or through a window into an open file. Reading instead of mapping
// keeps a file that shrinks meanwhile an error rather than a signal, and the memory in use constant.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "import/onnx_skim.h"

enum { WINDOW_BYTES = 65536 };

ckm_status ckm_i_onnx_source_take(ckm_i_onnx_source *source, int fd, int64_t size_bytes, ckm_error *err)
{
    uint8_t *window = ckm_i_malloc(WINDOW_BYTES, 1);
    if (window == NULL) {
        close(fd);
        return ckm_i_error_memory(err);
    }
    *source = (ckm_i_onnx_source){.fd = fd, .size_bytes = size_bytes, .window = window};
    return CKM_OK;
}

ckm_status ckm_i_onnx_source_open(ckm_i_onnx_source *source, const char *path, ckm_error *err)
{
    int fd = -1;
    int64_t size_bytes = 0;
    CKM_I_CHECK(ckm_i_file_open(path, &fd, &size_bytes, err));
    return ckm_i_onnx_source_take(source, fd, size_bytes, err);
}

void ckm_i_onnx_source_memory(ckm_i_onnx_source *source, const void *data, size_t size_bytes)
{
    static const uint8_t nothing[1];
    *source = (ckm_i_onnx_source){
        .data = data != NULL ? data : nothing, .fd = -1, .size_bytes = data != NULL ? (int64_t)size_bytes : 0};
}

void ckm_i_onnx_source_close(ckm_i_onnx_source *source)
{
    if (source->fd >= 0) {
        close(source->fd);
    }
    free(source->window);
    *source = (ckm_i_onnx_source){.fd = -1};
}

// Reads exactly n bytes of the file.
static ckm_status read_file(const ckm_i_onnx_source *source, int64_t at, int64_t n, uint8_t *out, ckm_error *err)
{
    int64_t done = 0;
    while (done < n) {
        ssize_t got = pread(source->fd, out + done, (size_t)(n - done), (off_t)(at + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return ckm_i_error_at(err, CKM_ERR_IO, NULL, 0, at + done, "cannot read: %s", strerror(errno));
        }
        if (got == 0) {
            return ckm_i_error_at(err, CKM_ERR_IO, NULL, 0, at + done, "the file became shorter while it was read");
        }
        done += got;
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_source_read(ckm_i_onnx_source *source, int64_t at, int64_t n, uint8_t *out, ckm_error *err)
{
    if (source->data != NULL) {
        memcpy(out, source->data + at, (size_t)n);
        return CKM_OK;
    }
    if (n > WINDOW_BYTES / 4) {
        return read_file(source, at, n, out, err);
    }
    if (at < source->window_at || at + n > source->window_at + source->window_bytes) {
        int64_t left = source->size_bytes - at;
        int64_t wanted = left < WINDOW_BYTES ? left : WINDOW_BYTES;
        ckm_status status = read_file(source, at, wanted, source->window, err);
        if (status != CKM_OK) {
            source->window_bytes = 0;
            return status;
        }
        source->window_at = at;
        source->window_bytes = wanted;
    }
    memcpy(out, source->window + (at - source->window_at), (size_t)n);
    return CKM_OK;
}
