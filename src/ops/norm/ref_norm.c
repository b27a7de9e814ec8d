// SPDX-License-Identifier: Apache-2.0
// Batch normalization in training mode, and group normalization: sums a channel in double precision.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// A tensor as rows of `inner` neighbours of one channel: outer, channel, inner.
typedef struct channels {
    int64_t outer, count, inner;
} channels;

static channels split_at(const ckm_shape *shape, int32_t axis)
{
    return (channels){ckm_i_ref_span(shape, 0, axis), shape->dims[axis], ckm_i_ref_span(shape, axis + 1, shape->rank)};
}

static channels by_axis(const ckm_i_ref_op *r, const ckm_shape *shape)
{
    return split_at(shape, ckm_i_ref_axis(r, "axis", ckm_i_channel_axis(r->graph, shape->rank), shape->rank));
}

// sum[c] of x over everything else.
static void sum_values(channels s, const float *x, double *sum)
{
    memset(sum, 0, (size_t)s.count * sizeof *sum);
    for (int64_t i = 0; i < s.outer; i++, x += s.count * s.inner) {
        for (int64_t c = 0; s.inner == 1 && c < s.count; c++) {
            sum[c] += (double)x[c];
        }
        for (int64_t c = 0; s.inner > 1 && c < s.count; c++) {
            sum[c] += ckm_i_ref_sum(x + c * s.inner, s.inner);
        }
    }
}

// sum[c] of (x - mean[c])^2.
static void sum_squares(channels s, const float *x, const double *mean, double *sum)
{
    memset(sum, 0, (size_t)s.count * sizeof *sum);
    for (int64_t i = 0; i < s.outer; i++) {
        for (int64_t c = 0; s.inner == 1 && c < s.count; c++) {
            double distance = (double)x[c] - mean[c];
            sum[c] += distance * distance;
        }
        for (int64_t c = 0; s.inner > 1 && c < s.count; c++) {
            double part = 0.0;
            for (int64_t j = 0; j < s.inner; j++) {
                double distance = (double)x[c * s.inner + j] - mean[c];
                part += distance * distance;
            }
            sum[c] += part;
        }
        x += s.count * s.inner;
    }
}

// plain[c] = sum of dy, product[c] = sum of dy (x - mean[c]).
static void sum_gradients(channels s, const float *dy, const float *x, const double *mean, double *plain,
                          double *product)
{
    memset(plain, 0, (size_t)s.count * sizeof *plain);
    memset(product, 0, (size_t)s.count * sizeof *product);
    for (int64_t i = 0; i < s.outer; i++) {
        for (int64_t c = 0; s.inner == 1 && c < s.count; c++) {
            plain[c] += (double)dy[c];
            product[c] += (double)dy[c] * ((double)x[c] - mean[c]);
        }
        for (int64_t c = 0; s.inner > 1 && c < s.count; c++) {
            double part = 0.0;
            for (int64_t j = c * s.inner; j < (c + 1) * s.inner; j++) {
                part += (double)dy[j] * ((double)x[j] - mean[c]);
            }
            plain[c] += ckm_i_ref_sum(dy + c * s.inner, s.inner);
            product[c] += part;
        }
        dy += s.count * s.inner;
        x += s.count * s.inner;
    }
}

// y = (x - mean[c]) scale[c] + shift[c]
static void normalize(channels s, const float *x, const double *mean, const double *scale, const double *shift,
                      float *y)
{
    for (int64_t i = 0; i < s.outer; i++) {
        for (int64_t c = 0; s.inner == 1 && c < s.count; c++) {
            y[c] = (x[c] - (float)mean[c]) * (float)scale[c] + (float)shift[c];
        }
        for (int64_t c = 0; s.inner > 1 && c < s.count; c++) {
            float m = (float)mean[c];
            float a = (float)scale[c];
            float b = (float)shift[c];
            for (int64_t j = c * s.inner; j < (c + 1) * s.inner; j++) {
                y[j] = (x[j] - m) * a + b;
            }
        }
        x += s.count * s.inner;
        y += s.count * s.inner;
    }
}

// dx = scale[c] dy - (x - mean[c]) slope[c] - shift[c]
static void spread(channels s, const float *dy, const float *x, const double *mean, const double *scale,
                   const double *slope, const double *shift, float *dx)
{
    for (int64_t i = 0; i < s.outer; i++) {
        for (int64_t c = 0; s.inner == 1 && c < s.count; c++) {
            dx[c] = (float)scale[c] * dy[c] - (x[c] - (float)mean[c]) * (float)slope[c] - (float)shift[c];
        }
        for (int64_t c = 0; s.inner > 1 && c < s.count; c++) {
            float m = (float)mean[c];
            float a = (float)scale[c];
            float b = (float)slope[c];
            float d = (float)shift[c];
            for (int64_t j = c * s.inner; j < (c + 1) * s.inner; j++) {
                dx[j] = a * dy[j] - (x[j] - m) * b - d;
            }
        }
        dy += s.count * s.inner;
        x += s.count * s.inner;
        dx += s.count * s.inner;
    }
}

static void put(float *to, int64_t i, double value)
{
    if (to != NULL) {
        to[i] = (float)value;
    }
}

// ---- batch normalization

enum { BATCH_ARRAYS = 5 };

// Doubles for each channel of input 0.
static int64_t batch_norm_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_op r = {.graph = step, .op = v->op};
    return by_axis(&r, &v->in[0]->shape).count * BATCH_ARRAYS * (int64_t)sizeof(double);
}

// inputs x, [gamma], [beta], [mean], [variance]; outputs y, saved_mean, saved_inv_std
static ckm_status batch_norm_train(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    channels s = by_axis(&r, &ckm_i_ref_in(&r, 0)->shape);
    const float *x = ckm_i_ref_input(&r, 0);
    const float *gamma = ckm_i_ref_input(&r, 1);
    const float *beta = ckm_i_ref_input(&r, 2);
    float *running_mean = call->first ? ckm_i_ref_state(&r, 3) : NULL;
    float *running_variance = call->first ? ckm_i_ref_state(&r, 4) : NULL;
    double epsilon = ckm_i_op_attr_double(r.op, "epsilon", 1e-3);
    double momentum = ckm_i_op_attr_double(r.op, "momentum", 0.99);
    double n = (double)(s.outer * s.inner);
    double *mean = call->workspace;
    double *variance = mean + s.count;
    double *scale = variance + s.count;
    double *shift = scale + s.count;
    sum_values(s, x, mean);
    for (int64_t c = 0; c < s.count; c++) {
        mean[c] /= n;
    }
    sum_squares(s, x, mean, variance);
    for (int64_t c = 0; c < s.count; c++) {
        double unbiased = variance[c] / (n > 1.0 ? n - 1.0 : 1.0);
        double deviation = 1.0 / sqrt(variance[c] / n + epsilon);
        scale[c] = deviation * (gamma != NULL ? (double)gamma[c] : 1.0);
        shift[c] = beta != NULL ? (double)beta[c] : 0.0;
        put(ckm_i_ref_output(&r, 1), c, mean[c]);
        put(ckm_i_ref_output(&r, 2), c, deviation);
        if (running_mean != NULL) {
            running_mean[c] = (float)(momentum * (double)running_mean[c] + (1.0 - momentum) * mean[c]);
        }
        if (running_variance != NULL) {
            running_variance[c] = (float)(momentum * (double)running_variance[c] + (1.0 - momentum) * unbiased);
        }
    }
    if (ckm_i_ref_output(&r, 0) != NULL) {
        normalize(s, x, mean, scale, shift, ckm_i_ref_output(&r, 0));
    }
    return CKM_OK;
}

// inputs x, [gamma], [beta], mean, variance; output y
static ckm_status batch_norm_apply(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    channels s = by_axis(&r, &ckm_i_ref_in(&r, 0)->shape);
    const float *gamma = ckm_i_ref_input(&r, 1);
    const float *beta = ckm_i_ref_input(&r, 2);
    const float *running_mean = ckm_i_ref_input(&r, 3);
    const float *running_variance = ckm_i_ref_input(&r, 4);
    double epsilon = ckm_i_op_attr_double(r.op, "epsilon", 1e-3);
    double *mean = call->workspace;
    double *scale = mean + s.count;
    double *shift = scale + s.count;
    for (int64_t c = 0; c < s.count; c++) {
        mean[c] = (double)running_mean[c];
        scale[c] = (gamma != NULL ? (double)gamma[c] : 1.0) / sqrt((double)running_variance[c] + epsilon);
        shift[c] = beta != NULL ? (double)beta[c] : 0.0;
    }
    normalize(s, ckm_i_ref_input(&r, 0), mean, scale, shift, ckm_i_ref_output(&r, 0));
    return CKM_OK;
}

// inputs dy, x, [gamma], saved_mean, saved_inv_std; outputs dx, dgamma, dbeta
static ckm_status batch_norm_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    channels s = by_axis(&r, &ckm_i_ref_in(&r, 0)->shape);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *gamma = ckm_i_ref_input(&r, 2);
    const float *saved_mean = ckm_i_ref_input(&r, 3);
    const float *saved_deviation = ckm_i_ref_input(&r, 4);
    double n = (double)(s.outer * s.inner);
    double *mean = call->workspace;
    double *shift = mean + s.count;
    double *slope = shift + s.count;
    double *scale = slope + s.count;
    for (int64_t c = 0; c < s.count; c++) {
        mean[c] = (double)saved_mean[c];
    }
    sum_gradients(s, dy, x, mean, shift, slope);
    for (int64_t c = 0; c < s.count; c++) {
        double deviation = (double)saved_deviation[c];
        put(ckm_i_ref_output(&r, 2), c, shift[c]);
        put(ckm_i_ref_output(&r, 1), c, slope[c] * deviation);
        scale[c] = deviation * (gamma != NULL ? (double)gamma[c] : 1.0);
        shift[c] *= scale[c] / n;
        slope[c] *= scale[c] * deviation * deviation / n;
    }
    if (ckm_i_ref_output(&r, 0) != NULL) {
        spread(s, dy, x, mean, scale, slope, shift, ckm_i_ref_output(&r, 0));
    }
    return CKM_OK;
}

// ---- group normalization

enum { GROUP_ARRAYS = 7 };

static int64_t group_norm_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    const ckm_shape *shape = &v->in[0]->shape;
    return shape->dims[ckm_i_channel_axis(step, shape->rank)] * GROUP_ARRAYS * (int64_t)sizeof(double);
}

// Replaces what every channel has by its group's total.
static void total_by_group(double *values, int64_t channel_count, int64_t groups)
{
    int64_t size = channel_count / groups;
    for (int64_t g = 0; g < groups; g++) {
        double sum = 0.0;
        for (int64_t c = g * size; c < (g + 1) * size; c++) {
            sum += values[c];
        }
        for (int64_t c = g * size; c < (g + 1) * size; c++) {
            values[c] = sum;
        }
    }
}

// Element of scale or bias for channel c: one a channel, or one a group.
static double affine(const ckm_i_ref_op *r, int32_t i, int64_t c, int64_t count, double fallback)
{
    const float *data = ckm_i_ref_input(r, i);
    if (data == NULL) {
        return fallback;
    }
    int64_t given = ckm_i_ref_in(r, i)->shape.dims[0];
    return (double)data[given == count ? c : c / (count / given)];
}

// One sample of x: its channels alone.
static channels one_sample(const ckm_i_ref_op *r, const ckm_shape *shape)
{
    channels s = split_at(shape, ckm_i_channel_axis(r->graph, shape->rank));
    s.outer /= shape->dims[0];
    return s;
}

// inputs x, [scale], [bias]; outputs y, mean, inv_std (N, groups)
static ckm_status group_norm(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    channels s = one_sample(&r, shape);
    int64_t groups = ckm_i_op_attr_int(r.op, "groups", 0, s.count);
    int64_t size = s.outer * s.count * s.inner;
    double epsilon = ckm_i_op_attr_double(r.op, "epsilon", 1e-5);
    double n = (double)(size / groups);
    double *mean = call->workspace;
    double *scale = mean + s.count;
    double *shift = scale + s.count;
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t sample = 0; sample < shape->dims[0]; sample++, x += size) {
        sum_values(s, x, mean);
        total_by_group(mean, s.count, groups);
        for (int64_t c = 0; c < s.count; c++) {
            mean[c] /= n;
        }
        sum_squares(s, x, mean, scale);
        total_by_group(scale, s.count, groups);
        for (int64_t c = 0; c < s.count; c++) {
            int64_t group = c / (s.count / groups);
            double deviation = 1.0 / sqrt(scale[c] / n + epsilon);
            put(ckm_i_ref_output(&r, 1), sample * groups + group, mean[c]);
            put(ckm_i_ref_output(&r, 2), sample * groups + group, deviation);
            scale[c] = deviation * affine(&r, 1, c, s.count, 1.0);
            shift[c] = affine(&r, 2, c, s.count, 0.0);
        }
        if (y != NULL) {
            normalize(s, x, mean, scale, shift, y + sample * size);
        }
    }
    return CKM_OK;
}

// inputs dy, x, [scale], mean, inv_std; outputs dx, dscale, dbias (C each)
static ckm_status group_norm_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    channels s = one_sample(&r, shape);
    int64_t groups = ckm_i_op_attr_int(r.op, "groups", 0, s.count);
    int64_t size = s.outer * s.count * s.inner;
    double n = (double)(size / groups);
    double *mean = call->workspace;
    double *shift = mean + s.count;
    double *slope = shift + s.count;
    double *scale = slope + s.count;
    double *deviation = scale + s.count;
    double *dscale = deviation + s.count;
    double *dbias = dscale + s.count;
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *saved_mean = ckm_i_ref_input(&r, 3);
    const float *saved_deviation = ckm_i_ref_input(&r, 4);
    float *dx = ckm_i_ref_output(&r, 0);
    memset(dscale, 0, (size_t)(2 * s.count) * sizeof *dscale);
    for (int64_t sample = 0; sample < shape->dims[0]; sample++, dy += size, x += size) {
        for (int64_t c = 0; c < s.count; c++) {
            int64_t group = sample * groups + c / (s.count / groups);
            mean[c] = (double)saved_mean[group];
            deviation[c] = (double)saved_deviation[group];
        }
        sum_gradients(s, dy, x, mean, shift, slope);
        for (int64_t c = 0; c < s.count; c++) {
            double factor = affine(&r, 2, c, s.count, 1.0);
            dscale[c] += slope[c] * deviation[c];
            dbias[c] += shift[c];
            shift[c] *= factor;
            slope[c] *= factor;
            scale[c] = deviation[c] * factor;
        }
        total_by_group(shift, s.count, groups);
        total_by_group(slope, s.count, groups);
        for (int64_t c = 0; c < s.count; c++) {
            shift[c] *= deviation[c] / n;
            slope[c] *= deviation[c] * deviation[c] * deviation[c] / n;
        }
        if (dx != NULL) {
            spread(s, dy, x, mean, scale, slope, shift, dx + sample * size);
        }
    }
    for (int64_t c = 0; c < s.count; c++) {
        put(ckm_i_ref_output(&r, 1), c, dscale[c]);
        put(ckm_i_ref_output(&r, 2), c, dbias[c]);
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_norm[] = {
    {CKM_I_OP_batch_norm_train, batch_norm_workspace, batch_norm_train},
    {CKM_I_OP_batch_norm_apply, batch_norm_workspace, batch_norm_apply},
    {CKM_I_OP_batch_norm_backward, batch_norm_workspace, batch_norm_backward},
    {CKM_I_OP_group_norm, group_norm_workspace, group_norm},
    {CKM_I_OP_group_norm_backward, group_norm_workspace, group_norm_backward},
    {0},
};
