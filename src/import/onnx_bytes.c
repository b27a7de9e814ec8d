// SPDX-License-Identifier: Apache-2.0
#include "import/onnx_bytes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "import/onnx_wire.h"

void ckm_i_bytes_free(ckm_i_bytes *b)
{
    free(b->data);
    *b = (ckm_i_bytes){0};
}

void ckm_i_bytes_put(ckm_i_bytes *b, const void *bytes, size_t n)
{
    if (b->failed || n == 0) {
        return;
    }
    if (b->cap - b->n < n) {
        size_t cap = 2 * b->cap + n + 64;
        uint8_t *data = ckm_i_malloc(cap, 1);
        if (data == NULL) {
            b->failed = true;
            return;
        }
        if (b->n > 0) {
            memcpy(data, b->data, b->n);
        }
        free(b->data);
        b->data = data;
        b->cap = cap;
    }
    memcpy(b->data + b->n, bytes, n);
    b->n += n;
}

void ckm_i_bytes_varint(ckm_i_bytes *b, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    bytes[n++] = (uint8_t)value;
    ckm_i_bytes_put(b, bytes, n);
}

static void put_key(ckm_i_bytes *b, uint32_t number, int type)
{
    ckm_i_bytes_varint(b, number << 3 | (uint32_t)type);
}

void ckm_i_bytes_int(ckm_i_bytes *b, uint32_t number, int64_t value)
{
    put_key(b, number, CKM_I_WIRE_VARINT);
    ckm_i_bytes_varint(b, (uint64_t)value);
}

void ckm_i_bytes_float(ckm_i_bytes *b, uint32_t number, float value)
{
    put_key(b, number, CKM_I_WIRE_32);
    ckm_i_bytes_put(b, &value, sizeof value);
}

void ckm_i_bytes_head(ckm_i_bytes *b, uint32_t number, int64_t n)
{
    put_key(b, number, CKM_I_WIRE_BYTES);
    ckm_i_bytes_varint(b, (uint64_t)n);
}

void ckm_i_bytes_field(ckm_i_bytes *b, uint32_t number, const void *bytes, size_t n)
{
    ckm_i_bytes_head(b, number, (int64_t)n);
    ckm_i_bytes_put(b, bytes, n);
}

void ckm_i_bytes_text(ckm_i_bytes *b, uint32_t number, const char *text)
{
    ckm_i_bytes_field(b, number, text, strlen(text));
}

void ckm_i_bytes_message(ckm_i_bytes *b, uint32_t number, ckm_i_bytes *of)
{
    ckm_i_bytes_field(b, number, of->data, of->n);
    b->failed = b->failed || of->failed;
    of->n = 0;
}
