// SPDX-License-Identifier: Apache-2.0
// Normalization of rows by their root mean square.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

static int64_t row_size(const ckm_shape *x)
{
    return x->dims[x->rank - 1];
}

// inputs x, [scale]; outputs y, inverse root mean square
static ckm_status rms_norm(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    int64_t n = row_size(shape);
    int64_t rows = ckm_i_elements(shape) / n;
    const float *x = ckm_i_ref_input(&r, 0);
    const float *scale = ckm_i_ref_input(&r, 1);
    float *y = ckm_i_ref_output(&r, 0);
    float *inverse = ckm_i_ref_output(&r, 1);
    double epsilon = ckm_i_op_attr_double(r.op, "epsilon", 1e-6);
    for (int64_t i = 0; i < rows; i++, x += n) {
        float s = (float)(1.0 / sqrt(ckm_i_ref_dot(x, x, n) / (double)n + epsilon));
        if (inverse != NULL) {
            inverse[i] = s;
        }
        for (int64_t j = 0; y != NULL && j < n; j++) {
            y[i * n + j] = x[j] * s * (scale != NULL ? scale[j] : 1.0F);
        }
    }
    return CKM_OK;
}

static int64_t backward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    (void)step;
    return row_size(&v->in[0]->shape) * (int64_t)sizeof(double);
}

// One row: dx = s (g - x s^2 mean(g x)) with g = dy scale.
static void slope_of_row(const float *dy, const float *x, const float *scale, double s, int64_t n, float *dx)
{
    double product = 0.0;
    for (int64_t j = 0; j < n; j++) {
        product += (double)dy[j] * (scale != NULL ? (double)scale[j] : 1.0) * (double)x[j];
    }
    double slope = s * s * product / (double)n;
    for (int64_t j = 0; j < n; j++) {
        double g = (double)dy[j] * (scale != NULL ? (double)scale[j] : 1.0);
        dx[j] = (float)(s * (g - (double)x[j] * slope));
    }
}

// inputs dy, x, [scale], inverse root mean square; outputs dx, dscale
static ckm_status rms_norm_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 1)->shape;
    int64_t n = row_size(shape);
    int64_t rows = ckm_i_elements(shape) / n;
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *scale = ckm_i_ref_input(&r, 2);
    const float *inverse = ckm_i_ref_input(&r, 3);
    float *dx = ckm_i_ref_output(&r, 0);
    float *dscale = ckm_i_ref_output(&r, 1);
    double *sums = call->workspace;
    memset(sums, 0, (size_t)n * sizeof *sums);
    for (int64_t i = 0; i < rows; i++, dy += n, x += n) {
        double s = (double)inverse[i];
        for (int64_t j = 0; j < n; j++) {
            sums[j] += (double)dy[j] * (double)x[j] * s;
        }
        if (dx != NULL) {
            slope_of_row(dy, x, scale, s, n, dx + i * n);
        }
    }
    for (int64_t j = 0; dscale != NULL && j < n; j++) {
        dscale[j] = (float)sums[j];
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_rms_norm[] = {
    {CKM_I_OP_rms_norm, NULL, rms_norm},
    {CKM_I_OP_rms_norm_backward, backward_workspace, rms_norm_backward},
    {0},
};
