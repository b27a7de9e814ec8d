// SPDX-License-Identifier: Apache-2.0
// Max pooling over one or two spatial axes. Forward writes each maximum's position in its window; backward asks, for
// every input element, which of the windows over it point at it, so nothing is cleared first and threads do not
// meet.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_pool.h"

typedef struct pool {
    ckm_i_cpu_windows w;
    bool bytes;  // offsets are uint8, else int32
} pool;

typedef struct job {
    const pool *p;
    const float *in;
    float *out;
    void *offsets;
    const void *given_offsets;
} job;

// Taps t in [first, last) of axis i lie inside the input for the window at `at`.
static void tap_range(const pool *p, int i, int64_t at, int64_t *first, int64_t *last)
{
    int64_t start = at * p->w.stride[i] - p->w.begin[i];
    int64_t d = p->w.dilation[i];
    int64_t low = start < 0 ? (-start + d - 1) / d : 0;
    int64_t high = p->w.in[i] - start <= 0 ? 0 : (p->w.in[i] - start - 1) / d + 1;
    *first = low;
    *last = high < p->w.kernel[i] ? high : p->w.kernel[i];
}

// ---- forward, channels last: one window for all channels

CKM_I_CPU_CLONES static void take_larger_bytes(const float *x, uint8_t tap, int64_t n, float *best, uint8_t *offset)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        bool larger = (x[i] > best[i]) | (x[i] != x[i]);  // a NaN counts as largest
        best[i] = larger ? x[i] : best[i];
        offset[i] = larger ? tap : offset[i];
    }
}

CKM_I_CPU_CLONES static void take_larger_ints(const float *x, int32_t tap, int64_t n, float *best, int32_t *offset)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        bool larger = (x[i] > best[i]) | (x[i] != x[i]);  // a NaN counts as largest
        best[i] = larger ? x[i] : best[i];
        offset[i] = larger ? tap : offset[i];
    }
}

static void set_offsets(const pool *p, void *offsets, int64_t at, int64_t n, int64_t tap)
{
    if (p->bytes) {
        memset((uint8_t *)offsets + at, (int)tap, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)offsets)[at + i] = (int32_t)tap;
    }
}

static void take_larger(const pool *p, const float *x, int64_t tap, int64_t n, float *best, void *offsets, int64_t at)
{
    if (p->bytes) {
        take_larger_bytes(x, (uint8_t)tap, n, best, (uint8_t *)offsets + at);
    } else {
        take_larger_ints(x, (int32_t)tap, n, best, (int32_t *)offsets + at);
    }
}

static void forward_window(const job *j, const float *image, int64_t oh, int64_t ow, int64_t at)
{
    const pool *p = j->p;
    int64_t first[2];
    int64_t last[2];
    bool started = false;
    tap_range(p, 0, oh, &first[0], &last[0]);
    tap_range(p, 1, ow, &first[1], &last[1]);
    for (int64_t kh = first[0]; kh < last[0]; kh++) {
        int64_t h = oh * p->w.stride[0] - p->w.begin[0] + kh * p->w.dilation[0];
        for (int64_t kw = first[1]; kw < last[1]; kw++) {
            int64_t w = ow * p->w.stride[1] - p->w.begin[1] + kw * p->w.dilation[1];
            int64_t tap = kh * p->w.kernel[1] + kw;
            const float *x = image + (h * p->w.in[1] + w) * p->w.channels;
            if (started) {
                take_larger(p, x, tap, p->w.channels, j->out + at, j->offsets, at);
            } else {
                memcpy(j->out + at, x, (size_t)p->w.channels * sizeof *x);
                set_offsets(p, j->offsets, at, p->w.channels, tap);
                started = true;
            }
        }
    }
}

// One row of the output a range index.
static void forward_last(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t r = begin; r < end; r++) {
        const float *image = j->in + r / p->w.out[0] * p->w.in[0] * p->w.in[1] * p->w.channels;
        for (int64_t ow = 0; ow < p->w.out[1]; ow++) {
            forward_window(j, image, r % p->w.out[0], ow, (r * p->w.out[1] + ow) * p->w.channels);
        }
    }
}

// ---- forward, channels first: one channel of one sample a range index

// Windows [first, last) of a row whose tap `kw` lies inside the input.
static void window_range(const pool *p, int64_t kw, int64_t *first, int64_t *last)
{
    int64_t shift = kw * p->w.dilation[1] - p->w.begin[1];  // window ow reads ow * stride + shift
    int64_t low = shift < 0 ? (-shift + p->w.stride[1] - 1) / p->w.stride[1] : 0;
    int64_t high = p->w.in[1] - 1 - shift < 0 ? 0 : (p->w.in[1] - 1 - shift) / p->w.stride[1] + 1;
    *last = high < p->w.out[1] ? high : p->w.out[1];
    *first = low < *last ? low : *last;
}

// One tap for all windows of a row: window i reads x[i * stride]. An offset of -1 says that none was taken yet.
CKM_I_CPU_CLONES static void take_larger_strided(const float *x, int64_t stride, int32_t tap, int64_t n, float *best,
                                                 int32_t *offset)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        float value = x[i * stride];
        bool larger = (value > best[i]) | (value != value) | (offset[i] < 0);  // a NaN counts as largest
        best[i] = larger ? value : best[i];
        offset[i] = larger ? tap : offset[i];
    }
}

// Rows in pieces, so that the offsets of a piece fit a small buffer.
static void forward_row(const pool *p, const float *image, int64_t oh, float *best, void *offsets, int64_t at)
{
    enum { PIECE = 512 };
    int32_t offset[PIECE];
    int64_t first;
    int64_t last;
    tap_range(p, 0, oh, &first, &last);
    for (int64_t start = 0; start < p->w.out[1]; start += PIECE) {
        int64_t n = p->w.out[1] - start < PIECE ? p->w.out[1] - start : PIECE;
        memset(offset, 0xff, (size_t)n * sizeof *offset);
        memset(best + start, 0, (size_t)n * sizeof *best);
        for (int64_t kh = first; kh < last; kh++) {
            const float *row = image + (oh * p->w.stride[0] - p->w.begin[0] + kh * p->w.dilation[0]) * p->w.in[1];
            for (int64_t kw = 0; kw < p->w.kernel[1]; kw++) {
                int64_t low;
                int64_t high;
                window_range(p, kw, &low, &high);
                low = low > start ? low : start;
                high = high < start + n ? high : start + n;
                if (low < high) {
                    take_larger_strided(row + low * p->w.stride[1] + kw * p->w.dilation[1] - p->w.begin[1],
                                        p->w.stride[1], (int32_t)(kh * p->w.kernel[1] + kw), high - low, best + low,
                                        offset + (low - start));
                }
            }
        }
        for (int64_t i = 0; i < n; i++) {
            if (p->bytes) {
                ((uint8_t *)offsets)[at + start + i] = (uint8_t)offset[i];
            } else {
                ((int32_t *)offsets)[at + start + i] = offset[i];
            }
        }
    }
}

static void forward_first(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t plane = begin; plane < end; plane++) {
        for (int64_t oh = 0; oh < p->w.out[0]; oh++) {
            int64_t at = (plane * p->w.out[0] + oh) * p->w.out[1];
            forward_row(p, j->in + plane * p->w.in[0] * p->w.in[1], oh, j->out + at, j->offsets, at);
        }
    }
}

// ---- backward, channels last

CKM_I_CPU_CLONES static void add_chosen_bytes(const float *dy, const uint8_t *offset, uint8_t tap, int64_t n, float *dx)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        dx[i] += offset[i] == tap ? dy[i] : 0.0F;
    }
}

CKM_I_CPU_CLONES static void add_chosen_ints(const float *dy, const int32_t *offset, int32_t tap, int64_t n, float *dx)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        dx[i] += offset[i] == tap ? dy[i] : 0.0F;
    }
}

static void backward_element(const job *j, int64_t sample, int64_t h, int64_t w, float *dx)
{
    const pool *p = j->p;
    memset(dx, 0, (size_t)p->w.channels * sizeof *dx);
    for (int64_t kh = 0; kh < p->w.kernel[0]; kh++) {
        int64_t oh = ckm_i_cpu_window_of(&p->w, 0, h, kh);
        for (int64_t kw = 0; oh >= 0 && kw < p->w.kernel[1]; kw++) {
            int64_t ow = ckm_i_cpu_window_of(&p->w, 1, w, kw);
            if (ow < 0) {
                continue;
            }
            int64_t at = ((sample * p->w.out[0] + oh) * p->w.out[1] + ow) * p->w.channels;
            int64_t tap = kh * p->w.kernel[1] + kw;
            if (p->bytes) {
                add_chosen_bytes(j->in + at, (const uint8_t *)j->given_offsets + at, (uint8_t)tap, p->w.channels, dx);
            } else {
                add_chosen_ints(j->in + at, (const int32_t *)j->given_offsets + at, (int32_t)tap, p->w.channels, dx);
            }
        }
    }
}

static void backward_last(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    for (int64_t r = begin; r < end; r++) {
        for (int64_t w = 0; w < p->w.in[1]; w++) {
            backward_element(j, r / p->w.in[0], r % p->w.in[0], w, j->out + (r * p->w.in[1] + w) * p->w.channels);
        }
    }
}

// ---- backward, channels first: a plane fits the caches, so gradients go where offsets point

static void backward_first(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    const uint32_t width = (uint32_t)p->w.kernel[1];
    for (int64_t plane = begin; plane < end; plane++) {
        float *dx = j->out + plane * p->w.in[0] * p->w.in[1];
        memset(dx, 0, (size_t)(p->w.in[0] * p->w.in[1]) * sizeof *dx);
        for (int64_t oh = 0; oh < p->w.out[0]; oh++) {
            int64_t at = (plane * p->w.out[0] + oh) * p->w.out[1];
            int64_t corner = (oh * p->w.stride[0] - p->w.begin[0]) * p->w.in[1] - p->w.begin[1];
            for (int64_t ow = 0; ow < p->w.out[1]; ow++) {
                uint32_t tap = p->bytes ? ((const uint8_t *)j->given_offsets)[at + ow]
                                        : ((const uint32_t *)j->given_offsets)[at + ow];
                uint32_t kh = tap / width;
                int64_t shift = (int64_t)kh * p->w.dilation[0] * p->w.in[1] +
                                (int64_t)(tap - kh * width) * p->w.dilation[1];
                dx[corner + ow * p->w.stride[1] + shift] += j->in[at + ow];
            }
        }
    }
}

// ---- the operators

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const pool *p = kernel->data;
    job j = {.p = p, .in = call->inputs[0], .out = call->outputs[0], .offsets = call->outputs[1]};
    if (j.offsets == NULL) {  // nobody reads them
        j.offsets = call->workspace;
    }
    if (p->w.channels_last) {
        ckm_i_cpu_parallel(cpu->threads, p->w.batch * p->w.out[0], 1, forward_last, &j);
    } else {
        ckm_i_cpu_parallel(cpu->threads, p->w.batch * p->w.channels, 1, forward_first, &j);
    }
    return CKM_OK;
}

static ckm_status run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    const pool *p = kernel->data;
    job j = {.p = p, .in = call->inputs[0], .given_offsets = call->inputs[1], .out = call->outputs[0]};
    if (p->w.channels_last) {
        ckm_i_cpu_parallel(cpu->threads, p->w.batch * p->w.in[0], 1, backward_last, &j);
    } else {
        ckm_i_cpu_parallel(cpu->threads, p->w.batch * p->w.channels, 1, backward_first, &j);
    }
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_op_view *v, const ckm_i_graph_tensor *x, const ckm_i_graph_tensor *y,
                          const ckm_i_graph_tensor *offsets, ckm_i_kernel *kernel, ckm_error *err)
{
    ckm_i_cpu_windows windows;
    if (!ckm_i_cpu_windows_read(v, x, y, &windows) || (offsets->dtype != CKM_U8 && offsets->dtype != CKM_I32)) {
        return CKM_OK;
    }
    pool *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    *p = (pool){.w = windows, .bytes = offsets->dtype == CKM_U8};
    kernel->data = p;
    kernel->dispose = free;
    return CKM_OK;
}

static bool is_read(const ckm_graph *step, int32_t tensor)
{
    for (int32_t i = 0; i < step->n_ops; i++) {
        for (int32_t k = 0; k < step->ops[i].n_inputs; k++) {
            if (step->ops[i].inputs[k] == tensor) {
                return true;
            }
        }
    }
    return false;
}

static ckm_status prepare_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    const ckm_i_graph_tensor *y = &v->graph->tensors[v->op->outputs[0]];
    const ckm_i_graph_tensor *offsets = &v->graph->tensors[v->op->outputs[1]];
    ckm_status status = prepare(v, v->in[0], y, offsets, kernel, err);
    kernel->run = kernel->data != NULL ? run_forward : NULL;
    if (kernel->run != NULL && !is_read(v->graph, v->op->outputs[1])) {
        kernel->workspace_bytes = ckm_i_elements(&offsets->shape) * ckm_i_dtype_bytes(offsets->dtype);
    }
    return status;
}

static ckm_status prepare_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    const ckm_i_graph_tensor *dx = &v->graph->tensors[v->op->outputs[0]];
    ckm_status status = prepare(v, dx, v->in[0], v->in[1], kernel, err);
    kernel->run = kernel->data != NULL ? run_backward : NULL;
    return status;
}

const ckm_i_cpu_row ckm_i_cpu_max_pool[] = {
    {"max_pool_train", prepare_forward},
    {"max_pool_backward", prepare_backward},
    {NULL, NULL},
};
