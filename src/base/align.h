// SPDX-License-Identifier: Apache-2.0
// Where buffers begin, and rounding up.
#ifndef CKM_SRC_BASE_ALIGN_H
#define CKM_SRC_BASE_ALIGN_H

#include "base/checked.h"

// Buffers in an arena begin at multiples of this, a power of two, and take multiples of it: a cache line, and the widest
// vector a kernel loads.
enum { CKM_I_ALIGNMENT = 64 };

// The least multiple of `to` > 0 that is at least `n` >= 0. False when it does not fit 63 bits; *out is then untouched.
static inline bool ckm_i_round_up(int64_t n, int64_t to, int64_t *out)
{
    int64_t padded;
    if (!ckm_i_add(n, to - 1, &padded)) {
        return false;
    }
    *out = padded - padded % to;
    return true;
}

#endif
