// SPDX-License-Identifier: Apache-2.0
// Resampling of the spatial axes.
#include <string.h>

#include "base/checked.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_window.h"
#include "ops/gradients.h"

// Multiply-accumulates per output element of an interpolation, as the paper counts them.
enum { MACS_NEAREST = 1, MACS_INTERPOLATED = 5 };

// up_sampling: every spatial axis times its factor.
static ckm_status up_sampling_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t factors[CKM_I_MAX_SPATIAL];
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, CKM_MAX_RANK, err));
    ckm_shape shape = v->in[0]->shape;
    CKM_I_CHECK(ckm_i_op_list(v, "size", shape.rank - 2, 1, CKM_I_WINDOW_LIMIT, 1, factors, err));
    for (int32_t i = 0; i < shape.rank - 2; i++) {
        int64_t *size = &shape.dims[ckm_i_spatial_axis(v->graph) + i];
        if (!ckm_i_mul(*size, factors[i], size)) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "spatial axis %d is too large", (int)i);
        }
    }
    shapes[0] = shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status need_size(const ckm_i_op_view *v, ckm_error *err)
{
    return ckm_i_op_attr(v->op, "size") != NULL ? CKM_OK
                                                : ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute size is missing");
}

// interp: the spatial axes as given.
static ckm_status interp_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, CKM_MAX_RANK, err));
    CKM_I_CHECK(need_size(v, err));
    ckm_shape shape = v->in[0]->shape;
    CKM_I_CHECK(
        ckm_i_op_list(v, "size", shape.rank - 2, 1, INT64_MAX, 1, &shape.dims[ckm_i_spatial_axis(v->graph)], err));
    shapes[0] = shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// resize: all axes as given.
static ckm_status resize_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(need_size(v, err));
    ckm_shape shape = v->in[0]->shape;
    CKM_I_CHECK(ckm_i_op_list(v, "size", shape.rank, 1, INT64_MAX, 1, shape.dims, err));
    shapes[0] = shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status resample_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    bool nearest = strcmp(ckm_i_op_attr_text(v->op, "mode", "nearest"), "nearest") == 0;
    return ckm_i_op_macs_per_output(v, nearest ? MACS_NEAREST : MACS_INTERPOLATED, macs, err);
}

static ckm_status interp_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_output(v, MACS_INTERPOLATED, macs, err);
}

const ckm_i_op_class ckm_i_ops_resize[] = {
    {CKM_I_OP(up_sampling, 1, 1, 1, up_sampling_infer, resample_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_up_sampling, CKM_I_OP_REWRITTEN},
    {CKM_I_OP(interp, 1, 1, 1, interp_infer, interp_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE), .lower = ckm_i_lower_interp,
     CKM_I_OP_REWRITTEN},
    {CKM_I_OP(resize, 1, 1, 1, resize_infer, resample_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_resize, CKM_I_OP_LEARNS(ckm_i_grad_of_resize)},
    {0},
};
