// SPDX-License-Identifier: Apache-2.0
// Allocation with checked sizes, and growing arrays.
#ifndef CKM_SRC_BASE_ALLOC_H
#define CKM_SRC_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

// count * size bytes; NULL on overflow or exhaustion. count == 0 gives a valid pointer.
void *ckm_i_malloc(size_t count, size_t size);
void *ckm_i_calloc(size_t count, size_t size);
void *ckm_i_realloc(void *pointer, size_t count, size_t size);
char *ckm_i_strdup(const char *text);
void *ckm_i_memdup(const void *data, size_t count, size_t size);

// Makes room for one more element in array `items` of `n` elements with capacity `cap` (an int32_t or
// int64_t lvalue). Evaluates to false when memory is exhausted, leaving everything as it was.
#define CKM_I_GROW(items, n, cap) ckm_i_grow((void **)&(items), sizeof *(items), (int64_t)(n), &(cap))
_Bool ckm_i_grow32(void **items, size_t size, int64_t n, int32_t *cap);
_Bool ckm_i_grow64(void **items, size_t size, int64_t n, int64_t *cap);
#define ckm_i_grow(items, size, n, cap) \
    _Generic((cap), int32_t * : ckm_i_grow32, int64_t * : ckm_i_grow64)((items), (size), (n), (cap))

#endif
