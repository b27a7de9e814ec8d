// SPDX-License-Identifier: Apache-2.0
// Matrix products that take all their memory from the caller. oneDNN's own ("gemm") allocate while they run, as much
// as processor and threads make them, which no budget could count.
#ifndef CKM_SRC_RUN_CPU_CPU_GEMM_H
#define CKM_SRC_RUN_CPU_CPU_GEMM_H

#include <stdbool.h>
#include <stdint.h>

// Axes of batches.
enum { CKM_I_GEMM_AXES = 6 };

// One operand, a (m x k) or b (k x n). Either elements in memory: (i, j) of batch 0 at data[i * row + j * column]. Or a
// matrix that exists only in pieces: `pack` writes elements of `count` rows of a, or columns of b, beginning at
// `first`, for `depth` steps of k beginning at k0, to panel[step * width + i], and zeros for i from count to width.
typedef struct ckm_i_gemm_operand {
    const float *data;
    int64_t row, column;
    void (*pack)(const void *context, int64_t batch, int64_t first, int64_t count, int64_t k0, int64_t depth,
                 int64_t width, float *panel);
    const void *context;
    int64_t batch_steps[CKM_I_GEMM_AXES];  // from one batch to the next along each axis; 0 repeats
} ckm_i_gemm_operand;

// c = alpha a b + bias, for every batch.
typedef struct ckm_i_gemm {
    int64_t m, n, k;
    ckm_i_gemm_operand a, b;
    float *c;
    int64_t ldc;  // between rows
    int64_t c_batch_steps[CKM_I_GEMM_AXES];
    int32_t n_axes;
    int64_t axes[CKM_I_GEMM_AXES];  // batches along each axis
    float alpha;
    const float *bias;  // by column, or NULL
} ckm_i_gemm;

// Bytes of workspace on up to `threads` threads; pointers in `g` need not be set, but a.pack and b.pack.
// A bound that holds on any processor.
int64_t ckm_i_gemm_workspace(const ckm_i_gemm *g, int threads);
// `workspace`: 64-byte aligned. How sums are split depends on the level of the processor and on nothing else: neither
// on the threads nor on the buffers. c must not overlap the operands.
void ckm_i_gemm_run(const ckm_i_gemm *g, int threads, void *workspace);

#endif
