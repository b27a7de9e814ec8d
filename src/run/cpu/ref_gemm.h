// SPDX-License-Identifier: Apache-2.0
// Matrix product of the reference kernels.
#ifndef CKM_SRC_RUN_CPU_REF_GEMM_H
#define CKM_SRC_RUN_CPU_REF_GEMM_H

#include <stdbool.h>
#include <stdint.h>

// A matrix in memory: element (i, j) is at data[i * row + j * column].
typedef struct ckm_i_ref_matrix {
    const float *data;
    int64_t row, column;
} ckm_i_ref_matrix;

// c = a b, or c += a b: a is m by k, b is k by n, c has rows `ldc` apart and neighbouring columns. Partial sums of
// 256 products in single precision are added up in the order of k, for any m and n.
void ckm_i_ref_gemm(int64_t m, int64_t n, int64_t k, ckm_i_ref_matrix a, ckm_i_ref_matrix b, float *c, int64_t ldc,
                    bool accumulate);

#endif
