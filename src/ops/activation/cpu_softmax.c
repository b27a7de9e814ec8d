// SPDX-License-Identifier: Apache-2.0
// Softmax and its logarithm, lines divided among threads. oneDNN's make a line with NaN zeros but for that number; they still
// go backward on it (dnnl_eltwise.c).
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_lines.h"

typedef struct job {
    ckm_i_cpu_around a;
    const float *x;
    float *y;
} job;

CKM_I_CPU_CLONES static void multiply_softmax_row(float *y, int64_t n, float factor)
{
    CKM_I_CPU_SIMD
    for (int64_t k = 0; k < n; k++) {
        y[k] *= factor;
    }
}

CKM_I_CPU_CLONES static void multiply_softmax_lines(float *y, int64_t n, const float *factors)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        y[i] *= factors[i];
    }
}

CKM_I_CPU_CLONES static void shift_softmax_row(const float *x, int64_t n, float top, float log_sum, float *y)
{
    CKM_I_CPU_SIMD
    for (int64_t k = 0; k < n; k++) {
        y[k] = (x[k] - top) - log_sum;
    }
}

CKM_I_CPU_CLONES static void shift_softmax_lines(const float *x, int64_t n, const float *tops, const float *log_sums,
                                                 float *y)
{
    CKM_I_CPU_SIMD
    for (int64_t i = 0; i < n; i++) {
        y[i] = (x[i] - tops[i]) - log_sums[i];
    }
}

static void softmax_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const ckm_i_cpu_around *a = &j->a;
    int64_t n;
    for (int64_t line = begin; line < end; line += n) {
        int64_t at;
        ckm_i_cpu_lines m;
        float factors[CKM_I_CPU_LINES];
        n = ckm_i_cpu_next_lines(a, line, end, &at);
        ckm_i_cpu_measure_lines(a, j->x + at, n, j->y + at, &m);
        for (int64_t i = 0; i < n; i++) {
            factors[i] = (float)(1.0 / m.sum[i]);
        }
        for (int64_t k = 0; a->inner > 1 && k < a->axis; k++) {
            multiply_softmax_lines(j->y + at + k * a->inner, n, factors);
        }
        for (int64_t i = 0; a->inner == 1 && i < n; i++) {
            multiply_softmax_row(j->y + at + i * a->axis, a->axis, factors[i]);
        }
    }
}

static void log_softmax_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    const ckm_i_cpu_around *a = &j->a;
    int64_t n;
    for (int64_t line = begin; line < end; line += n) {
        int64_t at;
        ckm_i_cpu_lines m;
        float log_sums[CKM_I_CPU_LINES];
        n = ckm_i_cpu_next_lines(a, line, end, &at);
        ckm_i_cpu_measure_lines(a, j->x + at, n, NULL, &m);
        for (int64_t i = 0; i < n; i++) {
            log_sums[i] = (float)log(m.sum[i]);
        }
        for (int64_t k = 0; a->inner > 1 && k < a->axis; k++) {
            shift_softmax_lines(j->x + at + k * a->inner, n, m.top, log_sums, j->y + at + k * a->inner);
        }
        for (int64_t i = 0; a->inner == 1 && i < n; i++) {
            int64_t row = at + i * a->axis;
            shift_softmax_row(j->x + row, a->axis, m.top[i], log_sums[i], j->y + row);
        }
    }
}

static ckm_status run_softmax(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    job j = {.a = *(const ckm_i_cpu_around *)kernel->data, .x = call->inputs[0], .y = call->outputs[0]};
    bool logarithm = kernel->step->ops[kernel->op].op_class->id == CKM_I_OP_log_softmax;
    ckm_i_cpu_parallel(cpu->threads, j.a.outer * j.a.inner, CKM_I_CPU_GRAIN / j.a.axis + 1,
                       logarithm ? log_softmax_part : softmax_part, &j);
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    const ckm_shape *shape = &v->in[0]->shape;
    if (!ckm_i_cpu_floats(v) || ckm_i_elements(shape) == 0) {
        return CKM_OK;
    }
    int64_t axis = ckm_i_op_attr_int(v->op, "axis", 0, -1);
    ckm_i_cpu_around a = ckm_i_cpu_view_around(shape, axis < 0 ? axis + shape->rank : axis);
    kernel->data = ckm_i_memdup(&a, 1, sizeof a);
    if (kernel->data == NULL) {
        return ckm_i_error_memory(err);
    }
    kernel->dispose = free;
    kernel->run = run_softmax;
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_softmax[] = {
    {CKM_I_OP_softmax, prepare},
    {CKM_I_OP_log_softmax, prepare},
    {0},
};
