// SPDX-License-Identifier: Apache-2.0
// Normalization of rows: forward row by row; backward row by row for dx, and by chunks of rows for the gradients of
// scale and bias, added up in order, so that nothing depends on the number of threads.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"

enum { LANES = 16, CHUNK_ROWS = 64, MAX_CHUNKS = 32 };

typedef struct norm {
    int64_t rows, size, chunks;
    double epsilon;
    bool scale, bias;
} norm;

typedef struct job {
    const norm *n;
    const float *x, *dy, *scale, *bias, *mean, *inv_std;
    float *out, *mean_out, *inv_std_out;
    float *sums;  // chunks x 2 x size
} job;

static double add_lanes(const float *lane)
{
    double sum = 0.0;
    for (int k = 0; k < LANES; k++) {
        sum += (double)lane[k];
    }
    return sum;
}

CKM_I_CPU_CLONES static double sum_of(const float *x, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int k = 0; k < LANES; k++) {
            lane[k] += x[i + k];
        }
    }
    for (int k = 0; i < n; i++, k++) {
        lane[k] += x[i];
    }
    return add_lanes(lane);
}

CKM_I_CPU_CLONES static double squares_of(const float *x, float mean, int64_t n)
{
    float lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int k = 0; k < LANES; k++) {
            float d = x[i + k] - mean;
            lane[k] += d * d;
        }
    }
    for (int k = 0; i < n; i++, k++) {
        float d = x[i] - mean;
        lane[k] += d * d;
    }
    return add_lanes(lane);
}

CKM_I_CPU_CLONES static void map_row(const float *x, float mean, float inv_std, const float *scale, const float *bias,
                                     int64_t n, float *y)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        float value = (x[i] - mean) * inv_std;
        value = scale != NULL ? value * scale[i] : value;
        y[i] = bias != NULL ? value + bias[i] : value;
    }
}

// Squares of large numbers leave the range of floats; these sums do not.
static void statistics_in_double(const float *x, int64_t n, float *mean, double *variance)
{
    double sum = 0.0;
    double squares = 0.0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)x[i];
    }
    for (int64_t i = 0; i < n; i++) {
        double d = (double)x[i] - sum / (double)n;
        squares += d * d;
    }
    *mean = (float)(sum / (double)n);
    *variance = squares / (double)n;
}

static void forward_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    int64_t n = j->n->size;
    for (int64_t r = begin; r < end; r++) {
        const float *x = j->x + r * n;
        float mean = (float)(sum_of(x, n) / (double)n);
        // The rounded mean's own distance from the mean is taken out again.
        double off = sum_of(x, n) / (double)n - (double)mean;
        double variance = squares_of(x, mean, n) / (double)n - off * off;
        if (!isfinite(variance)) {
            statistics_in_double(x, n, &mean, &variance);
        }
        float inv_std = (float)(1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + j->n->epsilon));
        if (j->mean_out != NULL) {
            j->mean_out[r] = mean;
        }
        if (j->inv_std_out != NULL) {
            j->inv_std_out[r] = inv_std;
        }
        if (j->out != NULL) {
            map_row(x, mean, inv_std, j->scale, j->bias, n, j->out + r * n);
        }
    }
}

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const norm *n = kernel->data;
    job j = {.n = n,
             .x = call->inputs[0],
             .scale = n->scale ? call->inputs[1] : NULL,
             .bias = n->bias ? call->inputs[2] : NULL,
             .out = call->outputs[0],
             .mean_out = call->outputs[1],
             .inv_std_out = call->outputs[2]};
    ckm_i_cpu_parallel(cpu->threads, n->rows, CKM_I_CPU_GRAIN / n->size + 1, forward_rows, &j);
    return CKM_OK;
}

// ---- backward: with g = dy scale and h = (x - mean) inv_std, dx = inv_std (g - mean(g) - h mean(g h))

CKM_I_CPU_CLONES static void sums_of_pair(const job *j, const float *dy, const float *x, float mean, float inv_std,
                                          double *first, double *second)
{
    int64_t n = j->n->size;
    const float *scale = j->scale;
    float a[LANES] = {0};
    float b[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int k = 0; k < LANES; k++) {
            float g = scale != NULL ? dy[i + k] * scale[i + k] : dy[i + k];
            a[k] += g;
            b[k] += g * ((x[i + k] - mean) * inv_std);
        }
    }
    for (int k = 0; i < n; i++, k++) {
        float g = scale != NULL ? dy[i] * scale[i] : dy[i];
        a[k] += g;
        b[k] += g * ((x[i] - mean) * inv_std);
    }
    *first = add_lanes(a);
    *second = add_lanes(b);
}

// Adds the row to the sums for scale and bias and writes dx, which may lie over dy or x.
CKM_I_CPU_CLONES static void backward_row(const job *j, const float *dy, const float *x, float mean, float inv_std,
                                          float first, float second, float *dscale, float *dbias, float *dx)
{
    const float *scale = j->scale;
    int64_t n = j->n->size;
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        float gradient = dy[i];
        float h = (x[i] - mean) * inv_std;
        float g = scale != NULL ? gradient * scale[i] : gradient;
        dscale[i] += gradient * h;
        dbias[i] += gradient;
        dx[i] = inv_std * (g - first - h * second);
    }
}

static void backward_chunks(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    int64_t n = j->n->size;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        float *dscale = j->sums + chunk * 2 * n;
        memset(dscale, 0, (size_t)(2 * n) * sizeof *dscale);
        int64_t last = j->n->rows * (chunk + 1) / j->n->chunks;
        for (int64_t r = j->n->rows * chunk / j->n->chunks; r < last; r++) {
            double first;
            double second;
            const float *dy = j->dy + r * n;
            const float *x = j->x + r * n;
            sums_of_pair(j, dy, x, j->mean[r], j->inv_std[r], &first, &second);
            backward_row(j, dy, x, j->mean[r], j->inv_std[r], (float)(first / (double)n), (float)(second / (double)n),
                         dscale, dscale + n, j->out + r * n);
        }
    }
}

static void join_chunks(const job *j, int64_t part, float *out)
{
    int64_t n = j->n->size;
    for (int64_t i = 0; out != NULL && i < n; i++) {
        double sum = 0.0;
        for (int64_t chunk = 0; chunk < j->n->chunks; chunk++) {
            sum += (double)j->sums[(chunk * 2 + part) * n + i];
        }
        out[i] = (float)sum;
    }
}

static ckm_status run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    const norm *n = kernel->data;
    job j = {.n = n,
             .dy = call->inputs[0],
             .x = call->inputs[1],
             .scale = n->scale ? call->inputs[2] : NULL,
             .mean = call->inputs[3],
             .inv_std = call->inputs[4],
             .out = call->outputs[0],
             .sums = call->workspace};
    ckm_i_cpu_parallel(cpu->threads, n->chunks, 1, backward_chunks, &j);
    join_chunks(&j, 0, call->outputs[1]);
    join_chunks(&j, 1, call->outputs[2]);
    return CKM_OK;
}

// Present and one element for each of a row.
static bool is_row(const ckm_i_op_view *v, int32_t i, int64_t size)
{
    return ckm_i_elements(&v->in[i]->shape) == size;
}

static ckm_status prepare(const ckm_i_op_view *v, int32_t x, bool backward, ckm_i_kernel *kernel, ckm_error *err)
{
    const ckm_shape *shape = &v->in[x]->shape;
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, -1);
    norm n = {.rows = 1, .size = 1, .epsilon = ckm_i_op_attr_double(v->op, "epsilon", 1e-5)};
    axis = axis < 0 ? axis + shape->rank : axis;
    for (int32_t i = 0; i < shape->rank; i++) {
        *(i < axis ? &n.rows : &n.size) *= shape->dims[i];
    }
    int32_t scale = x + 1;
    n.scale = v->op->n_inputs > scale && v->op->inputs[scale] >= 0;
    n.bias = !backward && v->op->n_inputs > 2 && v->op->inputs[2] >= 0;
    bool takes = ckm_i_cpu_floats(v) && n.rows > 0 && n.size > 0 && (!n.scale || is_row(v, scale, n.size)) &&
                 (!n.bias || is_row(v, 2, n.size));
    if (!takes || (backward && v->op->outputs[0] < 0)) {
        return CKM_OK;
    }
    n.chunks = n.rows / CHUNK_ROWS < 1 ? 1 : (n.rows / CHUNK_ROWS > MAX_CHUNKS ? MAX_CHUNKS : n.rows / CHUNK_ROWS);
    norm *kept = ckm_i_memdup(&n, 1, sizeof n);
    if (kept == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->data = kept;
    kernel->dispose = free;
    kernel->run = backward ? run_backward : run_forward;
    kernel->workspace_bytes = backward ? n.chunks * 2 * n.size * (int64_t)sizeof(float) : 0;
    return CKM_OK;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare(v, 0, false, kernel, err);
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return prepare(v, 1, true, kernel, err);
}

const ckm_i_cpu_row ckm_i_cpu_layer_norm[] = {
    {CKM_I_OP_layer_norm, prepare_forward},
    {CKM_I_OP_layer_norm_backward, prepare_backward},
    {0},
};
