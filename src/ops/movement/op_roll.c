// SPDX-License-Identifier: Apache-2.0
// Cyclic shifts: element i of an axis goes to (i + shift) mod size. One operator for all axes at once; slices and a
// concatenation would copy the tensor once for every axis. The gradient rolls back.
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

// Attribute: `shifts`, one per axis, negative ones to the left.
static ckm_status infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t shifts[CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_op_list(v, "shifts", v->in[0]->shape.rank, -INT32_MAX, INT32_MAX, 0, shifts, err));
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

const ckm_i_op_class ckm_i_ops_roll[] = {
    {CKM_I_OP(roll, 1, 1, 1, infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), CKM_I_OP_LEARNS(ckm_i_grad_of_roll)},
    {0},
};
