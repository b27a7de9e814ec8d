// SPDX-License-Identifier: Apache-2.0
// Max pooling over one or two spatial axes. Forward writes each maximum's position in its window; backward asks, for
// every input element, which of the windows over it point at it, so nothing is cleared first and threads do not
// meet.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "ops/pool/cpu_pool.h"

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

// ---- forward, channels first: one channel of one sample a range index. For a row of windows first the largest of every
// column of the input, then of every window the largest of its columns: both loops vectorize.

enum { COLUMNS = 1024 };                      // at a time
static const int32_t no_tap = INT32_MAX / 2;  // of padding: after all others

// The largest of the rows at x, x + step, ..., and the number of its tap; of equal ones the first counts, of NaN the last.
CKM_I_CPU_CLONES static void take_columns(const float *x, int64_t step, int64_t rows, int32_t tap, int32_t tap_step,
                                          int64_t n, float *best, int32_t *taps)
{
    for (int64_t i = 0; i < n; i++) {
        best[i] = x[i];
        taps[i] = tap;
    }
    for (int64_t row = 1; row < rows; row++) {
        const float *values = x + row * step;
        tap += tap_step;
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < n; i++) {
            bool larger = (values[i] > best[i]) | (values[i] != values[i]);
            best[i] = larger ? values[i] : best[i];
            taps[i] = larger ? tap : taps[i];
        }
    }
}

// Window i takes column i * stride where that is larger. Taps of columns count from the window's first column, `tap` is the
// column's place in the window. The strides that networks have are constants to the compiler.
#define TAKE_COLUMN(name, by)                                                                                 \
    CKM_I_CPU_CLONES static void name(const float *columns, const int32_t *taps, int64_t stride, int32_t tap, \
                                      int64_t n, float *best, int32_t *offsets)                               \
    {                                                                                                         \
        (void)stride;                                                                                         \
        CKM_I_CPU_SIMD                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                     \
            float value = columns[i * (by)];                                                                  \
            int32_t at = taps[i * (by)] + tap;                                                                \
            bool before = at < offsets[i];                                                                    \
            bool nan = (value != value) & ((best[i] == best[i]) | !before);                                   \
            bool larger = (value > best[i]) | ((value == best[i]) & before) | nan;                            \
            best[i] = larger ? value : best[i];                                                               \
            offsets[i] = larger ? at : offsets[i];                                                            \
        }                                                                                                     \
    }

TAKE_COLUMN(take_column_dense, 1)
TAKE_COLUMN(take_column_second, 2)
TAKE_COLUMN(take_column_any, stride)

typedef void take_column_fn(const float *, const int32_t *, int64_t, int32_t, int64_t, float *, int32_t *);

static void pad_columns(int64_t begin, int64_t end, float *best, int32_t *taps)
{
    for (int64_t i = begin; i < end; i++) {
        best[i] = -INFINITY;
        taps[i] = no_tap;
    }
}

// Columns [from, from + n) of the row of windows `oh`; padding is smaller than anything.
static void find_columns(const pool *p, const float *plane, int64_t oh, int64_t from, int64_t n, float *best,
                         int32_t *taps)
{
    int64_t top;
    int64_t bottom;
    tap_range(p, 0, oh, &top, &bottom);
    int64_t first = from < 0 ? -from : 0;
    int64_t last = p->w.in[1] - from < n ? p->w.in[1] - from : n;
    int64_t h = oh * p->w.stride[0] - p->w.begin[0] + top * p->w.dilation[0];
    pad_columns(0, first, best, taps);
    take_columns(plane + h * p->w.in[1] + from + first, p->w.dilation[0] * p->w.in[1], bottom - top,
                 (int32_t)(top * p->w.kernel[1]), (int32_t)p->w.kernel[1], last - first, best + first, taps + first);
    pad_columns(last, n, best, taps);
}

typedef struct row_room {
    float columns[COLUMNS];
    int32_t taps[COLUMNS];     // of the columns
    int32_t offsets[COLUMNS];  // of the windows
} row_room;

// Windows in pieces, so that the columns of a piece fit the room.
static void forward_row(const job *j, const float *plane, int64_t oh, int64_t at, row_room *room)
{
    const pool *p = j->p;
    float *columns = room->columns;
    int32_t *taps = room->taps;
    int32_t *offsets = room->offsets;
    int64_t stride = p->w.stride[1];
    int64_t reach = (p->w.kernel[1] - 1) * p->w.dilation[1];
    int64_t most = (COLUMNS - 1 - reach) / stride + 1;
    take_column_fn *take = stride == 1 ? take_column_dense : stride == 2 ? take_column_second : take_column_any;
    for (int64_t start = 0; start < p->w.out[1]; start += most) {
        int64_t n = p->w.out[1] - start < most ? p->w.out[1] - start : most;
        float *best = j->out + at + start;
        find_columns(p, plane, oh, start * stride - p->w.begin[1], (n - 1) * stride + reach + 1, columns, taps);
        for (int64_t i = 0; i < n; i++) {
            best[i] = -INFINITY;
            offsets[i] = INT32_MAX;
        }
        for (int64_t kw = 0; kw < p->w.kernel[1]; kw++) {
            int64_t column = kw * p->w.dilation[1];
            take(columns + column, taps + column, stride, (int32_t)kw, n, best, offsets);
        }
        for (int64_t i = 0; i < n; i++) {
            if (p->bytes) {
                ((uint8_t *)j->offsets)[at + start + i] = (uint8_t)offsets[i];
            } else {
                ((int32_t *)j->offsets)[at + start + i] = offsets[i];
            }
        }
    }
}

static void forward_first(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const pool *p = j->p;
    row_room room = {.columns = {0}};
    for (int64_t plane = begin; plane < end; plane++) {
        for (int64_t oh = 0; oh < p->w.out[0]; oh++) {
            int64_t at = (plane * p->w.out[0] + oh) * p->w.out[1];
            forward_row(j, j->in + plane * p->w.in[0] * p->w.in[1], oh, at, &room);
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
    if (j.offsets == NULL) {  // not read
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
    if (!windows.channels_last && (windows.kernel[1] - 1) * windows.dilation[1] >= COLUMNS) {
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
    {CKM_I_OP_max_pool_train, prepare_forward},
    {CKM_I_OP_max_pool_backward, prepare_backward},
    {0},
};
