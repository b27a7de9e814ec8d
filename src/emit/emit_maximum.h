// SPDX-License-Identifier: Apache-2.0
// Where the largest value of any stretch of an array is, in constant time after O(n log n): for every power of two the
// largest of each stretch of that length; two that overlap cover any stretch.
#ifndef CKM_SRC_EMIT_EMIT_MAXIMUM_H
#define CKM_SRC_EMIT_EMIT_MAXIMUM_H

#include <checkmate/base.h>

typedef struct ckm_i_maximum {
    const int64_t *values;  // borrowed
    int64_t n;
    int levels;
    int64_t *at;  // levels * n positions
} ckm_i_maximum;

ckm_status ckm_i_maximum_init(ckm_i_maximum *m, const int64_t *values, int64_t n, ckm_error *err) CKM_NODISCARD;
void ckm_i_maximum_dispose(ckm_i_maximum *m);
// Position of the largest value in first..last (both included, not empty); the first one where several are.
int64_t ckm_i_maximum_at(const ckm_i_maximum *m, int64_t first, int64_t last);

#endif
