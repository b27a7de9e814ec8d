// SPDX-License-Identifier: Apache-2.0
// Softmax over keys of which a query sees only some, the others get probability 0. The mask follows from positions, so
// no tensor holds it, and neither are scores with minus infinity in them; that is how fused attention kernels do it.
// Attribute `mask`:
//   causal   x is ..., queries, keys: query q sees keys up to q + keys - queries.
//   windows  x is images * windows, heads, n, n: attention within the windows of a map that was rolled by `shift`
//            (Liu et al. 2021, "Swin Transformer", section 3.2, figure 4). `grid` is height and width of the map,
//            `window` of a window, n its positions. Positions see each other when they were neighbours before rolling.
// The gradient is softmax's: a masked element has y = 0 and so none.
#include <string.h>

#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status check_windows(const ckm_i_op_view *v, ckm_error *err)
{
    int64_t grid[2];
    int64_t window[2];
    int64_t shift[2];
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 4, 4, err));
    CKM_I_CHECK(ckm_i_op_list(v, "grid", 2, 1, INT32_MAX, 0, grid, err));
    CKM_I_CHECK(ckm_i_op_list(v, "window", 2, 1, INT16_MAX, 0, window, err));
    CKM_I_CHECK(ckm_i_op_list(v, "shift", 2, 0, INT16_MAX, 0, shift, err));
    const ckm_shape *x = &v->in[0]->shape;
    for (int i = 0; i < 2; i++) {
        if (grid[i] < 1 || window[i] < 1 || grid[i] % window[i] != 0 || shift[i] >= window[i]) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                                  "windows of %lld, shifted by %lld, do not divide an axis of %lld",
                                  (long long)window[i], (long long)shift[i], (long long)grid[i]);
        }
    }
    int64_t windows = grid[0] / window[0] * (grid[1] / window[1]);
    int64_t positions = window[0] * window[1];
    if (x->dims[0] % windows != 0 || x->dims[2] != positions || x->dims[3] != positions) {
        char text[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                              "scores of shape %s are not those of %lld windows of %lld positions an image",
                              ckm_i_shape_text(x, text, sizeof text), (long long)windows, (long long)positions);
    }
    return CKM_OK;
}

static ckm_status infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    const char *mask = ckm_i_op_attr_text(v->op, "mask", "");
    if (strcmp(mask, "causal") == 0) {
        CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
        const ckm_shape *x = &v->in[0]->shape;
        if (x->dims[x->rank - 2] > x->dims[x->rank - 1]) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%lld queries but only %lld keys: the first would see none",
                                  (long long)x->dims[x->rank - 2], (long long)x->dims[x->rank - 1]);
        }
    } else if (strcmp(mask, "windows") == 0) {
        CKM_I_CHECK(check_windows(v, err));
    } else {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the mask is \"%s\"; it must be causal or windows", mask);
    }
    return ckm_i_op_infer_same(v, shapes, dtypes, err);
}

const ckm_i_op_class ckm_i_ops_masked_softmax[] = {
    {CKM_I_OP(masked_softmax, 1, 1, 1, infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     CKM_I_OP_LEARNS(ckm_i_grad_of_masked_softmax)},
    {0},
};
