// SPDX-License-Identifier: Apache-2.0
// Values of networks that run forward in .npy files, read and written in pieces.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "run/data/npy_header.h"
#include "trainer/inference.h"

// Element types of tensors as .npy files have them.
static const struct {
    ckm_dtype dtype;
    ckm_i_npy_type type;
    const char *descr;
} types[] = {
    {CKM_F32, CKM_I_NPY_F4, "<f4"}, {CKM_F64, CKM_I_NPY_F8, "<f8"},  {CKM_I8, CKM_I_NPY_I1, "|i1"},
    {CKM_U8, CKM_I_NPY_U1, "|u1"},  {CKM_I16, CKM_I_NPY_I2, "<i2"},  {CKM_I32, CKM_I_NPY_I4, "<i4"},
    {CKM_I64, CKM_I_NPY_I8, "<i8"}, {CKM_BOOL, CKM_I_NPY_B1, "|b1"},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

// Opens the file, *fd at its first element.
static ckm_status open_npy(const char *path, int *fd, ckm_dtype *dtype, ckm_i_npy_header *header, ckm_error *err)
{
    char start[CKM_I_NPY_START];
    int64_t size = 0;
    int opened = -1;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(ckm_i_file_open(path, &opened, &size, err));
    ssize_t n = pread(opened, start, sizeof start, 0);
    if (n < 0) {
        status = ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot read: %s", strerror(errno));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_npy_parse(start, (size_t)n, size, path, header, err));
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].type == header->type) {
            *dtype = types[i].dtype;
            *fd = opened;
            return CKM_OK;
        }
    }
    status = ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1,
                            "its element type is none that tensors have: convert the array with astype, for example "
                            "to float32 or int64");
cleanup:
    close(opened);
    return status;
}

ckm_status ckm_npy_describe(const char *path, ckm_dtype *dtype, ckm_shape *shape, ckm_error *err)
{
    int fd = -1;
    ckm_i_npy_header header;
    CKM_I_NEED(path, err);
    CKM_I_NEED(dtype, err);
    CKM_I_NEED(shape, err);
    CKM_I_CHECK(open_npy(path, &fd, dtype, &header, err));
    close(fd);
    *shape = header.shape;
    return CKM_OK;
}

// All of the bytes, or an error.
static ckm_status read_at(int fd, int64_t at, char *to, int64_t bytes, const char *path, ckm_error *err)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, to + done, (size_t)(bytes - done), at + done);
        if (n == 0) {
            return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "became shorter while it was read");
        }
        if (n < 0 && errno != EINTR) {
            return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot read: %s", strerror(errno));
        }
        done += n > 0 ? n : 0;
    }
    return CKM_OK;
}

ckm_status ckm_inference_read_npy(ckm_inference *f, const char *name, const char *path, ckm_error *err)
{
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED(name, err);
    CKM_I_NEED(path, err);
    int fd = -1;
    int32_t i;
    ckm_dtype dtype;
    ckm_i_npy_header header;
    CKM_I_CHECK(ckm_i_inference_find(f, name, &i, err));
    ckm_session_tensor tensor = ckm_session_get_tensor(f->session, i);
    CKM_I_CHECK(open_npy(path, &fd, &dtype, &header, err));
    ckm_status status = CKM_OK;
    char *piece = ckm_i_malloc(CKM_I_INFERENCE_PIECE, 1);
    if (piece == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_inference_accepts(&tensor, dtype, &header.shape, path, err));
    f->trainer->valued[i] = false;
    for (int64_t at = 0; at < tensor.bytes; at += CKM_I_INFERENCE_PIECE) {
        int64_t left = tensor.bytes - at;
        int64_t n = left < CKM_I_INFERENCE_PIECE ? left : CKM_I_INFERENCE_PIECE;
        CKM_I_TRY(read_at(fd, header.data_at + at, piece, n, path, err));
        CKM_I_TRY(ckm_i_inference_check(&tensor, piece, n, path, err));
        CKM_I_TRY(ckm_session_write(f->session, i, at, n, piece, err));
    }
    f->trainer->valued[i] = true;
cleanup:
    free(piece);
    close(fd);
    return status;
}

// "\x93NUMPY", version 1.0, the header's length, the header filled up so that the data begins at a multiple of 64.
static ckm_status write_header(FILE *to, const ckm_session_tensor *t, const char *path, ckm_error *err)
{
    char text[512];
    const char *descr = NULL;
    for (int i = 0; i < N_TYPES; i++) {
        descr = types[i].dtype == t->dtype ? types[i].descr : descr;
    }
    if (descr == NULL) {
        return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1, "output \"%.200s\" is %s, which is not written",
                              t->name, ckm_i_inference_type_name(t->dtype));
    }
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int32_t d = 0; d < t->shape.rank; d++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%lld,%s", (long long)t->shape.dims[d],
                      d + 1 < t->shape.rank ? " " : "");
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    const int before = 10;
    int length = (before + n + 1 + 63) / 64 * 64 - before;
    const unsigned char start[10] = {
        0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)(length & 0xff), (unsigned char)(length >> 8)};
    fwrite(start, 1, sizeof start, to);
    fprintf(to, "%-*s\n", length - 1, text);  // writing is checked at the commit
    return CKM_OK;
}

static ckm_status write_output(const ckm_inference *f, const ckm_inference_file *file, FILE *to, char *piece,
                               ckm_error *err)
{
    int32_t tensor;
    CKM_I_CHECK(ckm_i_inference_output_at(f, file->output, &tensor, err));
    ckm_session_tensor t = ckm_inference_output(f, file->output);
    CKM_I_CHECK(write_header(to, &t, file->path, err));
    for (int64_t at = 0; at < t.bytes; at += CKM_I_INFERENCE_PIECE) {
        int64_t left = t.bytes - at;
        int64_t n = left < CKM_I_INFERENCE_PIECE ? left : CKM_I_INFERENCE_PIECE;
        CKM_I_CHECK(ckm_session_read(f->session, tensor, at, n, piece, err));
        fwrite(piece, 1, (size_t)n, to);
    }
    if (ferror(to) != 0 || fflush(to) != 0) {
        return ckm_i_error_at(err, CKM_ERR_IO, file->path, 0, -1, "cannot write: %s", strerror(errno));
    }
    return CKM_OK;
}

ckm_status ckm_inference_write_npy(const ckm_inference *f, const ckm_inference_file *files, int32_t n, ckm_error *err)
{
    CKM_I_NEED_NAMED(f, "inference", err);
    CKM_I_NEED(files, err);
    ckm_status status = CKM_OK;
    ckm_i_writer *writers = ckm_i_calloc(n > 0 ? (size_t)n : 1, sizeof *writers);
    char *piece = ckm_i_malloc(CKM_I_INFERENCE_PIECE, 1);
    if (writers == NULL || piece == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    for (int32_t i = 0; i < n; i++) {
        CKM_I_TRY(ckm_i_writer_open(&writers[i], files[i].path, err));
        CKM_I_TRY(write_output(f, &files[i], writers[i].stream, piece, err));
    }
    for (int32_t i = 0; i < n; i++) {
        CKM_I_TRY(ckm_i_writer_commit(&writers[i], err));
    }
cleanup:
    for (int32_t i = 0; writers != NULL && i < n; i++) {
        ckm_i_writer_abort(&writers[i]);
    }
    free(writers);
    free(piece);
    return status;
}
