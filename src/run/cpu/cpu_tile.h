// SPDX-License-Identifier: Apache-2.0
// Tiles of matrix products: the innermost loops of our own products and convolutions, compiled for several instruction
// sets. oneDNN's choice of the set is followed, so DNNL_MAX_CPU_ISA limits both alike.
#ifndef CKM_SRC_RUN_CPU_CPU_TILE_H
#define CKM_SRC_RUN_CPU_CPU_TILE_H

#include <stdint.h>

enum { CKM_I_CPU_TILE_MAX_LANES = 12, CKM_I_CPU_TILE_MAX_COLUMNS = 32 };

// One tile: c[i][j] = start[i][j] + sum over g, r, k of a[g, r, k][i] b[g, r, k][j], summed in that order. Lanes i of a
// are `lane` apart. Rows of b, of which the tile reads `columns` numbers each, follow each other in the order of the sum.
typedef struct ckm_i_cpu_tile {
    const float *a;
    int64_t groups, rows, depth;               // the ranges of g, r and k
    int64_t group_step, row_step, step, lane;  // of a, in elements
    const float *b;
    int64_t b_step;  // between rows of b: the tiles' columns where b is packed
    float *c;
    int64_t c_step;      // between lanes of c
    const float *start;  // NULL: zeros
    int64_t start_step;  // between lanes of start; 0: one row for all
} ckm_i_cpu_tile;

// The tiles of one instruction set: up to `lanes` by `columns`. run[n] computes n lanes and all columns.
typedef struct ckm_i_cpu_tiles {
    int32_t lanes, columns;
    int32_t depth;  // about how long sums may be, so that b stays in the first cache
    void (*const *run)(const ckm_i_cpu_tile *tile);
} ckm_i_cpu_tiles;

const ckm_i_cpu_tiles *ckm_i_cpu_tiles_best(void);

// A tile of n lanes and its first m columns; nothing else of c is written, nor of start read.
void ckm_i_cpu_tile_compute(const ckm_i_cpu_tiles *tiles, const ckm_i_cpu_tile *tile, int64_t n, int64_t m);

// How many lanes (at most `tiles->lanes`) each of the fewest parts of n has when they are as even as can be.
int64_t ckm_i_cpu_tile_lanes(const ckm_i_cpu_tiles *tiles, int64_t n);

// Packs n lanes of `depth` numbers into panels of `width` lanes: lane p * width + i, number k goes to
// to[p * width * depth + k * width + i]. Lanes that the last panel lacks become zeros. Numbers are `step` apart, lanes
// `lane`; one of the two is 1.
void ckm_i_cpu_pack(const float *from, int64_t step, int64_t lane, int64_t depth, int64_t n, int64_t width, float *to);

#endif
