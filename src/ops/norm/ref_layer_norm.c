// SPDX-License-Identifier: Apache-2.0
// Normalization over the last axes, across neighbouring channels, and by a norm.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// ---- layer_norm

typedef struct rows {
    ckm_shape normalized;
    int64_t count, size;
} rows;

static rows read_rows(const ckm_i_ref_op *r, const ckm_shape *x)
{
    int32_t axis = ckm_i_ref_axis(r, "axis", -1, x->rank);
    rows result = {.normalized.rank = x->rank - axis, .count = ckm_i_ref_span(x, 0, axis)};
    memcpy(result.normalized.dims, x->dims + axis, (size_t)(x->rank - axis) * sizeof *x->dims);
    result.size = ckm_i_elements(&result.normalized);
    return result;
}

// Room for scale and bias repeated to a whole row, or, backward, for their gradients besides.
static int64_t layer_norm_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_op r = {.graph = step, .op = v->op};
    return read_rows(&r, &v->in[0]->shape).size * (int64_t)(2 * sizeof(float) + 2 * sizeof(double));
}

// Scale or bias as one element for each of a row; repeated into `room` where it is smaller. NULL when absent.
static const float *whole_row(const ckm_i_ref_op *r, int32_t i, const rows *n, float *room)
{
    const float *given = ckm_i_ref_input(r, i);
    if (given == NULL || ckm_i_elements(&ckm_i_ref_in(r, i)->shape) == n->size) {
        return given;
    }
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&n->normalized);
    ckm_i_ref_walk_add(&w, &n->normalized);
    ckm_i_ref_walk_add(&w, &ckm_i_ref_in(r, i)->shape);
    ckm_i_ref_walk_copy(&w, room, given, (int64_t)sizeof *given);
    return room;
}

static void put(float *to, int64_t i, double value)
{
    if (to != NULL) {
        to[i] = (float)value;
    }
}

// inputs x, [scale], [bias]; outputs y, mean, inv_std
static ckm_status layer_norm(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    rows n = read_rows(&r, &ckm_i_ref_in(&r, 0)->shape);
    float *room = call->workspace;
    const float *scale = whole_row(&r, 1, &n, room);
    const float *bias = whole_row(&r, 2, &n, room + n.size);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    double epsilon = ckm_i_op_attr_double(r.op, "epsilon", 1e-5);
    for (int64_t i = 0; i < n.count; i++, x += n.size) {
        double mean = ckm_i_ref_sum(x, n.size) / (double)n.size;
        double squares = 0.0;
        for (int64_t j = 0; j < n.size; j++) {
            double distance = (double)x[j] - mean;
            squares += distance * distance;
        }
        double deviation = 1.0 / sqrt(squares / (double)n.size + epsilon);
        put(ckm_i_ref_output(&r, 1), i, mean);
        put(ckm_i_ref_output(&r, 2), i, deviation);
        for (int64_t j = 0; y != NULL && j < n.size; j++) {
            float value = (x[j] - (float)mean) * (float)deviation;
            value = scale != NULL ? value * scale[j] : value;
            y[i * n.size + j] = bias != NULL ? value + bias[j] : value;
        }
    }
    return CKM_OK;
}

// One row: dx = s (g - mean(g) - xhat mean(g xhat)) with g = dy scale, xhat = (x - m) s.
static void slope_of_row(const float *dy, const float *x, const float *scale, double mean, double deviation,
                         int64_t size, float *dx)
{
    double plain = 0.0;
    double product = 0.0;
    for (int64_t j = 0; j < size; j++) {
        double g = (double)dy[j] * (scale != NULL ? (double)scale[j] : 1.0);
        plain += g;
        product += g * ((double)x[j] - mean);
    }
    double shift = deviation * plain / (double)size;
    double slope = deviation * deviation * deviation * product / (double)size;
    for (int64_t j = 0; j < size; j++) {
        float g = scale != NULL ? dy[j] * scale[j] : dy[j];
        dx[j] = (float)deviation * g - (x[j] - (float)mean) * (float)slope - (float)shift;
    }
}

// inputs dy, x, [scale], mean, inv_std; outputs dx, dscale, dbias
static ckm_status layer_norm_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    rows n = read_rows(&r, &ckm_i_ref_in(&r, 1)->shape);
    double *dscale = call->workspace;
    double *dbias = dscale + n.size;
    float *room = (float *)(void *)(dbias + n.size);
    const float *scale = whole_row(&r, 2, &n, room);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *means = ckm_i_ref_input(&r, 3);
    const float *deviations = ckm_i_ref_input(&r, 4);
    float *dx = ckm_i_ref_output(&r, 0);
    memset(dscale, 0, (size_t)(2 * n.size) * sizeof *dscale);
    for (int64_t i = 0; i < n.count; i++, dy += n.size, x += n.size) {
        double mean = (double)means[i];
        double deviation = (double)deviations[i];
        for (int64_t j = 0; j < n.size; j++) {
            dscale[j] += (double)dy[j] * ((double)x[j] - mean) * deviation;
            dbias[j] += (double)dy[j];
        }
        if (dx != NULL) {
            slope_of_row(dy, x, scale, mean, deviation, n.size, dx + i * n.size);
        }
    }
    for (int64_t j = 0; j < n.size; j++) {
        put(ckm_i_ref_output(&r, 1), j, dscale[j]);
        put(ckm_i_ref_output(&r, 2), j, dbias[j]);
    }
    return CKM_OK;
}

// ---- local_response_norm: y = x / d^beta, d = bias + alpha / size * (sum of squares of `size` channels around)

typedef struct response {
    int64_t size, channels, stride;  // stride from channel to channel
    double alpha, beta, bias;
} response;

static response read_response(const ckm_i_ref_op *r, const ckm_shape *x)
{
    int32_t axis = ckm_i_channel_axis(r->graph, x->rank);
    int64_t size = ckm_i_op_attr_int(r->op, "size", 0, 5);
    return (response){.size = size,
                      .channels = x->dims[axis],
                      .stride = ckm_i_ref_span(x, axis + 1, x->rank),
                      .alpha = ckm_i_op_attr_double(r->op, "alpha", 1e-4) / (double)size,
                      .beta = ckm_i_op_attr_double(r->op, "beta", 0.75),
                      .bias = ckm_i_op_attr_double(r->op, "bias", 1.0)};
}

static int64_t response_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    const ckm_shape *x = &v->in[0]->shape;
    return x->dims[ckm_i_channel_axis(step, x->rank)] * (int64_t)(2 * sizeof(double));
}

// d for every channel of one position.
static void divisors(const response *n, const float *x, double *d)
{
    for (int64_t c = 0; c < n->channels; c++) {
        int64_t first = c - (n->size - 1) / 2;
        int64_t last = c + n->size / 2;
        double sum = 0.0;
        for (int64_t k = first > 0 ? first : 0; k <= last && k < n->channels; k++) {
            double value = (double)x[k * n->stride];
            sum += value * value;
        }
        d[c] = n->bias + n->alpha * sum;
    }
}

static ckm_status local_response_norm(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    response n = read_response(&r, shape);
    double *d = call->workspace;
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    int64_t positions = ckm_i_elements(shape) / n.channels;
    for (int64_t p = 0; p < positions; p++) {
        int64_t at = p / n.stride * n.channels * n.stride + p % n.stride;
        divisors(&n, x + at, d);
        for (int64_t c = 0; c < n.channels; c++) {
            y[at + c * n.stride] = (float)((double)x[at + c * n.stride] * pow(d[c], -n.beta));
        }
    }
    return CKM_OK;
}

// inputs dy, x
static ckm_status local_response_norm_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                               ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 1)->shape;
    response n = read_response(&r, shape);
    double *d = call->workspace;
    double *product = d + n.channels;  // dy x d^(-beta - 1)
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    float *dx = ckm_i_ref_output(&r, 0);
    int64_t positions = ckm_i_elements(shape) / n.channels;
    for (int64_t p = 0; p < positions; p++) {
        int64_t at = p / n.stride * n.channels * n.stride + p % n.stride;
        divisors(&n, x + at, d);
        for (int64_t c = 0; c < n.channels; c++) {
            int64_t i = at + c * n.stride;
            product[c] = (double)dy[i] * (double)x[i] * pow(d[c], -n.beta - 1.0);
        }
        for (int64_t c = 0; c < n.channels; c++) {
            int64_t i = at + c * n.stride;
            int64_t first = c - n.size / 2;  // channels whose window holds c
            int64_t last = c + (n.size - 1) / 2;
            double sum = 0.0;
            for (int64_t k = first > 0 ? first : 0; k <= last && k < n.channels; k++) {
                sum += product[k];
            }
            dx[i] = (float)((double)dy[i] * pow(d[c], -n.beta) - 2.0 * n.alpha * n.beta * (double)x[i] * sum);
        }
    }
    return CKM_OK;
}

// ---- lp_norm: x divided by its norm along an axis; attributes axis (-1), p (1 or 2)

// Lines along the axis: element k of line i is at line_start(i) + k * inner.
typedef struct lines {
    int64_t count, size, inner;
    bool absolute;  // p = 1
} lines;

static lines read_lines(const ckm_i_ref_op *r, const ckm_shape *x)
{
    int32_t axis = ckm_i_ref_axis(r, "axis", -1, x->rank);
    int64_t inner = ckm_i_ref_span(x, axis + 1, x->rank);
    return (lines){.count = ckm_i_ref_span(x, 0, axis) * inner,
                   .size = x->dims[axis],
                   .inner = inner,
                   .absolute = ckm_i_op_attr_int(r->op, "p", 0, 2) == 1};
}

static int64_t line_start(const lines *n, int64_t line)
{
    return line / n->inner * n->size * n->inner + line % n->inner;
}

static double norm_of_line(const lines *n, const float *x)
{
    double sum = 0.0;
    for (int64_t k = 0; k < n->size; k++) {
        double value = (double)x[k * n->inner];
        sum += n->absolute ? fabs(value) : value * value;
    }
    return n->absolute ? sum : sqrt(sum);
}

static ckm_status lp_norm(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    lines n = read_lines(&r, &ckm_i_ref_in(&r, 0)->shape);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t line = 0; line < n.count; line++) {
        int64_t at = line_start(&n, line);
        double norm = norm_of_line(&n, x + at);
        for (int64_t k = 0; k < n.size; k++) {
            double value = (double)x[at + k * n.inner];
            y[at + k * n.inner] = norm == 0.0 ? 0.0F : (float)(value / norm);
        }
    }
    return CKM_OK;
}

// inputs dy, x. dx = (dy - g sum(dy x / norm)) / norm, g the slope of the norm.
static ckm_status lp_norm_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    lines n = read_lines(&r, &ckm_i_ref_in(&r, 1)->shape);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    float *dx = ckm_i_ref_output(&r, 0);
    for (int64_t line = 0; line < n.count; line++) {
        int64_t at = line_start(&n, line);
        double norm = norm_of_line(&n, x + at);
        double product = 0.0;
        for (int64_t k = 0; k < n.size; k++) {
            int64_t i = at + k * n.inner;
            product += norm == 0.0 ? 0.0 : (double)dy[i] * ((double)x[i] / norm);
        }
        for (int64_t k = 0; k < n.size; k++) {
            int64_t i = at + k * n.inner;
            double sign = (double)((x[i] > 0.0F) - (x[i] < 0.0F));
            double slope = n.absolute ? sign : (double)x[i] / norm;
            dx[i] = norm == 0.0 ? 0.0F : (float)(((double)dy[i] - slope * product) / norm);
        }
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_layer_norm[] = {
    {CKM_I_OP_layer_norm, layer_norm_workspace, layer_norm},
    {CKM_I_OP_layer_norm_backward, layer_norm_workspace, layer_norm_backward},
    {CKM_I_OP_local_response_norm, response_workspace, local_response_norm},
    {CKM_I_OP_local_response_norm_backward, response_workspace, local_response_norm_backward},
    {CKM_I_OP_lp_norm, NULL, lp_norm},
    {CKM_I_OP_lp_norm_backward, NULL, lp_norm_backward},
    {0},
};
