// SPDX-License-Identifier: Apache-2.0
// Pooling. Free in the paper's cost model.
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_window.h"
#include "ops/gradients.h"

// A window wholly in the padding has no maximum and no mean.
static ckm_status check_windows(const ckm_i_op_view *v, const ckm_i_window *w, const ckm_shape *y, ckm_error *err)
{
    for (int32_t i = 0; i < w->n; i++) {
        int64_t size = v->in[0]->shape.dims[w->spatial_axis + i];
        int64_t out = y->dims[w->spatial_axis + i];
        int64_t before = w->pads[i];
        bool first = before > (w->kernel[i] - 1) * w->dilation[i];
        bool last = w->padding == CKM_I_PAD_EXPLICIT && (out - 1) * w->stride[i] - before >= size;
        bool padded = before > 0 || w->padding == CKM_I_PAD_SAME;
        bool across = padded && size < w->dilation[i] && w->kernel[i] > 1;
        if (out > 0 && size > 0 && (first || last || across)) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "spatial axis %d: a window lies entirely in the padding",
                                  (int)i);
        }
    }
    return CKM_OK;
}

static ckm_status pool_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_i_window w;
    int64_t ceiling;
    CKM_I_CHECK(ckm_i_window_read(v, NULL, &w, err));
    CKM_I_CHECK(ckm_i_window_check_elements(v, &w, err));
    CKM_I_CHECK(ckm_i_op_int(v, "ceil_mode", 0, 1, 0, &ceiling, err));
    CKM_I_CHECK(ckm_i_window_shape(v, &w, w.channels, ceiling != 0, &shapes[0], err));
    CKM_I_CHECK(check_windows(v, &w, &shapes[0], err));
    dtypes[0] = v->in[0]->dtype;
    if (v->op->n_outputs > 1) {  // where each maximum was found
        shapes[1] = shapes[0];
        dtypes[1] = CKM_I64;
    }
    return CKM_OK;
}

static ckm_status norm_pool_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t p;
    CKM_I_CHECK(ckm_i_op_int(v, "p", 1, INT32_MAX, 2, &p, err));
    return pool_infer(v, shapes, dtypes, err);
}

static ckm_status global_pool_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t keep;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "keepdims", 0, 1, 0, &keep, err));
    const ckm_shape *x = &v->in[0]->shape;
    int64_t channels = x->dims[ckm_i_channel_axis(v->graph, x->rank)];
    if (keep == 0) {
        shapes[0] = (ckm_shape){.rank = 2, .dims = {x->dims[0], channels}};
    } else {
        shapes[0] = *x;
        for (int32_t i = 0; i < x->rank - 2; i++) {
            shapes[0].dims[ckm_i_spatial_axis(v->graph) + i] = 1;
        }
    }
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_pool[] = {
    {CKM_I_OP(max_pool, 1, 1, 2, pool_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), .lower = ckm_i_lower_max_pool,
     CKM_I_OP_REWRITTEN},
    {CKM_I_OP(average_pool, 1, 1, 1, pool_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), .lower = ckm_i_lower_pool,
     CKM_I_OP_LEARNS(ckm_i_grad_of_average_pool)},
    {CKM_I_OP(lp_pool, 1, 1, 1, norm_pool_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), .lower = ckm_i_lower_pool,
     CKM_I_OP_LEARNS(ckm_i_grad_of_lp_pool)},
    {CKM_I_OP(global_average_pool, 1, 1, 1, global_pool_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_of_global_average_pool)},
    {CKM_I_OP(global_max_pool, 1, 1, 1, global_pool_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_of_global_max_pool)},
    {0},
};
