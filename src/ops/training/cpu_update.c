// SPDX-License-Identifier: Apache-2.0
// Optimizers and dropout: one pass over a parameter or an activation, divided among threads. The formulas are the
// reference kernels' (ref_update.c, ref_dropout.c).
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_support.h"
#include "ops/training/ref_dropout.h"

typedef struct update {
    int64_t n;
    float *weight, *first, *second;
    const float *gradient;
    float rate, decay, momentum;
    bool nesterov, begins;                            // SGD; begins: step 0
    float root, keep, pull, b1, b2, c1, c2, epsilon;  // Adam, see ref_update.c
} update;

static void *modified(const void *input)
{
    union {
        const void *given;
        void *taken;
    } both = {.given = input};
    return both.taken;
}

CKM_I_CPU_CLONES static void sgd_loop(const update *u, int64_t begin, int64_t end)
{
    const float rate = u->rate;
    const float decay = u->decay;
    const float *gradient = u->gradient;
    float *weight = u->weight;
    CKM_I_CPU_SIMD
    for (int64_t i = begin; i < end; i++) {
        float g = gradient[i] + decay * weight[i];
        weight[i] -= rate * g;
    }
}

CKM_I_CPU_CLONES static void momentum_loop(const update *u, int64_t begin, int64_t end)
{
    const float rate = u->rate;
    const float decay = u->decay;
    // The state's content before the first step is not read.
    const float momentum = u->momentum;
    const bool begins = u->begins;
    const bool nesterov = u->nesterov;
    const float *gradient = u->gradient;
    float *weight = u->weight;
    float *velocity = u->first;
    CKM_I_CPU_SIMD
    for (int64_t i = begin; i < end; i++) {
        float g = gradient[i] + decay * weight[i];
        float v = begins ? g : momentum * velocity[i] + g;
        velocity[i] = v;
        weight[i] -= rate * (nesterov ? g + momentum * v : v);
    }
}

CKM_I_CPU_CLONES static void adam_loop(const update *given, int64_t begin, int64_t end)
{
    const update u = *given;
    CKM_I_CPU_SIMD
    for (int64_t i = begin; i < end; i++) {
        float g = u.gradient[i] + u.pull * u.weight[i];
        float m = u.b1 * u.first[i] + u.c1 * g;
        float v = u.b2 * u.second[i] + u.c2 * g * g;
        u.first[i] = m;
        u.second[i] = v;
        u.weight[i] = u.keep * u.weight[i] - u.rate * m / (sqrtf(v) * u.root + u.epsilon);
    }
}

static void sgd_part(void *context, int64_t begin, int64_t end)
{
    const update *u = context;
    if (u->first != NULL) {
        momentum_loop(u, begin, end);
    } else {
        sgd_loop(u, begin, end);
    }
}

static void adam_part(void *context, int64_t begin, int64_t end)
{
    adam_loop(context, begin, end);
}

static ckm_status run_sgd(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                          ckm_error *err)
{
    (void)err;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    bool velocity = op->n_inputs > 2 && op->inputs[2] >= 0;
    update u = {.n = ckm_i_elements(&kernel->step->tensors[op->inputs[0]].shape),
                .weight = modified(call->inputs[0]),
                .gradient = call->inputs[1],
                .first = velocity ? modified(call->inputs[2]) : NULL,
                .rate = (float)call->learning_rate,
                .decay = (float)ckm_i_op_attr_double(op, "weight_decay", 0.0),
                .momentum = (float)ckm_i_op_attr_double(op, "momentum", 0.0),
                .nesterov = ckm_i_op_attr_int(op, "nesterov", 0, 0) != 0,
                .begins = call->step == 0};
    ckm_i_cpu_parallel(cpu->threads, u.n, CKM_I_CPU_GRAIN, sgd_part, &u);
    return CKM_OK;
}

static ckm_status run_adam(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                           ckm_error *err)
{
    (void)err;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    bool decoupled = op->op_class->id == CKM_I_OP_update_adamw;
    double beta1 = ckm_i_op_attr_double(op, "beta1", 0.9);
    double beta2 = ckm_i_op_attr_double(op, "beta2", 0.999);
    double decay = ckm_i_op_attr_double(op, "weight_decay", 0.0);
    double t = (double)call->step + 1.0;
    update u = {.n = ckm_i_elements(&kernel->step->tensors[op->inputs[0]].shape),
                .weight = modified(call->inputs[0]),
                .gradient = call->inputs[1],
                .first = modified(call->inputs[2]),
                .second = modified(call->inputs[3]),
                .rate = (float)(call->learning_rate / (1.0 - pow(beta1, t))),
                .root = (float)(1.0 / sqrt(1.0 - pow(beta2, t))),
                .keep = decoupled ? (float)(1.0 - call->learning_rate * decay) : 1.0F,
                .pull = decoupled ? 0.0F : (float)decay,
                .b1 = (float)beta1,
                .b2 = (float)beta2,
                .c1 = (float)(1.0 - beta1),
                .c2 = (float)(1.0 - beta2),
                .epsilon = (float)ckm_i_op_attr_double(op, "epsilon", 1e-8)};
    ckm_i_cpu_parallel(cpu->threads, u.n, CKM_I_CPU_GRAIN, adam_part, &u);
    return CKM_OK;
}

// ---- dropout

typedef struct mask {
    const float *x;
    float *y;
    uint64_t stream, threshold;
    float factor;
} mask;

CKM_I_CPU_CLONES static void dropout_part(void *context, int64_t begin, int64_t end)
{
    const mask m = *(const mask *)context;
    CKM_I_CPU_SIMD
    for (int64_t i = begin; i < end; i++) {
        m.y[i] = ckm_i_ref_dropout_keeps(m.stream, m.threshold, i) ? m.x[i] * m.factor : 0.0F;
    }
}

static ckm_status run_dropout(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                              ckm_error *err)
{
    (void)err;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    double rate = ckm_i_op_attr_double(op, "rate", 0.5);
    mask m = {.x = call->inputs[0],
              .y = call->outputs[0],
              .stream = ckm_i_ref_dropout_stream(call->seed, call->batch, ckm_i_op_attr_int(op, "key", 0, 0)),
              .threshold = ckm_i_ref_dropout_threshold(rate),
              .factor = rate < 1.0 ? (float)(1.0 / (1.0 - rate)) : 0.0F};
    int64_t n = ckm_i_elements(&kernel->step->tensors[op->inputs[0]].shape);
    ckm_i_cpu_parallel(cpu->threads, n, CKM_I_CPU_GRAIN, dropout_part, &m);
    return CKM_OK;
}

// ---- preparation: nothing but the element type is asked for

static ckm_status prepare_sgd(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    (void)err;
    kernel->run = ckm_i_cpu_floats(v) ? run_sgd : NULL;
    return CKM_OK;
}

static ckm_status prepare_adam(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    (void)err;
    kernel->run = ckm_i_cpu_floats(v) ? run_adam : NULL;
    return CKM_OK;
}

static ckm_status prepare_dropout(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    (void)err;
    kernel->run = ckm_i_cpu_floats(v) ? run_dropout : NULL;
    return CKM_OK;
}

const ckm_i_cpu_row ckm_i_cpu_update[] = {
    {CKM_I_OP_update_sgd, prepare_sgd},
    {CKM_I_OP_update_adam, prepare_adam},
    {CKM_I_OP_update_adamw, prepare_adam},
    {CKM_I_OP_dropout, prepare_dropout},
    {0},
};
