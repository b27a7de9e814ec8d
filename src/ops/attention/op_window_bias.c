// SPDX-License-Identifier: Apache-2.0
// A learned number for every head and every offset between two positions of a window, laid out as scores are (Liu et
// al. 2021, "Swin Transformer", section 3.2, equation 4): table (2h - 1)(2w - 1), heads -> heads, hw, hw. It is a
// gather whose positions follow from the window, so no tensor of positions is kept; the gradient sums up all pairs of
// the same offset.
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status read_window(const ckm_i_op_view *v, int64_t *positions, int64_t *offsets, ckm_error *err)
{
    int64_t window[2];
    CKM_I_CHECK(ckm_i_op_list(v, "window", 2, 1, INT16_MAX, 0, window, err));
    if (window[0] < 1 || window[1] < 1) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the window's height and width must be given");
    }
    *positions = window[0] * window[1];
    *offsets = (2 * window[0] - 1) * (2 * window[1] - 1);
    return CKM_OK;
}

static ckm_status refuse(const ckm_i_op_view *v, ckm_error *err)
{
    char text[256];
    return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "an operand of shape %s does not fit the window",
                          ckm_i_shape_text(&v->in[0]->shape, text, sizeof text));
}

static ckm_status forward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t positions;
    int64_t offsets;
    const ckm_shape *table = &v->in[0]->shape;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, 2, err));
    CKM_I_CHECK(read_window(v, &positions, &offsets, err));
    if (table->dims[0] != offsets) {
        return refuse(v, err);
    }
    shapes[0] = (ckm_shape){3, {table->dims[1], positions, positions}};
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t positions;
    int64_t offsets;
    const ckm_shape *dy = &v->in[0]->shape;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, 3, err));
    CKM_I_CHECK(read_window(v, &positions, &offsets, err));
    if (dy->dims[1] != positions || dy->dims[2] != positions) {
        return refuse(v, err);
    }
    shapes[0] = (ckm_shape){2, {offsets, dy->dims[0]}};
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_window_bias[] = {
    {CKM_I_OP(window_bias, 1, 1, 1, forward_infer, NULL), CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[0] = CKM_I_INIT_SMALL}, CKM_I_OP_LEARNS(ckm_i_grad_of_window_bias)},
    {CKM_I_OP(window_bias_backward, 1, 1, 1, backward_infer, ckm_i_op_macs_one_per_input),
     CKM_I_OP_PLAIN(ELEMENTS, NONE), CKM_I_OP_BEHIND_LOSS},
    {0},
};
