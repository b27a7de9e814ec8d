// SPDX-License-Identifier: Apache-2.0
#include "base/alloc.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void *ckm_i_malloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PTRDIFF_MAX) {
        return NULL;
    }
    return malloc(bytes > 0 ? bytes : 1);
}

void *ckm_i_calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PTRDIFF_MAX) {
        return NULL;
    }
    return calloc(1, bytes > 0 ? bytes : 1);
}

void *ckm_i_realloc(void *pointer, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > (size_t)PTRDIFF_MAX) {
        return NULL;
    }
    return realloc(pointer, bytes > 0 ? bytes : 1);
}

char *ckm_i_strdup(const char *text)
{
    return ckm_i_memdup(text, strlen(text) + 1, 1);
}

void *ckm_i_memdup(const void *data, size_t count, size_t size)
{
    void *copy = ckm_i_malloc(count, size);
    if (copy != NULL && count > 0 && size > 0) {
        memcpy(copy, data, count * size);
    }
    return copy;
}

bool ckm_i_grow64(void **items, size_t size, int64_t n, int64_t *cap)
{
    if (n < *cap) {
        return true;
    }
    int64_t wanted = *cap < 8 ? 16 : *cap + *cap / 2;
    void *grown = ckm_i_realloc(*items, (size_t)wanted, size);
    if (grown == NULL) {
        return false;
    }
    *items = grown;
    *cap = wanted;
    return true;
}

bool ckm_i_grow32(void **items, size_t size, int64_t n, int32_t *cap)
{
    int64_t wide = *cap;
    if (wide >= INT32_MAX / 2 || !ckm_i_grow64(items, size, n, &wide)) {
        return n < *cap;
    }
    *cap = (int32_t)wide;
    return true;
}
