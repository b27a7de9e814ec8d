// SPDX-License-Identifier: Apache-2.0
// Fixed-size bitsets over uint64_t words that the caller owns.
#ifndef CKM_SRC_BASE_BITSET_H
#define CKM_SRC_BASE_BITSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t ckm_i_bits_words(int64_t n)
{
    return (size_t)((n + 63) / 64);
}

static inline bool ckm_i_bits_get(const uint64_t *bits, int64_t i)
{
    return (bits[i >> 6] >> (i & 63)) & 1U;
}

static inline void ckm_i_bits_set(uint64_t *bits, int64_t i)
{
    bits[i >> 6] |= UINT64_C(1) << (i & 63);
}

static inline void ckm_i_bits_clear(uint64_t *bits, int64_t i)
{
    bits[i >> 6] &= ~(UINT64_C(1) << (i & 63));
}

#endif
