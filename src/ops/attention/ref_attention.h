// SPDX-License-Identifier: Apache-2.0
// Masks of attention that follow from positions, which every kernel must read alike.
#ifndef CKM_SRC_OPS_ATTENTION_REF_ATTENTION_H
#define CKM_SRC_OPS_ATTENTION_REF_ATTENTION_H

#include <stdint.h>

// The map that windows were cut from: along each axis, its size, a window's and how far it was rolled.
typedef struct ckm_i_ref_map {
    int64_t grid[2], window[2], shift[2];
} ckm_i_ref_map;

// Windows in an image.
static inline int64_t ckm_i_ref_map_windows(const ckm_i_ref_map *m)
{
    return m->grid[0] / m->window[0] * (m->grid[1] / m->window[1]);
}

// Which of the parts that rolling brought together a position of a window belongs to: 0 or 1 along each axis. Only
// windows at the far end hold two parts. Positions see each other when their parts are the same.
static inline int64_t ckm_i_ref_map_part(const ckm_i_ref_map *m, int64_t window, int64_t position)
{
    int64_t across = m->grid[1] / m->window[1];
    int64_t at[2] = {window / across * m->window[0] + position / m->window[1],
                     window % across * m->window[1] + position % m->window[1]};
    int64_t part = 0;
    for (int i = 0; i < 2; i++) {
        part = 2 * part + (m->shift[i] > 0 && at[i] >= m->grid[i] - m->shift[i] ? 1 : 0);
    }
    return part;
}

#endif
