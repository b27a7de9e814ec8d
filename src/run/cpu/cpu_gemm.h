// SPDX-License-Identifier: Apache-2.0
// Matrix products that take all their memory from the caller. oneDNN's own ("gemm") allocate while they run, as much
// as processor and threads make them, which no budget could count.
#ifndef CKM_SRC_RUN_CPU_CPU_GEMM_H
#define CKM_SRC_RUN_CPU_CPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "run/cpu/cpu_tile.h"

// Axes of batches.
enum { CKM_I_GEMM_AXES = 6 };

// Writes elements of `count` rows of a, or columns of b, beginning at `first`, for `depth` steps of k beginning at k0, to
// panel[step * width + i], and zeros for i from count to width.
typedef void (*ckm_i_gemm_pack)(const void *context, int64_t batch, int64_t first, int64_t count, int64_t k0,
                                int64_t depth, int64_t width, float *panel);

// One operand, a (m x k) or b (k x n). Either elements in memory: (i, j) of batch 0 at data[i * row + j * column], one of
// the two being 1. Or, with `pack`, a matrix that exists only in pieces.
typedef struct ckm_i_gemm_operand {
    int64_t row, column;
    int64_t batch_steps[CKM_I_GEMM_AXES];  // from one batch to the next along each axis; 0 repeats
    ckm_i_gemm_pack pack;
} ckm_i_gemm_operand;

// c = alpha a b + bias, for every batch.
typedef struct ckm_i_gemm {
    int64_t m, n, k;
    ckm_i_gemm_operand a, b;
    int64_t ldc;  // between rows of c
    int64_t c_batch_steps[CKM_I_GEMM_AXES];
    int32_t n_axes;
    int64_t axes[CKM_I_GEMM_AXES];  // batches along each axis
    float alpha;
} ckm_i_gemm;

// How a product is cut into blocks and shared out among threads.
typedef struct ckm_i_gemm_plan {
    ckm_i_gemm g;
    const ckm_i_cpu_tiles *tiles;
    int64_t batches;
    bool pack_a, b_in_place;
    int64_t lanes, depth;                 // of a tile and of a block of the sum
    int64_t block_rows, block_columns;    // of c, at a time; multiples of lanes and of the tiles' columns
    int64_t b_room, a_room;               // of one thread, in numbers
    int64_t by_batch, by_row, by_column;  // parts
} ckm_i_gemm_plan;

typedef struct ckm_i_gemm_data {
    const float *a, *b;   // NULL where packed
    const void *context;  // of the pack functions
    float *c;
    const float *bias;  // by column, or NULL
} ckm_i_gemm_data;

ckm_i_gemm_plan ckm_i_gemm_make_plan(const ckm_i_gemm *g, int threads);
int64_t ckm_i_gemm_workspace_bytes(const ckm_i_gemm_plan *plan);
// `workspace`: 64-byte aligned. How sums are split depends on shapes and the level of the processor alone: neither on the
// threads nor on the buffers. c must not overlap the operands.
void ckm_i_gemm_run(const ckm_i_gemm_plan *plan, const ckm_i_gemm_data *data, int threads, void *workspace);

#endif
