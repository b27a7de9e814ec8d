// SPDX-License-Identifier: Apache-2.0
// The mask of dropout: counter-based random numbers, one for every (seed, step, key, element).
#ifndef CKM_SRC_OPS_TRAINING_REF_DROPOUT_H
#define CKM_SRC_OPS_TRAINING_REF_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"

// The stream of one operator for one batch.
uint64_t ckm_i_ref_dropout_stream(uint64_t seed, int64_t batch, int64_t key);

// Numbers of 53 bits below this one drop their element.
static inline uint64_t ckm_i_ref_dropout_threshold(double rate)
{
    return rate <= 0.0 ? 0 : rate >= 1.0 ? UINT64_C(1) << 53 : (uint64_t)(rate * 0x1p53);
}

static inline bool ckm_i_ref_dropout_keeps(uint64_t stream, uint64_t threshold, int64_t element)
{
    // SplitMix64 jumps to any place of its sequence by one multiplication.
    ckm_i_rng rng = {stream + (uint64_t)element * UINT64_C(0x9e3779b97f4a7c15)};
    return ckm_i_rng_next(&rng) >> 11 >= threshold;
}

#endif
