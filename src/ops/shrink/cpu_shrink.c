// SPDX-License-Identifier: Apache-2.0
// Kernels of shrink, the reference and the fast one.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"
#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

typedef struct limits {
    float lambd, bias;
} limits;

static limits limits_of(const ckm_i_graph_op *op)
{
    return (limits){.lambd = (float)ckm_i_op_attr_double(op, "lambd", 0.5),
                    .bias = (float)ckm_i_op_attr_double(op, "bias", 0.0)};
}

// ---- reference

// x
static ckm_status reference(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    const limits l = limits_of(r.op);
    for (int64_t i = 0; i < n; i++) {
        if (x[i] < -l.lambd) {
            y[i] = x[i] + l.bias;
        } else {
            y[i] = x[i] <= l.lambd ? 0.0F : x[i] - l.bias;  // NaN, too
        }
    }
    return CKM_OK;
}

// dy, x
static ckm_status reference_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    float *dx = ckm_i_ref_output(&r, 0);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    const limits l = limits_of(r.op);
    for (int64_t i = 0; i < n; i++) {
        dx[i] = x[i] < -l.lambd || x[i] > l.lambd ? dy[i] : 0.0F;
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_shrink[] = {
    {CKM_I_OP_shrink, NULL, reference},
    {CKM_I_OP_shrink_backward, NULL, reference_backward},
    {0},
};

// ---- fast

typedef struct settled {
    limits l;
    int64_t n;
} settled;

typedef struct job {
    settled s;
    const float *dy, *x;  // dy: of the backward operator
    float *out;
} job;

CKM_I_CPU_CLONES static void forward_part(void *context, int64_t begin, int64_t end)
{
    const job j = *(const job *)context;
    CKM_I_CPU_SIMD
    for (int64_t i = begin; i < end; i++) {
        const float x = j.x[i];
        j.out[i] = x < -j.s.l.lambd ? x + j.s.l.bias : x <= j.s.l.lambd ? 0.0F : x - j.s.l.bias;
    }
}

CKM_I_CPU_CLONES static void backward_part(void *context, int64_t begin, int64_t end)
{
    const job j = *(const job *)context;
    CKM_I_CPU_SIMD
    for (int64_t i = begin; i < end; i++) {
        const float x = j.x[i];
        const float dy = j.dy[i];
        const bool beyond = (x < -j.s.l.lambd) | (x > j.s.l.lambd);
        j.out[i] = beyond ? dy : 0.0F;
    }
}

static ckm_status run_forward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    job j = {.s = *(const settled *)kernel->data, .x = call->inputs[0], .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, j.s.n, CKM_I_CPU_GRAIN, forward_part, &j);
    return CKM_OK;
}

static ckm_status run_backward(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                               ckm_error *err)
{
    (void)err;
    job j = {.s = *(const settled *)kernel->data, .dy = call->inputs[0], .x = call->inputs[1], .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, j.s.n, CKM_I_CPU_GRAIN, backward_part, &j);
    return CKM_OK;
}

static ckm_status prepare(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    if (!ckm_i_cpu_floats(v)) {
        return CKM_OK;
    }
    settled *s = ckm_i_malloc(1, sizeof *s);
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    *s = (settled){.l = limits_of(v->op), .n = ckm_i_elements(&v->in[0]->shape)};
    kernel->data = s;
    kernel->dispose = free;
    kernel->run = v->op->op_class->id == CKM_I_OP_shrink ? run_forward : run_backward;
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_shrink[] = {
    {CKM_I_OP_shrink, prepare},
    {CKM_I_OP_shrink_backward, prepare},
    {0},
};
