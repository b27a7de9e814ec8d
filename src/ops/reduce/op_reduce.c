// SPDX-License-Identifier: Apache-2.0
// Reductions over axes: sums, means, extremes, norms, and the positions of extremes.
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

// Attributes: `axes` (absent: all, unless `noop` says none), `keepdims` (1).
static ckm_status infer_reduce(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *in = &v->in[0]->shape;
    const ckm_i_attr *axes = ckm_i_op_attr(v->op, "axes");
    bool reduced[CKM_MAX_RANK] = {false};
    int64_t keep;
    CKM_I_CHECK(ckm_i_op_int(v, "keepdims", 0, 1, 1, &keep, err));
    for (int32_t i = 0; axes == NULL && i < in->rank; i++) {
        reduced[i] = true;
    }
    for (int32_t i = 0; axes != NULL && i < axes->n; i++) {
        int32_t axis;
        CKM_I_CHECK(ckm_i_op_axis(v, axes->ints[i], in->rank, &axis, err));
        if (reduced[axis]) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "axis %d is listed twice", (int)axis);
        }
        reduced[axis] = true;
    }
    ckm_shape out = {0};
    for (int32_t i = 0; i < in->rank; i++) {
        if (!reduced[i] || keep) {
            out.dims[out.rank++] = reduced[i] ? 1 : in->dims[i];
        }
    }
    out_shapes[0] = out;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status infer_position(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    CKM_I_CHECK(infer_reduce(v, out_shapes, out_dtypes, err));
    out_dtypes[0] = CKM_I64;
    return CKM_OK;
}

// The k largest along an axis: values and, when asked for, their positions.
static ckm_status infer_top_k(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    ckm_shape out = v->in[0]->shape;
    int64_t k;
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, -1), out.rank, &axis, err));
    CKM_I_CHECK(ckm_i_op_int(v, "k", 1, out.dims[axis], 1, &k, err));
    out.dims[axis] = k;
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        out_shapes[i] = out;
        out_dtypes[i] = i == 0 ? v->in[0]->dtype : CKM_I64;
    }
    return CKM_OK;
}

#define REDUCTION(kind, learning)                                                                           \
    {                                                                                                       \
        CKM_I_OP(kind, 1, 1, 1, infer_reduce, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE), \
            .lower = ckm_i_lower_reduce, learning                                                           \
    }

const ckm_i_op_class ckm_i_ops_reduce[] = {
    REDUCTION(reduce_mean, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_mean)),
    REDUCTION(reduce_sum, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_sum)),
    REDUCTION(reduce_max, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_with_output)),
    REDUCTION(reduce_min, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_with_output)),
    REDUCTION(reduce_prod, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_with_output)),
    REDUCTION(reduce_l1, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_without_output)),
    REDUCTION(reduce_l2, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_with_output)),
    REDUCTION(reduce_sum_square, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_without_output)),
    REDUCTION(reduce_log_sum, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_without_output)),
    REDUCTION(reduce_log_sum_exp, CKM_I_OP_LEARNS(ckm_i_grad_of_reduce_with_output)),
    {CKM_I_OP(arg_max, 1, 1, 1, infer_position, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_reduce, CKM_I_OP_LEARNS_NOTHING},
    {CKM_I_OP(arg_min, 1, 1, 1, infer_position, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_reduce, CKM_I_OP_LEARNS_NOTHING},
    {CKM_I_OP(top_k, 1, 1, 2, infer_top_k, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_top_k, CKM_I_OP_LEARNS(ckm_i_grad_of_top_k)},
    {0},
};
