// SPDX-License-Identifier: Apache-2.0
// The header of a NumPy .npy file.
#ifndef CKM_SRC_RUN_DATA_NPY_HEADER_H
#define CKM_SRC_RUN_DATA_NPY_HEADER_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

// Element types that are read; others are CKM_ERR_UNSUPPORTED.
typedef enum ckm_i_npy_type {
    CKM_I_NPY_F4,
    CKM_I_NPY_F8,
    CKM_I_NPY_U1,
    CKM_I_NPY_I1,
    CKM_I_NPY_B1,
    CKM_I_NPY_U2,
    CKM_I_NPY_I2,
    CKM_I_NPY_U4,
    CKM_I_NPY_I4,
    CKM_I_NPY_I8
} ckm_i_npy_type;

typedef struct ckm_i_npy_header {
    ckm_i_npy_type type;
    int32_t item_bytes;
    ckm_shape shape;
    int64_t data_at, elements;
} ckm_i_npy_header;

// Parses the start of a file of `size_bytes` bytes; `text` holds its first `n` bytes (CKM_I_NPY_START or the whole
// file). The shape must match the size. `path` is for errors.
#define CKM_I_NPY_START 4096
ckm_status ckm_i_npy_parse(const char *text, size_t n, int64_t size_bytes, const char *path, ckm_i_npy_header *out,
                           ckm_error *err) CKM_NODISCARD;

// The integer stored at `at`, of a type that is no real.
int64_t ckm_i_npy_integer(ckm_i_npy_type type, const uint8_t *at);

#endif
