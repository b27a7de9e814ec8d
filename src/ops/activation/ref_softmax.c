// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm along one axis. Every line is read before it is written, so the output may share the
// buffer of an operand.
#include <math.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Lines along the axis: element k of line (i, j) is at i * size * inner + k * inner + j.
typedef struct lines {
    int64_t outer, size, inner;
} lines;

static lines read_lines(const ckm_i_ref_op *r, const ckm_shape *shape)
{
    int32_t axis = ckm_i_ref_axis(r, "axis", -1, shape->rank);
    return (lines){ckm_i_ref_span(shape, 0, axis), shape->dims[axis], ckm_i_ref_span(shape, axis + 1, shape->rank)};
}

static float largest(const float *x, int64_t n, int64_t stride)
{
    float best = x[0];
    for (int64_t k = 1; k < n; k++) {
        best = x[k * stride] > best ? x[k * stride] : best;
    }
    return best;
}

static void softmax_line(const float *x, float *y, int64_t n, int64_t stride)
{
    float best = largest(x, n, stride);
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        y[k * stride] = expf(x[k * stride] - best);
        sum += (double)y[k * stride];
    }
    float factor = (float)(1.0 / sum);
    for (int64_t k = 0; k < n; k++) {
        y[k * stride] *= factor;
    }
}

static void log_softmax_line(const float *x, float *y, int64_t n, int64_t stride)
{
    float best = largest(x, n, stride);
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        sum += (double)expf(x[k * stride] - best);
    }
    float log_sum = (float)log(sum);
    for (int64_t k = 0; k < n; k++) {
        y[k * stride] = (x[k * stride] - best) - log_sum;
    }
}

// dx = y (dy - sum(dy y))
static void softmax_slope_line(const float *dy, const float *y, float *dx, int64_t n, int64_t stride)
{
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        sum += (double)dy[k * stride] * (double)y[k * stride];
    }
    for (int64_t k = 0; k < n; k++) {
        dx[k * stride] = y[k * stride] * (dy[k * stride] - (float)sum);
    }
}

// dx = dy - e^y sum(dy)
static void log_softmax_slope_line(const float *dy, const float *y, float *dx, int64_t n, int64_t stride)
{
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        sum += (double)dy[k * stride];
    }
    for (int64_t k = 0; k < n; k++) {
        dx[k * stride] = dy[k * stride] - expf(y[k * stride]) * (float)sum;
    }
}

static ckm_status forward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                          void (*line)(const float *x, float *y, int64_t n, int64_t stride), ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    lines l = read_lines(&r, &ckm_i_ref_in(&r, 0)->shape);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t i = 0; i < l.outer; i++) {
        for (int64_t j = 0; j < l.inner; j++) {
            line(x + i * l.size * l.inner + j, y + i * l.size * l.inner + j, l.size, l.inner);
        }
    }
    return CKM_OK;
}

static ckm_status backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                           void (*line)(const float *dy, const float *y, float *dx, int64_t n, int64_t stride),
                           ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    lines l = read_lines(&r, &ckm_i_ref_in(&r, 0)->shape);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *y = ckm_i_ref_input(&r, 1);
    float *dx = ckm_i_ref_output(&r, 0);
    for (int64_t i = 0; i < l.outer; i++) {
        for (int64_t j = 0; j < l.inner; j++) {
            int64_t at = i * l.size * l.inner + j;
            line(dy + at, y + at, dx + at, l.size, l.inner);
        }
    }
    return CKM_OK;
}

static ckm_status softmax(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return forward(step, op, call, softmax_line, err);
}

static ckm_status log_softmax(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return forward(step, op, call, log_softmax_line, err);
}

static ckm_status softmax_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return backward(step, op, call, softmax_slope_line, err);
}

static ckm_status log_softmax_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return backward(step, op, call, log_softmax_slope_line, err);
}

const ckm_i_reference_kernel ckm_i_ref_kernels_softmax[] = {
    {CKM_I_OP_softmax, NULL, softmax},
    {CKM_I_OP_log_softmax, NULL, log_softmax},
    {CKM_I_OP_softmax_backward, NULL, softmax_backward},
    {CKM_I_OP_log_softmax_backward, NULL, log_softmax_backward},
    {0},
};
