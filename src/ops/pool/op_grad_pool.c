// SPDX-License-Identifier: Apache-2.0
// Pooling and resampling in training: the maximum that remembers where it was found, and gradients.
#include <string.h>

#include "graph/op_grad_support.h"
#include "graph/op_registry.h"
#include "graph/op_window.h"
#include "ops/gradients.h"

enum { LARGEST_BYTE = 255, MACS_NEAREST = 1, MACS_INTERPOLATED = 5 };  // per element, as forward

// x -> y and, for every element, the position of the maximum within its window.
static ckm_status max_pool_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_i_window w;
    int64_t ceiling;
    CKM_I_CHECK(ckm_i_window_read(v, NULL, &w, err));
    CKM_I_CHECK(ckm_i_window_check_elements(v, &w, err));
    CKM_I_CHECK(ckm_i_op_int(v, "ceil_mode", 0, 1, 0, &ceiling, err));
    CKM_I_CHECK(ckm_i_window_shape(v, &w, w.channels, ceiling != 0, &shapes[0], err));
    dtypes[0] = v->in[0]->dtype;
    int64_t positions = 1;
    for (int32_t i = 0; i < w.n; i++) {
        positions *= w.kernel[i];
    }
    shapes[1] = shapes[0];
    dtypes[1] = positions <= LARGEST_BYTE ? CKM_U8 : CKM_I32;
    return CKM_OK;
}

// dy, offsets -> dx.
static ckm_status max_pool_backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    if (v->in[1]->dtype != CKM_U8 && v->in[1]->dtype != CKM_I32) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input 1 must hold positions in the window");
    }
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    return ckm_i_grad_infer_input(v, shapes, dtypes, err);
}

// dy, x, y -> dx.
static ckm_status lp_pool_backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_grad_check_forward(v, &v->in[1]->shape, NULL, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 2, &v->in[0]->shape, err));
    shapes[0] = v->in[1]->shape;
    dtypes[0] = v->in[1]->dtype;
    return CKM_OK;
}

static ckm_status resize_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    bool nearest = strcmp(ckm_i_op_attr_text(v->op, "mode", "nearest"), "nearest") == 0;
    return ckm_i_op_macs_per_input(v, nearest ? MACS_NEAREST : MACS_INTERPOLATED, macs, err);
}

const ckm_i_op_class ckm_i_ops_grad_pool[] = {
    {CKM_I_OP(max_pool_train, 1, 1, 2, max_pool_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_of_max_pool)},
    {CKM_I_OP(max_pool_backward, 2, 2, 1, max_pool_backward_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(average_pool_backward, 1, 1, 1, ckm_i_grad_infer_input, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(lp_pool_backward, 3, 3, 1, lp_pool_backward_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(resize_backward, 1, 1, 1, ckm_i_grad_infer_input, resize_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
