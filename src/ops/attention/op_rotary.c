// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al. 2021, "RoFormer", section 3.2.2), the halves of a head paired as Llama's published
// weights are used: for position t on the last axis but one and i below half the last axis,
//     y[t, i]        = x[t, i] cos a - x[t, i + half] sin a
//     y[t, i + half] = x[t, i + half] cos a + x[t, i] sin a        a = t * base^(-i / half)
// One operator as in practice: angles are computed where they are used, so no table is kept, and the result can take
// the operand's place. Attribute `inverse` turns the other way, which is the gradient.
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t inverse;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "inverse", 0, 1, 0, &inverse, err));
    const ckm_shape *x = &v->in[0]->shape;
    if (x->dims[x->rank - 1] % 2 != 0) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "a head of %lld numbers cannot be turned in pairs",
                              (long long)x->dims[x->rank - 1]);
    }
    if (!(ckm_i_op_attr_double(v->op, "base", 10000.0) > 0.0)) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the base must be positive");
    }
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

static ckm_status count_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, 2, macs, err);
}

const ckm_i_op_class ckm_i_ops_rotary[] = {
    {CKM_I_OP(rotary, 1, 1, 1, infer, count_macs), CKM_I_OP_PLAIN(ELEMENTS, FIRST), .lower = ckm_i_lower_rotary,
     CKM_I_OP_LEARNS(ckm_i_grad_of_rotary)},
    {0},
};
