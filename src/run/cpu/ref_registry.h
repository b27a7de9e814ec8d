// SPDX-License-Identifier: Apache-2.0
// Reference kernels: plain C, single precision with the sums a reader would write, deterministic. A group X is a file
// src/ops/<family>/ref_X.c that defines the table ckm_i_ref_kernels_X, one row a kind, ended by a row without a kind.
#ifndef CKM_SRC_RUN_CPU_REF_REGISTRY_H
#define CKM_SRC_RUN_CPU_REF_REGISTRY_H

#include "run/backend/backend.h"

typedef struct ckm_i_reference_kernel {
    ckm_i_op_kind kind;
    // Bytes of workspace; NULL: none.
    int64_t (*workspace)(const ckm_i_op_view *v, const ckm_graph *step);
    ckm_status (*run)(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err);
} ckm_i_reference_kernel;

// NULL when a kind has none.
const ckm_i_reference_kernel *ckm_i_reference_find(ckm_i_op_kind kind);

#define CKM_I_REF_GROUP_DECLARE(group) extern const ckm_i_reference_kernel ckm_i_ref_kernels_##group[];
CKM_I_REF_GROUPS(CKM_I_REF_GROUP_DECLARE)
#undef CKM_I_REF_GROUP_DECLARE

#endif
