// SPDX-License-Identifier: Apache-2.0
// Relative position bias of attention in windows.
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Row of the table for positions `query` and `key` of a window: their offset, shifted to count from 0.
static int64_t offset_of(const ckm_i_graph_op *op, int64_t query, int64_t key)
{
    int64_t height = ckm_i_op_attr_int(op, "window", 0, 1);
    int64_t width = ckm_i_op_attr_int(op, "window", 1, 1);
    int64_t down = query / width - key / width + height - 1;
    int64_t right = query % width - key % width + width - 1;
    return down * (2 * width - 1) + right;
}

// inputs table (offsets, heads); outputs heads, positions, positions
static ckm_status window_bias(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    int64_t heads = ckm_i_ref_in(&r, 0)->shape.dims[1];
    int64_t n = ckm_i_ref_out(&r, 0)->shape.dims[1];
    const float *table = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t q = 0; q < n; q++) {
            for (int64_t k = 0; k < n; k++) {
                y[(h * n + q) * n + k] = table[offset_of(r.op, q, k) * heads + h];
            }
        }
    }
    return CKM_OK;
}

// inputs dy; outputs dtable
static ckm_status window_bias_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_out(&r, 0)->shape;
    int64_t heads = shape->dims[1];
    int64_t n = ckm_i_ref_in(&r, 0)->shape.dims[1];
    const float *dy = ckm_i_ref_input(&r, 0);
    float *dtable = ckm_i_ref_output(&r, 0);
    memset(dtable, 0, (size_t)ckm_i_elements(shape) * sizeof *dtable);
    for (int64_t h = 0; h < heads; h++) {
        for (int64_t q = 0; q < n; q++) {
            for (int64_t k = 0; k < n; k++) {
                dtable[offset_of(r.op, q, k) * heads + h] += dy[(h * n + q) * n + k];
            }
        }
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_window_bias[] = {
    {CKM_I_OP_window_bias, NULL, window_bias},
    {CKM_I_OP_window_bias_backward, NULL, window_bias_backward},
    {0},
};
