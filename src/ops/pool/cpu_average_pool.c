// SPDX-License-Identifier: Apache-2.0
// Average pooling over one or two spatial axes. Backward, like that of max pooling, gathers for every input element
// from the windows over it.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ops/pool/cpu_pool.h"

// Images are batch x height x width x channels; channels first is seen as batch and channels together, each image with
// one channel.
typedef struct pool {
    ckm_i_cpu_windows w;
    bool padded;  // padding counts
} pool;

typedef struct job {
    const pool *p;
    const float *in;
    float *out;
} job;

// Elements of axis i under the window at `at`.
static int64_t count_taps(const pool *p, int i, int64_t at)
{
    int64_t low = p->padded ? -p->w.begin[i] : 0;
    int64_t high = p->w.in[i] + (p->padded ? p->w.end[i] : 0);
    int64_t count = 0;
    for (int64_t t = 0; t < p->w.kernel[i]; t++) {
        int64_t x = at * p->w.stride[i] + t * p->w.dilation[i] - p->w.begin[i];
        count += x >= low && x < high;
    }
    return count;
}

static float factor_of(const pool *p, int64_t oh, int64_t ow)
{
    return 1.0F / (float)(count_taps(p, 0, oh) * count_taps(p, 1, ow));
}

CKM_I_CPU_CLONES static void add_scaled(const float *x, float factor, int64_t n, float *sum)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        sum[i] += factor * x[i];
    }
}

static void forward_window(const job *j, int64_t image, int64_t oh, int64_t ow, float *y)
{
    const pool *p = j->p;
    float factor = factor_of(p, oh, ow);
    memset(y, 0, (size_t)p->w.channels * sizeof *y);
    for (int64_t kh = 0; kh < p->w.kernel[0]; kh++) {
        int64_t h = oh * p->w.stride[0] + kh * p->w.dilation[0] - p->w.begin[0];
        for (int64_t kw = 0; h >= 0 && h < p->w.in[0] && kw < p->w.kernel[1]; kw++) {
            int64_t w = ow * p->w.stride[1] + kw * p->w.dilation[1] - p->w.begin[1];
            if (w >= 0 && w < p->w.in[1]) {
                add_scaled(j->in + ((image * p->w.in[0] + h) * p->w.in[1] + w) * p->w.channels, 1.0F, p->w.channels, y);
            }
        }
    }
    for (int64_t c = 0; c < p->w.channels; c++) {
        y[c] *= factor;
    }
}

static void forward_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t r = begin; r < end; r++) {
        for (int64_t ow = 0; ow < p->w.out[1]; ow++) {
            forward_window(j, r / p->w.out[0], r % p->w.out[0], ow, j->out + (r * p->w.out[1] + ow) * p->w.channels);
        }
    }
}

static void backward_element(const job *j, int64_t image, int64_t h, int64_t w, float *dx)
{
    const pool *p = j->p;
    memset(dx, 0, (size_t)p->w.channels * sizeof *dx);
    for (int64_t kh = 0; kh < p->w.kernel[0]; kh++) {
        int64_t oh = ckm_i_cpu_window_of(&p->w, 0, h, kh);
        for (int64_t kw = 0; oh >= 0 && kw < p->w.kernel[1]; kw++) {
            int64_t ow = ckm_i_cpu_window_of(&p->w, 1, w, kw);
            if (ow >= 0) {
                add_scaled(j->in + ((image * p->w.out[0] + oh) * p->w.out[1] + ow) * p->w.channels,
                           factor_of(p, oh, ow), p->w.channels, dx);
            }
        }
    }
}

static void backward_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t r = begin; r < end; r++) {
        for (int64_t w = 0; w < p->w.in[1]; w++) {
            backward_element(j, r / p->w.in[0], r % p->w.in[0], w, j->out + (r * p->w.in[1] + w) * p->w.channels);
        }
    }
}

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    job j = {.p = kernel->data, .in = call->inputs[0], .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, j.p->w.batch * j.p->w.out[0], 1, forward_rows, &j);
    return CKM_OK;
}

static ckm_status run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    job j = {.p = kernel->data, .in = call->inputs[0], .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, j.p->w.batch * j.p->w.in[0], 1, backward_rows, &j);
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_op_view *v, const ckm_i_graph_tensor *x, const ckm_i_graph_tensor *y,
                          ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_i_cpu_windows windows;
    if (!ckm_i_cpu_windows_read(v, x, y, &windows)) {
        return CKM_OK;
    }
    if (!windows.channels_last) {
        windows.batch *= windows.channels;
        windows.channels = 1;
    }
    pool *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    *p = (pool){.w = windows, .padded = ckm_i_op_attr_int(v->op, "count_include_pad", 0, 0) != 0};
    kernel->data = p;
    kernel->dispose = free;
    return CKM_OK;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    ckm_status status = prepare(v, v->in[0], &v->graph->tensors[v->op->outputs[0]], kernel, err);
    kernel->run = kernel->data != NULL ? run_forward : NULL;
    return status;
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    ckm_status status = prepare(v, &v->graph->tensors[v->op->outputs[0]], v->in[0], kernel, err);
    kernel->run = kernel->data != NULL ? run_backward : NULL;
    return status;
}

const ckm_i_cpu_row ckm_i_cpu_average_pool[] = {
    {CKM_I_OP_average_pool, prepare_forward},
    {CKM_I_OP_average_pool_backward, prepare_backward},
    {0},
};
