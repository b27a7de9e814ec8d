// SPDX-License-Identifier: Apache-2.0
// The innermost part of matrix products: one tile of the result, held in registers, for the processor at hand.
#ifndef CKM_SRC_RUN_CPU_CPU_GEMM_TILE_H
#define CKM_SRC_RUN_CPU_CPU_GEMM_TILE_H

#include <stdbool.h>
#include <stdint.h>

// c = alpha a b + bias, or c += alpha a b, for at most `rows` x `columns` of the level's tile.
typedef struct ckm_i_gemm_tile {
    int64_t depth;
    const float *a;  // rows a_step apart, along the depth one after the other; packed when a_step is 0
    int64_t a_step;  // packed: element (i, k) at a[k * (rows of the level) + i]
    const float *b;  // element (k, j) at b[k * b_step + j], all columns of the level readable
    int64_t b_step;
    float *c;
    int64_t ldc;
    int64_t rows, columns;  // that are there
    float alpha;
    const float *bias;  // by column, or NULL
    bool add;           // to c; without bias
} ckm_i_gemm_tile;

// A tile's shape, and the function that computes it.
typedef struct ckm_i_gemm_level {
    int64_t rows, columns;
    void (*run)(const ckm_i_gemm_tile *tile);
} ckm_i_gemm_level;

// For the instruction sets that oneDNN may use here, which DNNL_MAX_CPU_ISA can limit.
ckm_i_gemm_level ckm_i_gemm_level_here(void);

#endif
