// SPDX-License-Identifier: Apache-2.0
// SplitMix64 (Steele, Lea, Flood 2014): a small, seedable generator with 64 bits of state.
#ifndef CKM_SRC_BASE_RNG_H
#define CKM_SRC_BASE_RNG_H

#include <stdint.h>

typedef struct ckm_i_rng {
    uint64_t state;
} ckm_i_rng;

static inline uint64_t ckm_i_rng_next(ckm_i_rng *rng)
{
    uint64_t z = (rng->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

// Uniform in [0, n), n >= 1, by Lemire's multiply-shift (bias below n / 2^32).
static inline uint32_t ckm_i_rng_below(ckm_i_rng *rng, uint32_t n)
{
    return (uint32_t)(((ckm_i_rng_next(rng) >> 32) * n) >> 32);
}

// Uniform in [0, 1).
static inline double ckm_i_rng_unit(ckm_i_rng *rng)
{
    return (double)(ckm_i_rng_next(rng) >> 11) * 0x1p-53;
}

#endif
