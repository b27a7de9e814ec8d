// SPDX-License-Identifier: Apache-2.0
// Arithmetic of two operands with broadcasting, sums of any number of equal shapes, expand. Axes that both operands
// walk alike are joined, rows along the last one are divided among threads.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"

// One row: strides of a and b are 0 or 1.
typedef void row_loop(const float *a, const float *b, int64_t a_step, int64_t b_step, float *out, int64_t n);

enum { MAX_SUMMANDS = 16 };

typedef struct broadcast {
    row_loop *run;
    int32_t rank;
    int64_t dims[CKM_MAX_RANK];
    int64_t a_strides[CKM_MAX_RANK], b_strides[CKM_MAX_RANK];
    int64_t rows;
    int64_t n;         // elements of the output
    int32_t summands;  // of equal shape
} broadcast;

#define BINARY(name, value)                                                                                 \
    CKM_I_CPU_CLONES static void row_##name(const float *a, const float *b, int64_t a_step, int64_t b_step, \
                                            float *out, int64_t n)                                          \
    {                                                                                                       \
        if (a_step != 0 && b_step != 0) {                                                                   \
            CKM_I_CPU_SIMD                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                               \
                const float x = a[i];                                                                       \
                const float y = b[i];                                                                       \
                out[i] = (value);                                                                           \
            }                                                                                               \
        } else if (a_step != 0) {                                                                           \
            const float y = *b;                                                                             \
            CKM_I_CPU_SIMD                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                               \
                const float x = a[i];                                                                       \
                out[i] = (value);                                                                           \
            }                                                                                               \
        } else if (b_step != 0) {                                                                           \
            const float x = *a;                                                                             \
            CKM_I_CPU_SIMD                                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                               \
                const float y = b[i];                                                                       \
                out[i] = (value);                                                                           \
            }                                                                                               \
        } else {                                                                                            \
            const float x = *a;                                                                             \
            const float y = *b;                                                                             \
            const float same = (value);                                                                     \
            for (int64_t i = 0; i < n; i++) {                                                               \
                out[i] = same;                                                                              \
            }                                                                                               \
        }                                                                                                   \
    }

// clang-format off
BINARY(add, x + y)
BINARY(sub, x - y)
BINARY(mul, x * y)
BINARY(div, x / y)
// clang-format on

// expand: the second operand is not read.
CKM_I_CPU_CLONES static void row_copy(const float *a, const float *b, int64_t a_step, int64_t b_step, float *out,
                                      int64_t n)
{
    (void)b;
    (void)b_step;
    if (a_step != 0) {
        memcpy(out, a, (size_t)n * sizeof *out);
        return;
    }
    const float x = *a;
    for (int64_t i = 0; i < n; i++) {
        out[i] = x;
    }
}

typedef struct job {
    const broadcast *w;
    const float *in[MAX_SUMMANDS];
    float *out;
} job;

static void run_rows(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const broadcast *w = j->w;
    int32_t last = w->rank - 1;
    int64_t n = w->dims[last];
    for (int64_t r = begin; r < end; r++) {
        int64_t a = 0;
        int64_t b = 0;
        int64_t rest = r;
        for (int32_t i = last; i-- > 0;) {
            int64_t at = rest % w->dims[i];
            rest /= w->dims[i];
            a += at * w->a_strides[i];
            b += at * w->b_strides[i];
        }
        w->run(j->in[0] + a, j->in[1] + b, w->a_strides[last], w->b_strides[last], j->out + r * n, n);
    }
}

// One long row of equal shapes.
static void run_range(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    j->w->run(j->in[0] + begin, j->in[1] + begin, j->w->a_strides[0], j->w->b_strides[0], j->out + begin, end - begin);
}

static ckm_status run_broadcast(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                                ckm_error *err)
{
    (void)err;
    const broadcast *w = kernel->data;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    job j = {.w = w, .out = call->outputs[0]};
    j.in[0] = call->inputs[0];
    j.in[1] = op->n_inputs > 1 ? call->inputs[1] : call->inputs[0];
    if (w->rows == 1 && w->a_strides[0] == 1 && w->b_strides[0] == 1) {
        ckm_i_cpu_parallel(cpu->threads, w->n, CKM_I_CPU_GRAIN, run_range, &j);
    } else {
        ckm_i_cpu_parallel(cpu->threads, w->rows, CKM_I_CPU_GRAIN / w->dims[w->rank - 1] + 1, run_rows, &j);
    }
    return CKM_OK;
}

// Three and more operands of one shape: blocks small enough to stay in the first cache.
static void run_sum_part(void *context, int64_t begin, int64_t end)
{
    enum { BLOCK = 1024 };
    const job *j = context;
    float sum[BLOCK];
    for (int64_t at = begin; at < end; at += BLOCK) {
        int64_t n = end - at < BLOCK ? end - at : BLOCK;
        row_add(j->in[0] + at, j->in[1] + at, 1, 1, sum, n);
        for (int32_t k = 2; k < j->w->summands; k++) {
            row_add(sum, j->in[k] + at, 1, 1, sum, n);
        }
        memcpy(j->out + at, sum, (size_t)n * sizeof *sum);
    }
}

static ckm_status run_sum(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                          ckm_error *err)
{
    (void)err;
    job j = {.w = kernel->data, .out = call->outputs[0]};
    for (int32_t k = 0; k < j.w->summands; k++) {
        j.in[k] = call->inputs[k];
    }
    ckm_i_cpu_parallel(cpu->threads, j.w->n, CKM_I_CPU_GRAIN, run_sum_part, &j);
    return CKM_OK;
}

// Strides of `shape` broadcast to `to`, aligned at the last axes.
static void broadcast_strides(const ckm_shape *shape, const ckm_shape *to, int64_t *strides)
{
    int64_t stride = 1;
    for (int32_t i = to->rank; i-- > 0;) {
        int32_t own = i - (to->rank - shape->rank);
        int64_t size = own >= 0 ? shape->dims[own] : 1;
        strides[i] = size == 1 ? 0 : stride;
        stride *= size;
    }
}

// Axes of size 1 go, axes that both operands walk as one become one.
static void join_axes(const ckm_shape *shape, const int64_t *a, const int64_t *b, broadcast *w)
{
    w->rank = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        int64_t size = shape->dims[i];
        if (size == 1) {
            continue;
        }
        int32_t last = w->rank - 1;
        if (last >= 0 && w->a_strides[last] == a[i] * size && w->b_strides[last] == b[i] * size) {
            w->dims[last] *= size;
            w->a_strides[last] = a[i];
            w->b_strides[last] = b[i];
            continue;
        }
        w->dims[w->rank] = size;
        w->a_strides[w->rank] = a[i];
        w->b_strides[w->rank] = b[i];
        w->rank++;
    }
    if (w->rank == 0) {
        w->dims[0] = 1;
        w->a_strides[0] = 1;
        w->b_strides[0] = 1;
        w->rank = 1;
    }
    w->rows = 1;
    for (int32_t i = 0; i + 1 < w->rank; i++) {
        w->rows *= w->dims[i];
    }
}

static bool all_floats(const ckm_i_op_view *v)
{
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        if (v->op->inputs[i] < 0 || v->graph->tensors[v->op->inputs[i]].dtype != CKM_F32) {
            return false;
        }
    }
    return true;
}

static bool all_same_shape(const ckm_i_op_view *v)
{
    const ckm_shape *shape = &v->graph->tensors[v->op->outputs[0]].shape;
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        if (!ckm_i_shapes_equal(&v->graph->tensors[v->op->inputs[i]].shape, shape)) {
            return false;
        }
    }
    return true;
}

static ckm_status prepare(const ckm_i_op_view *v, row_loop *run, bool one, ckm_i_kernel *kernel, ckm_error *err)
{
    const ckm_shape *shape = &v->graph->tensors[v->op->outputs[0]].shape;
    broadcast *w = ckm_i_calloc(1, sizeof *w);
    if (w == NULL) {
        return ckm_i_error_memory(err);
    }
    int64_t a[CKM_MAX_RANK];
    int64_t b[CKM_MAX_RANK];
    broadcast_strides(&v->in[0]->shape, shape, a);
    broadcast_strides(&v->in[one ? 0 : 1]->shape, shape, b);
    join_axes(shape, a, b, w);
    w->run = run;
    w->n = ckm_i_elements(shape);
    w->summands = v->op->n_inputs;
    kernel->data = w;
    kernel->dispose = free;
    kernel->run = v->op->n_inputs > 2 ? run_sum : run_broadcast;
    return CKM_OK;
}

static ckm_status prepare_add(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    bool takes = all_floats(v) && (v->op->n_inputs == 2 || (v->op->n_inputs <= MAX_SUMMANDS && all_same_shape(v)));
    return takes ? prepare(v, row_add, false, kernel, err) : CKM_OK;
}

static ckm_status prepare_two(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    static const struct {
        ckm_i_op_kind kind;
        row_loop *run;
    } loops[] = {{CKM_I_OP_sub, row_sub}, {CKM_I_OP_mul, row_mul}, {CKM_I_OP_div, row_div}};
    for (size_t i = 0; i < sizeof loops / sizeof loops[0] && all_floats(v); i++) {
        if (loops[i].kind == v->op->op_class->id) {
            return prepare(v, loops[i].run, false, kernel, err);
        }
    }
    return CKM_OK;
}

static ckm_status prepare_expand(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    return v->in[0]->dtype == CKM_F32 ? prepare(v, row_copy, true, kernel, err) : CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_broadcast[] = {
    {CKM_I_OP_add, prepare_add}, {CKM_I_OP_sub, prepare_two},       {CKM_I_OP_mul, prepare_two},
    {CKM_I_OP_div, prepare_two}, {CKM_I_OP_expand, prepare_expand}, {0},
};
