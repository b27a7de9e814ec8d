// SPDX-License-Identifier: Apache-2.0
// Building protobuf messages byte by byte. A failed allocation sticks.
#ifndef CKM_SRC_IMPORT_ONNX_BYTES_H
#define CKM_SRC_IMPORT_ONNX_BYTES_H

#include <checkmate/base.h>

// Protobuf's limit on a message.
#define CKM_I_ONNX_MOST_BYTES ((INT64_C(1) << 31) - 1)

typedef struct ckm_i_bytes {
    uint8_t *data;
    size_t n, cap;
    bool failed;
} ckm_i_bytes;

void ckm_i_bytes_free(ckm_i_bytes *b);
void ckm_i_bytes_put(ckm_i_bytes *b, const void *bytes, size_t n);
void ckm_i_bytes_varint(ckm_i_bytes *b, uint64_t value);
// Fields of those numbers.
void ckm_i_bytes_int(ckm_i_bytes *b, uint32_t number, int64_t value);
void ckm_i_bytes_float(ckm_i_bytes *b, uint32_t number, float value);
void ckm_i_bytes_field(ckm_i_bytes *b, uint32_t number, const void *bytes, size_t n);
void ckm_i_bytes_text(ckm_i_bytes *b, uint32_t number, const char *text);
// The key and the length of a field whose bytes follow.
void ckm_i_bytes_head(ckm_i_bytes *b, uint32_t number, int64_t n);
// A field with the bytes of `of`, which is empty afterwards.
void ckm_i_bytes_message(ckm_i_bytes *b, uint32_t number, ckm_i_bytes *of);

#endif
