// SPDX-License-Identifier: Apache-2.0
// Dense layers: products over the last axis.
#include "run/cpu/ref_gemm.h"
#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// All axes but the last are rows.
static int64_t rows_of(const ckm_shape *shape)
{
    return ckm_i_ref_span(shape, 0, shape->rank - 1);
}

// inputs x, weight, [bias]; attribute transposed (0: weight I,O; 1: O,I)
static ckm_status dense(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *x = &ckm_i_ref_in(&r, 0)->shape;
    const ckm_shape *y = &ckm_i_ref_out(&r, 0)->shape;
    int64_t in = x->dims[x->rank - 1];
    int64_t out = y->dims[y->rank - 1];
    bool transposed = ckm_i_op_attr_int(r.op, "transposed", 0, 0) != 0;
    const float *weight = ckm_i_ref_input(&r, 1);
    float *to = ckm_i_ref_output(&r, 0);
    ckm_i_ref_matrix a = {ckm_i_ref_input(&r, 0), in, 1};
    ckm_i_ref_matrix b = {weight, transposed ? 1 : out, transposed ? in : 1};
    ckm_i_ref_gemm(rows_of(x), out, in, a, b, to, out, false);
    if (ckm_i_ref_input(&r, 2) != NULL) {
        ckm_i_ref_add_bias(y, y->rank - 1, ckm_i_ref_input(&r, 2), to);
    }
    return CKM_OK;
}

// inputs dy, x; attribute transposed
static ckm_status dense_backward_weights(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                         ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *dy = &ckm_i_ref_in(&r, 0)->shape;
    const ckm_shape *x = &ckm_i_ref_in(&r, 1)->shape;
    int64_t rows = rows_of(x);
    int64_t in = x->dims[x->rank - 1];
    int64_t out = dy->dims[dy->rank - 1];
    bool transposed = ckm_i_op_attr_int(r.op, "transposed", 0, 0) != 0;
    const float *gradient = ckm_i_ref_input(&r, 0);
    const float *data = ckm_i_ref_input(&r, 1);
    float *to = ckm_i_ref_output(&r, 0);
    if (transposed) {
        ckm_i_ref_gemm(out, in, rows, (ckm_i_ref_matrix){gradient, 1, out}, (ckm_i_ref_matrix){data, in, 1}, to, in,
                       false);
    } else {
        ckm_i_ref_gemm(in, out, rows, (ckm_i_ref_matrix){data, 1, in}, (ckm_i_ref_matrix){gradient, out, 1}, to, out,
                       false);
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_dense[] = {
    {CKM_I_OP_dense, NULL, dense},
    {CKM_I_OP_dense_backward_weights, NULL, dense_backward_weights},
    {0},
};
