// SPDX-License-Identifier: Apache-2.0
// Groups of reference kernels. A group X is a file src/ops/<family>/ref_X.c that defines the table ckm_i_ref_kernels_X, one row a kind,
// ended by a row without a kind.
#ifndef CKM_SRC_RUN_CPU_REF_REGISTRY_H
#define CKM_SRC_RUN_CPU_REF_REGISTRY_H

#include "run/backend.h"

#define CKM_I_REF_GROUP_DECLARE(group) extern const ckm_i_reference_kernel ckm_i_ref_kernels_##group[];
CKM_I_REF_GROUPS(CKM_I_REF_GROUP_DECLARE)
#undef CKM_I_REF_GROUP_DECLARE

#endif
