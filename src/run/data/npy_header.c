// SPDX-License-Identifier: Apache-2.0
// "\x93NUMPY", version, length, then a Python dictionary such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }.
#include "run/data/npy_header.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

static const struct {
    const char *descr;
    ckm_i_npy_type type;
    int32_t bytes;
} types[] = {
    {"<f4", CKM_I_NPY_F4, 4}, {"<f8", CKM_I_NPY_F8, 8}, {"|u1", CKM_I_NPY_U1, 1}, {"|i1", CKM_I_NPY_I1, 1},
    {"|b1", CKM_I_NPY_B1, 1}, {"<u2", CKM_I_NPY_U2, 2}, {"<i2", CKM_I_NPY_I2, 2}, {"<u4", CKM_I_NPY_U4, 4},
    {"<i4", CKM_I_NPY_I4, 4}, {"<i8", CKM_I_NPY_I8, 8},
};

static ckm_status broken(const char *path, const char *what, ckm_error *err)
{
    return ckm_i_error_at(err, CKM_ERR_FORMAT, path, 0, 0, "is not a readable .npy file: %s", what);
}

// Where the value of a key starts, or NULL. `text` ends with a zero byte.
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    if (at == NULL) {
        return NULL;
    }
    at += strlen(key);
    at += strspn(at, " ");
    if (*at != ':') {
        return NULL;
    }
    at++;
    return at + strspn(at, " ");
}

static ckm_status parse_type(const char *at, const char *path, ckm_i_npy_header *h, ckm_error *err)
{
    if (at == NULL || *at != '\'') {
        return broken(path, "its header has no element type", err);
    }
    int length = (int)strcspn(at + 1, "'");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (length == 3 && strncmp(at + 1, types[i].descr, 3) == 0) {
            h->type = types[i].type;
            h->item_bytes = types[i].bytes;
            return CKM_OK;
        }
    }
    return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1,
                          "element type '%.*s' is not supported; convert the array with astype, for example to "
                          "float32, uint8 or int64",
                          length < 40 ? length : 40, at + 1);
}

static ckm_status parse_shape(const char *at, const char *path, ckm_i_npy_header *h, ckm_error *err)
{
    if (at == NULL || *at != '(') {
        return broken(path, "its header has no shape", err);
    }
    h->elements = 1;
    for (at++; *at != ')';) {
        int64_t dim = 0;
        if (*at < '0' || *at > '9' || h->shape.rank == CKM_MAX_RANK) {
            return broken(path, "its shape is not a list of at most 8 numbers", err);
        }
        for (; *at >= '0' && *at <= '9'; at++) {
            if (!ckm_i_mul(dim, 10, &dim) || !ckm_i_add(dim, *at - '0', &dim)) {
                return broken(path, "its shape is too large", err);
            }
        }
        if (!ckm_i_mul(h->elements, dim, &h->elements)) {
            return broken(path, "its shape is too large", err);
        }
        h->shape.dims[h->shape.rank++] = dim;
        at += strspn(at, " ,");
    }
    return CKM_OK;
}

ckm_status ckm_i_npy_parse(const char *text, size_t n, int64_t size_bytes, const char *path, ckm_i_npy_header *out,
                           ckm_error *err)
{
    char header[CKM_I_NPY_START + 1];
    const unsigned char *bytes = (const unsigned char *)text;
    ckm_i_npy_header h = {0};
    if (n < 12 || memcmp(text, "\x93NUMPY", 6) != 0) {
        return broken(path, "it does not start with \\x93NUMPY", err);
    }
    size_t start = bytes[6] == 1 ? 10 : 12;
    size_t length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (bytes[6] != 1) {
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    if (bytes[6] < 1 || bytes[6] > 3 || length > n - start || length > CKM_I_NPY_START) {
        return broken(path, "its header is cut off, too long, or of an unknown version", err);
    }
    memcpy(header, text + start, length);
    header[length] = '\0';
    if (strlen(header) != length) {
        return broken(path, "its header holds a zero byte", err);
    }
    CKM_I_CHECK(parse_type(value_of(header, "'descr'"), path, &h, err));
    CKM_I_CHECK(parse_shape(value_of(header, "'shape'"), path, &h, err));
    const char *order = value_of(header, "'fortran_order'");
    if (order == NULL || strncmp(order, "False", 5) != 0) {
        return ckm_i_error_at(
            err, CKM_ERR_UNSUPPORTED, path, 0, -1,
            "the array is stored column by column (fortran_order); save numpy.ascontiguousarray of it");
    }
    h.data_at = (int64_t)(start + length);
    int64_t data_bytes;
    if (!ckm_i_mul(h.elements, h.item_bytes, &data_bytes) || data_bytes != size_bytes - h.data_at) {
        return broken(path, "its size does not match its shape", err);
    }
    *out = h;
    return CKM_OK;
}

int64_t ckm_i_npy_integer(ckm_i_npy_type type, const uint8_t *at)
{
    uint16_t half;
    uint32_t word;
    uint64_t twice;
    switch (type) {
    case CKM_I_NPY_U1:
        return *at;
    case CKM_I_NPY_B1:
        return *at != 0;
    case CKM_I_NPY_I1:
        return (int8_t)*at;
    case CKM_I_NPY_U2:
    case CKM_I_NPY_I2:
        memcpy(&half, at, sizeof half);
        return type == CKM_I_NPY_U2 ? (int64_t)half : (int64_t)(int16_t)half;
    case CKM_I_NPY_U4:
    case CKM_I_NPY_I4:
        memcpy(&word, at, sizeof word);
        return type == CKM_I_NPY_U4 ? (int64_t)word : (int64_t)(int32_t)word;
    default:
        memcpy(&twice, at, sizeof twice);
        return (int64_t)twice;
    }
}
