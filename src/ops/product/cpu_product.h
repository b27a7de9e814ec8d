// SPDX-License-Identifier: Apache-2.0
// Matrix products: what one is, and a kernel of our own for it.
#ifndef CKM_SRC_OPS_PRODUCT_CPU_PRODUCT_H
#define CKM_SRC_OPS_PRODUCT_CPU_PRODUCT_H

#include "run/cpu/cpu_backend.h"

// One product c = alpha a b + bias over batches; dimensions and strides are batches..., rows, columns. An axis of
// batches on which a or b has 1 element is the same matrix for all of c's. c is dense; of the last two strides of a
// and of b one is 1.
typedef struct ckm_i_cpu_product {
    int32_t rank;
    int64_t a_dims[CKM_MAX_RANK], b_dims[CKM_MAX_RANK], c_dims[CKM_MAX_RANK], bias_dims[CKM_MAX_RANK];
    int64_t a_strides[CKM_MAX_RANK], b_strides[CKM_MAX_RANK];
    int32_t a_input, b_input, bias_input;  // operands of the operator; -1: no bias
    float alpha;
} ckm_i_cpu_product;

// A kernel that takes all the memory it needs from the workspace. Sums do not depend on the number of threads.
ckm_status ckm_i_cpu_product_prepare(const ckm_i_cpu *cpu, const ckm_i_cpu_product *product, ckm_i_kernel *kernel,
                                     ckm_error *err) CKM_NODISCARD;

#endif
