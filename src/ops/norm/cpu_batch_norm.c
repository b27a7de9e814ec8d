// SPDX-License-Identifier: Apache-2.0
// Batch normalization in training: forward with statistics, backward. Bound by memory, so each pass over the tensor
// does all it can: statistics take one pass, shifted by each channel's first value so that a large mean does not eat
// the variance; short sums run in single precision and are added up in double precision.
//
// Channels last (and any tensor whose normalized axis is the last): rows are divided into chunks by their number
// alone, each chunk has its sums in the workspace, and the chunks' sums are added in order. Otherwise every channel
// is summed by one thread. So no sum depends on the number of threads.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"

enum { BLOCK_ROWS = 128, CHUNK_ROWS = 256, MAX_CHUNKS = 32, LANES = 16, BLOCK_RUN = 2048 };

typedef struct norm {
    ckm_i_cpu_around shape;
    int64_t count;   // elements of one channel
    int64_t chunks;  // channels last only
    double epsilon, momentum;
} norm;

// What one pass needs, for all threads. First and second are the sums of each channel.
typedef struct pass {
    const norm *n;
    const float *x, *dy;
    float *out;
    const float *gamma, *beta, *mean, *inv_std;
    double *chunk_sums;  // chunks x 2 x C
    float *block_sums;   // chunks x 2 x C
    double *first, *second;
    float *scale, *shift, *slope;  // C each, see map_rows
    bool backward;
} pass;

// ---- sums, channels last

// Adds one row of x: sums of d = x - shift and of d squared.
CKM_I_CPU_CLONES static void add_rows(const float *x, const float *shift, int64_t rows, int64_t c, float *a, float *b)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * c;
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < c; i++) {
            float d = row[i] - shift[i];
            a[i] += d;
            b[i] += d * d;
        }
    }
}

// The same of two tensors: sums of dy and of dy (x - mean).
CKM_I_CPU_CLONES static void add_row_pairs(const float *dy, const float *x, const float *mean, int64_t rows, int64_t c,
                                           float *a, float *b)
{
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * c;
        const float *gradient = dy + r * c;
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < c; i++) {
            a[i] += gradient[i];
            b[i] += gradient[i] * (row[i] - mean[i]);
        }
    }
}

static void sum_chunk(const pass *p, int64_t chunk)
{
    int64_t c = p->n->shape.axis;
    int64_t rows = p->n->shape.outer;
    int64_t begin = rows * chunk / p->n->chunks;
    int64_t end = rows * (chunk + 1) / p->n->chunks;
    float *a = p->block_sums + chunk * 2 * c;
    double *sums = p->chunk_sums + chunk * 2 * c;
    memset(sums, 0, (size_t)(2 * c) * sizeof *sums);
    for (int64_t r = begin; r < end; r += BLOCK_ROWS) {
        int64_t n = end - r < BLOCK_ROWS ? end - r : BLOCK_ROWS;
        memset(a, 0, (size_t)(2 * c) * sizeof *a);
        if (p->backward) {
            add_row_pairs(p->dy + r * c, p->x + r * c, p->mean, n, c, a, a + c);
        } else {
            add_rows(p->x + r * c, p->x, n, c, a, a + c);
        }
        for (int64_t i = 0; i < 2 * c; i++) {
            sums[i] += (double)a[i];
        }
    }
}

static void sum_chunks(void *context, int64_t begin, int64_t end)
{
    for (int64_t chunk = begin; chunk < end; chunk++) {
        sum_chunk(context, chunk);
    }
}

static void sum_last(const ckm_i_cpu *cpu, pass *p)
{
    int64_t c = p->n->shape.axis;
    ckm_i_cpu_parallel(cpu->threads, p->n->chunks, 1, sum_chunks, p);
    // The first chunk's sums become the total.
    for (int64_t chunk = 1; chunk < p->n->chunks; chunk++) {
        for (int64_t i = 0; i < 2 * c; i++) {
            p->chunk_sums[i] += p->chunk_sums[chunk * 2 * c + i];
        }
    }
    p->first = p->chunk_sums;
    p->second = p->chunk_sums + c;
}

// ---- sums, channels first

CKM_I_CPU_CLONES static void add_run(const float *x, float shift, int64_t n, double *first, double *second)
{
    float a[LANES] = {0};
    float b[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int j = 0; j < LANES; j++) {
            float d = x[i + j] - shift;
            a[j] += d;
            b[j] += d * d;
        }
    }
    for (int j = 0; i < n; i++, j++) {
        float d = x[i] - shift;
        a[j] += d;
        b[j] += d * d;
    }
    for (int j = 0; j < LANES; j++) {
        *first += (double)a[j];
        *second += (double)b[j];
    }
}

CKM_I_CPU_CLONES static void add_run_pairs(const float *dy, const float *x, float mean, int64_t n, double *first,
                                           double *second)
{
    float a[LANES] = {0};
    float b[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        CKM_I_CPU_SIMD
        for (int j = 0; j < LANES; j++) {
            a[j] += dy[i + j];
            b[j] += dy[i + j] * (x[i + j] - mean);
        }
    }
    for (int j = 0; i < n; i++, j++) {
        a[j] += dy[i];
        b[j] += dy[i] * (x[i] - mean);
    }
    for (int j = 0; j < LANES; j++) {
        *first += (double)a[j];
        *second += (double)b[j];
    }
}

static void sum_channels(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    ckm_i_cpu_around s = p->n->shape;
    for (int64_t c = begin; c < end; c++) {
        p->first[c] = 0.0;
        p->second[c] = 0.0;
        float shift = p->backward ? p->mean[c] : p->x[c * s.inner];
        for (int64_t o = 0; o < s.outer; o++) {
            int64_t at = (o * s.axis + c) * s.inner;
            for (int64_t i = 0; i < s.inner; i += BLOCK_RUN) {
                int64_t n = s.inner - i < BLOCK_RUN ? s.inner - i : BLOCK_RUN;
                if (p->backward) {
                    add_run_pairs(p->dy + at + i, p->x + at + i, shift, n, &p->first[c], &p->second[c]);
                } else {
                    add_run(p->x + at + i, shift, n, &p->first[c], &p->second[c]);
                }
            }
        }
    }
}

static void sum_all(const ckm_i_cpu *cpu, pass *p)
{
    if (p->n->shape.inner == 1) {
        sum_last(cpu, p);
    } else {
        p->first = p->chunk_sums;
        p->second = p->chunk_sums + p->n->shape.axis;
        ckm_i_cpu_parallel(cpu->threads, p->n->shape.axis, 1, sum_channels, p);
    }
}

// ---- the second pass

// out = (x - mean) scale + shift, and with dy: out = scale dy + (x - mean) slope + shift.
CKM_I_CPU_CLONES static void map_rows(const float *x, const float *mean, const float *scale, const float *shift,
                                      int64_t rows, int64_t c, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < c; i++) {
            out[r * c + i] = (x[r * c + i] - mean[i]) * scale[i] + shift[i];
        }
    }
}

CKM_I_CPU_CLONES static void map_row_pairs(const float *dy, const float *x, const float *mean, const float *scale,
                                           const float *slope, const float *shift, int64_t rows, int64_t c, float *out)
{
    for (int64_t r = 0; r < rows; r++) {
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < c; i++) {
            int64_t at = r * c + i;
            out[at] = scale[i] * dy[at] + (x[at] - mean[i]) * slope[i] + shift[i];
        }
    }
}

CKM_I_CPU_CLONES static void map_run(const float *x, float mean, float scale, float shift, int64_t n, float *out)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        out[i] = (x[i] - mean) * scale + shift;
    }
}

CKM_I_CPU_CLONES static void map_run_pairs(const float *dy, const float *x, float mean, float scale, float slope,
                                           float shift, int64_t n, float *out)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        out[i] = scale * dy[i] + (x[i] - mean) * slope + shift;
    }
}

static void map_part(void *context, int64_t begin, int64_t end)
{
    const pass *p = context;
    int64_t c = p->n->shape.axis;
    int64_t inner = p->n->shape.inner;
    if (inner == 1) {
        int64_t at = begin * c;
        if (p->backward) {
            map_row_pairs(p->dy + at, p->x + at, p->mean, p->scale, p->slope, p->shift, end - begin, c, p->out + at);
        } else {
            map_rows(p->x + at, p->mean, p->scale, p->shift, end - begin, c, p->out + at);
        }
        return;
    }
    for (int64_t r = begin; r < end; r++) {  // one channel of one sample
        int64_t i = r % c;
        int64_t at = r * inner;
        if (p->backward) {
            map_run_pairs(p->dy + at, p->x + at, p->mean[i], p->scale[i], p->slope[i], p->shift[i], inner, p->out + at);
        } else {
            map_run(p->x + at, p->mean[i], p->scale[i], p->shift[i], inner, p->out + at);
        }
    }
}

static void map_all(const ckm_i_cpu *cpu, pass *p)
{
    ckm_i_cpu_around s = p->n->shape;
    int64_t rows = s.inner == 1 ? s.outer : s.outer * s.axis;
    int64_t row = s.inner == 1 ? s.axis : s.inner;
    ckm_i_cpu_parallel(cpu->threads, rows, CKM_I_CPU_GRAIN / row + 1, map_part, p);
}

// ---- the two operators

// Pieces of the workspace: sums of all chunks, and scale, shift, slope, and two rows for results that are not read.
static void place_in_workspace(pass *p, void *workspace)
{
    int64_t c = p->n->shape.axis;
    p->chunk_sums = workspace;
    float *floats = (float *)(p->chunk_sums + p->n->chunks * 2 * c);
    p->block_sums = floats;
    p->scale = floats + p->n->chunks * 2 * c;
    p->shift = p->scale + c;
    p->slope = p->shift + c;
}

static float *modified(const void *input)
{
    union {
        const void *given;
        float *taken;
    } both = {.given = input};
    return both.taken;
}

// The sums of a channel of large numbers, whose squares leave the range of floats.
static void sum_in_double(const pass *p, int64_t channel)
{
    ckm_i_cpu_around s = p->n->shape;
    double shift = (double)p->x[channel * s.inner];
    p->first[channel] = 0.0;
    p->second[channel] = 0.0;
    for (int64_t o = 0; o < s.outer; o++) {
        const float *run = p->x + (o * s.axis + channel) * s.inner;
        for (int64_t i = 0; i < s.inner; i++) {
            double d = (double)run[i] - shift;
            p->first[channel] += d;
            p->second[channel] += d * d;
        }
    }
}

// running = momentum running + (1 - momentum) batch
static void move_running(float *running, double momentum, double batch)
{
    *running = (float)(momentum * (double)*running + (1.0 - momentum) * batch);
}

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const norm *n = kernel->data;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    const void *optional[4] = {NULL, NULL, NULL, NULL};  // gamma, beta, running mean and variance
    for (int32_t i = 0; i < 4; i++) {
        optional[i] = op->n_inputs > i + 1 && op->inputs[i + 1] >= 0 ? call->inputs[i + 1] : NULL;
    }
    pass p = {.n = n, .x = call->inputs[0], .out = call->outputs[0], .gamma = optional[0], .beta = optional[1]};
    place_in_workspace(&p, call->workspace);
    sum_all(cpu, &p);
    float *mean = call->outputs[1] != NULL ? call->outputs[1] : p.block_sums;
    float *inv_std = call->outputs[2] != NULL ? call->outputs[2] : p.slope;
    double count = (double)n->count;
    for (int64_t c = 0; c < n->shape.axis; c++) {
        if (!isfinite(p.second[c])) {
            sum_in_double(&p, c);
        }
        // Channels last takes the first row as the shift, channels first each channel's first element: the same.
        double m = (double)p.x[c * n->shape.inner] + p.first[c] / count;
        double variance = (p.second[c] - p.first[c] * p.first[c] / count) / count;
        variance = variance < 0.0 ? 0.0 : variance;
        double inverse = 1.0 / sqrt(variance + n->epsilon);
        mean[c] = (float)m;
        inv_std[c] = (float)inverse;
        p.scale[c] = (p.gamma != NULL ? p.gamma[c] : 1.0f) * inv_std[c];
        p.shift[c] = p.beta != NULL ? p.beta[c] : 0.0f;
        if (call->first && optional[2] != NULL) {
            move_running(modified(optional[2]) + c, n->momentum, m);
        }
        if (call->first && optional[3] != NULL) {
            move_running(modified(optional[3]) + c, n->momentum,
                         n->count > 1 ? variance * count / (count - 1) : variance);
        }
    }
    p.mean = mean;
    if (p.out != NULL) {
        map_all(cpu, &p);
    }
    return CKM_OK;
}

static ckm_status run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    const norm *n = kernel->data;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    pass p = {.n = n,
              .dy = call->inputs[0],
              .x = call->inputs[1],
              .gamma = op->inputs[2] >= 0 ? call->inputs[2] : NULL,
              .mean = call->inputs[3],
              .inv_std = call->inputs[4],
              .out = call->outputs[0],
              .backward = true};
    float *dgamma = call->outputs[1];
    float *dbeta = call->outputs[2];
    place_in_workspace(&p, call->workspace);
    sum_all(cpu, &p);
    double count = (double)n->count;
    for (int64_t c = 0; c < n->shape.axis; c++) {
        double inverse = (double)p.inv_std[c];
        double scale = (p.gamma != NULL ? (double)p.gamma[c] : 1.0) * inverse;
        p.scale[c] = (float)scale;
        p.slope[c] = (float)(-scale * inverse * inverse * p.second[c] / count);
        p.shift[c] = (float)(-scale * p.first[c] / count);
        if (dgamma != NULL) {
            dgamma[c] = (float)(p.second[c] * inverse);
        }
        if (dbeta != NULL) {
            dbeta[c] = (float)p.first[c];
        }
    }
    if (p.out != NULL) {
        map_all(cpu, &p);
    }
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_op_view *v, const ckm_i_graph_tensor *x, ckm_i_kernel *kernel, ckm_error *err)
{
    if (!ckm_i_cpu_floats(v) || ckm_i_elements(&x->shape) == 0) {
        return CKM_OK;
    }
    norm *n = ckm_i_calloc(1, sizeof *n);
    if (n == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->data = n;
    kernel->dispose = free;
    int32_t channels = ckm_i_channel_axis(v->graph, x->shape.rank);
    n->shape = ckm_i_cpu_view_around(&x->shape, ckm_i_op_attr_int(v->op, "axis", 0, channels));
    n->count = n->shape.outer * n->shape.inner;
    n->chunks = n->shape.outer / CHUNK_ROWS;
    n->chunks = n->shape.inner > 1 || n->chunks < 1 ? 1 : (n->chunks > MAX_CHUNKS ? MAX_CHUNKS : n->chunks);
    n->epsilon = ckm_i_op_attr_double(v->op, "epsilon", 1e-3);
    n->momentum = ckm_i_op_attr_double(v->op, "momentum", 0.99);
    kernel->workspace_bytes = n->shape.axis *
                              (n->chunks * 2 * (int64_t)(sizeof(double) + sizeof(float)) + 3 * (int64_t)sizeof(float));
    return CKM_OK;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    ckm_status status = prepare(v, v->in[0], kernel, err);
    kernel->run = kernel->data != NULL ? run_forward : NULL;
    return status;
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    ckm_status status = prepare(v, v->in[1], kernel, err);
    kernel->run = kernel->data != NULL ? run_backward : NULL;
    return status;
}

const ckm_i_cpu_row ckm_i_cpu_batch_norm[] = {
    {CKM_I_OP_batch_norm_train, prepare_forward},
    {CKM_I_OP_batch_norm_backward, prepare_backward},
    {0},
};
