// SPDX-License-Identifier: Apache-2.0
// Cyclic shifts along axes.
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// inputs x; attribute shifts. Output position i of an axis comes from i - shift; the last axis in two pieces.
static ckm_status roll(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    int64_t shift[CKM_MAX_RANK] = {0};  // in [0, size)
    int64_t strides[CKM_MAX_RANK];
    ckm_i_ref_strides(shape, strides);
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t size = shape->dims[i];
        shift[i] = (ckm_i_op_attr_int(r.op, "shifts", i, 0) % size + size) % size;
    }
    int32_t last = shape->rank - 1;
    int64_t n = shape->rank > 0 ? shape->dims[last] : 1;
    int64_t tail = shape->rank > 0 ? shift[last] : 0;
    int64_t rows = ckm_i_elements(shape) / n;
    for (int64_t row = 0; row < rows; row++) {
        int64_t rest = row;
        int64_t from = 0;
        for (int32_t i = last - 1; i >= 0; i--) {
            int64_t at = rest % shape->dims[i];
            rest /= shape->dims[i];
            from += (at - shift[i] + shape->dims[i]) % shape->dims[i] * strides[i];
        }
        memcpy(y + row * n + tail, x + from, (size_t)(n - tail) * sizeof *y);
        memcpy(y + row * n, x + from + n - tail, (size_t)tail * sizeof *y);
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_roll[] = {
    {CKM_I_OP_roll, NULL, roll},
    {0},
};
