// SPDX-License-Identifier: Apache-2.0
// Zero borders added to or cut off the spatial axes.
#include "base/checked.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_window.h"

static ckm_status border_infer(const ckm_i_op_view *v, bool add, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, CKM_MAX_RANK, err));
    ckm_shape shape = v->in[0]->shape;
    int32_t n = shape.rank - 2;
    int64_t pads[2 * CKM_I_MAX_SPATIAL];
    CKM_I_CHECK(ckm_i_op_list(v, "pads", 2 * n, 0, CKM_I_WINDOW_LIMIT, 0, pads, err));
    for (int32_t i = 0; i < n; i++) {
        int64_t *size = &shape.dims[ckm_i_spatial_axis(v->graph) + i];
        int64_t border = pads[i] + pads[n + i];
        if (!ckm_i_add(*size, add ? border : -border, size)) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "spatial axis %d is too large", (int)i);
        }
        if (*size < 1) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "cropping %lld from spatial axis %d leaves nothing",
                                  (long long)border, (int)i);
        }
    }
    shapes[0] = shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status zero_padding_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    return border_infer(v, true, shapes, dtypes, err);
}

static ckm_status cropping_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    return border_infer(v, false, shapes, dtypes, err);
}

const ckm_i_op_class ckm_i_ops_border[] = {
    {CKM_I_OP(zero_padding, 1, 1, 1, zero_padding_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_border, CKM_I_OP_REWRITTEN},
    {CKM_I_OP(cropping, 1, 1, 1, cropping_infer, NULL), CKM_I_OP_PLAIN(PARTIAL, NONE), .lower = ckm_i_lower_border,
     CKM_I_OP_REWRITTEN},
    {0},
};
