// SPDX-License-Identifier: Apache-2.0
// Checked 63-bit arithmetic on sizes and costs: true on success, the result in *out.
#ifndef CKM_SRC_BASE_CHECKED_H
#define CKM_SRC_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

// 128 bits, of every compiler for 64-bit machines that the project builds with.
__extension__ typedef __int128 ckm_i_wide;

static inline bool ckm_i_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool ckm_i_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
