// SPDX-License-Identifier: Apache-2.0
// Arithmetic of blocks: how work is cut up and shared out.
#ifndef CKM_SRC_RUN_CPU_CPU_BLOCKS_H
#define CKM_SRC_RUN_CPU_CPU_BLOCKS_H

#include <stdint.h>

typedef struct ckm_i_range {
    int64_t begin, end;
} ckm_i_range;

static inline int64_t ckm_i_at_most(int64_t x, int64_t limit)
{
    return x < limit ? x : limit;
}

// Rounded up.
static inline int64_t ckm_i_divide_up(int64_t x, int64_t by)
{
    return (x + by - 1) / by;
}

// Part `i` of `parts` of n, in whole units.
static inline ckm_i_range ckm_i_part_of(int64_t n, int64_t unit, int64_t parts, int64_t i)
{
    int64_t units = ckm_i_divide_up(n, unit);
    return (ckm_i_range){ckm_i_at_most(units * i / parts * unit, n), ckm_i_at_most(units * (i + 1) / parts * unit, n)};
}

#endif
