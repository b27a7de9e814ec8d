// SPDX-License-Identifier: Apache-2.0
// Reference kernels by kind.
#include "run/cpu/ref_registry.h"

#define GROUP_TABLE(group) ckm_i_ref_kernels_##group,
static const ckm_i_reference_kernel *const groups[] = {CKM_I_REF_GROUPS(GROUP_TABLE)};

const ckm_i_reference_kernel *ckm_i_reference_find(ckm_i_op_kind kind)
{
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (const ckm_i_reference_kernel *k = groups[i]; k->kind != CKM_I_OP_NO_KIND; k++) {
            if (k->kind == kind) {
                return k;
            }
        }
    }
    return NULL;
}
