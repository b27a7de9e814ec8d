// SPDX-License-Identifier: Apache-2.0
// Average pooling over one or two spatial axes. Backward, like that of max pooling, gathers for every input element
// from the windows over it.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/ref_window.h"

// Height first; one spatial axis is a height of 1. Images are batch x height x width x channels; channels first is
// seen as batch and channels together, each image with one channel.
typedef struct pool {
    int64_t images, channels;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2], end[2];
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
    int64_t low = p->padded ? -p->begin[i] : 0;
    int64_t high = p->in[i] + (p->padded ? p->end[i] : 0);
    int64_t count = 0;
    for (int64_t t = 0; t < p->kernel[i]; t++) {
        int64_t x = at * p->stride[i] + t * p->dilation[i] - p->begin[i];
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
    memset(y, 0, (size_t)p->channels * sizeof *y);
    for (int64_t kh = 0; kh < p->kernel[0]; kh++) {
        int64_t h = oh * p->stride[0] + kh * p->dilation[0] - p->begin[0];
        for (int64_t kw = 0; h >= 0 && h < p->in[0] && kw < p->kernel[1]; kw++) {
            int64_t w = ow * p->stride[1] + kw * p->dilation[1] - p->begin[1];
            if (w >= 0 && w < p->in[1]) {
                add_scaled(j->in + ((image * p->in[0] + h) * p->in[1] + w) * p->channels, 1.0F, p->channels, y);
            }
        }
    }
    for (int64_t c = 0; c < p->channels; c++) {
        y[c] *= factor;
    }
}

static void forward_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t r = begin; r < end; r++) {
        for (int64_t ow = 0; ow < p->out[1]; ow++) {
            forward_window(j, r / p->out[0], r % p->out[0], ow, j->out + (r * p->out[1] + ow) * p->channels);
        }
    }
}

// The window along axis i that reads input position `at` with tap `tap`, or -1.
static int64_t window_of(const pool *p, int i, int64_t at, int64_t tap)
{
    int64_t start = at + p->begin[i] - tap * p->dilation[i];
    if (start < 0 || start % p->stride[i] != 0) {
        return -1;
    }
    int64_t window = start / p->stride[i];
    return window < p->out[i] ? window : -1;
}

static void backward_element(const job *j, int64_t image, int64_t h, int64_t w, float *dx)
{
    const pool *p = j->p;
    memset(dx, 0, (size_t)p->channels * sizeof *dx);
    for (int64_t kh = 0; kh < p->kernel[0]; kh++) {
        int64_t oh = window_of(p, 0, h, kh);
        for (int64_t kw = 0; oh >= 0 && kw < p->kernel[1]; kw++) {
            int64_t ow = window_of(p, 1, w, kw);
            if (ow >= 0) {
                add_scaled(j->in + ((image * p->out[0] + oh) * p->out[1] + ow) * p->channels, factor_of(p, oh, ow),
                           p->channels, dx);
            }
        }
    }
}

static void backward_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t r = begin; r < end; r++) {
        for (int64_t w = 0; w < p->in[1]; w++) {
            backward_element(j, r / p->in[0], r % p->in[0], w, j->out + (r * p->in[1] + w) * p->channels);
        }
    }
}

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    job j = {.p = kernel->data, .in = call->inputs[0], .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, j.p->images * j.p->out[0], 1, forward_rows, &j);
    return CKM_OK;
}

static ckm_status run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    job j = {.p = kernel->data, .in = call->inputs[0], .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, j.p->images * j.p->in[0], 1, backward_rows, &j);
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_op_view *v, const ckm_i_graph_tensor *x, const ckm_i_graph_tensor *y,
                          ckm_i_kernel *kernel, ckm_error *err)
{
    int32_t n = x->shape.rank - 2;
    if (x->dtype != CKM_F32 || n < 1 || n > 2 || ckm_i_cpu_elements(&x->shape) == 0) {
        return CKM_OK;
    }
    pool *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->data = p;
    kernel->dispose = free;
    ckm_i_ref_window w = ckm_i_ref_window_read(v->graph, v->op, &x->shape, &y->shape, NULL);
    p->images = w.channels_last ? w.batch : w.batch * w.in_channels;
    p->channels = w.channels_last ? w.in_channels : 1;
    p->padded = ckm_i_op_attr_int(v->op, "count_include_pad", 0, 0) != 0;
    for (int i = 0; i < 2; i++) {
        int from = i - (2 - n);
        bool real = from >= 0;
        p->in[i] = real ? w.in[from] : 1;
        p->out[i] = real ? w.out[from] : 1;
        p->kernel[i] = real ? w.kernel[from] : 1;
        p->stride[i] = real ? w.stride[from] : 1;
        p->dilation[i] = real ? w.dilation[from] : 1;
        p->begin[i] = real ? w.begin[from] : 0;
        p->end[i] = real ? w.end[from] : 0;
    }
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
    {"average_pool", prepare_forward},
    {"average_pool_backward", prepare_backward},
    {NULL, NULL},
};
