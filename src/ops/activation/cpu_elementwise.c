// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels that are a few dozen instructions an element and so bound by memory: activations and functions of one
// operand, and their derivatives. Some that need exponentials are in dnnl_eltwise.c. Element i of the output depends on
// element i of the operands alone, so outputs may share their buffers.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "run/cpu/cpu_math.h"
#include "run/cpu/cpu_support.h"

typedef struct parameters {
    float alpha, beta;
    float max_value, threshold, slope;  // of relu and clip (threshold: the lower limit)
} parameters;

typedef void loop(const parameters *p, const float *a, const float *b, float *out, int64_t n);

typedef struct elementwise {
    parameters p;
    loop *run;
    int64_t n;
    bool two;  // operands
} elementwise;

static inline float clamp_unit(float x)
{
    return x < 0.0F ? 0.0F : x > 1.0F ? 1.0F : x;
}

static inline float hard_swish_slope(float x)
{
    float t = x / 6.0F + 0.5F;
    return clamp_unit(t) + (t > 0.0F && t < 1.0F ? x / 6.0F : 0.0F);
}

// The tanh in mish, t = tanh(ln(1 + e^x)), and 1 - t: both from e^-|x|, so that nothing overflows or cancels.
CKM_I_CPU_INLINE float mish_tanh(float x, float *rest)
{
    float e = ckm_i_cpu_exp_negative(-fabsf(x));
    float one = x < 0.0F ? e * (e + 2.0F) : 1.0F + 2.0F * e;
    float two = x < 0.0F ? 2.0F : 2.0F * e * e;
    *rest = two / (one + two);
    return one / (one + two);
}

CKM_I_CPU_INLINE float mish(float x)
{
    float rest;
    return x * mish_tanh(x, &rest);
}

CKM_I_CPU_INLINE float mish_slope(float x)
{
    float tanh_rest;
    float logistic_rest;
    float t = mish_tanh(x, &tanh_rest);
    return t + x * tanh_rest * (1.0F + t) * ckm_i_cpu_logistic(x, &logistic_rest);
}

// gelu by the error function is x Phi(x). Phi(x), with Abramowitz and Stegun 1964, 7.1.26 for x < 0 (error below 1e-7), and the
// normal density's e^(-x x / 2), which both need.
CKM_I_CPU_INLINE float normal_below(float x, float *e)
{
    *e = ckm_i_cpu_exp_negative(-0.5F * x * x);
    float t = 1.0F / (1.0F + 0.3275911F * 0.707106781186547524F * fabsf(x));
    float p = t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    float half = 0.5F * p * *e;
    return x < 0.0F ? half : 1.0F - half;
}

CKM_I_CPU_INLINE float gelu_by_erf(float x)
{
    float e;
    return x * normal_below(x, &e);
}

CKM_I_CPU_INLINE float gelu_by_erf_slope(float x)
{
    float e;
    float below = normal_below(x, &e);
    return below + 0.398942280401432678F * x * e;
}

// gelu by tanh: half of 1 + tanh u is the logistic function of 2 u.
CKM_I_CPU_INLINE float gelu_argument(float x)
{
    return 2.0F * 0.797884560802865356F * (x + 0.044715F * x * x * x);
}

CKM_I_CPU_INLINE float gelu_by_tanh(float x)
{
    float rest;
    return x * ckm_i_cpu_logistic(gelu_argument(x), &rest);
}

// From 20 on, the logistic function does not change any more, and squares of x would overflow in the end.
CKM_I_CPU_INLINE float gelu_by_tanh_slope(float x)
{
    float rest;
    float s = ckm_i_cpu_logistic(gelu_argument(x), &rest);
    float below = x > 20.0F ? 20.0F : x;
    float within = below < -20.0F ? -20.0F : below;
    float inner = 2.0F * 0.797884560802865356F * (1.0F + 3.0F * 0.044715F * within * within);
    return s + within * s * rest * inner;
}

// `value` in terms of x (or dy and v) and the parameters, which are copied so that the compiler knows they are not
// changed by stores.
#define FUNCTION(name, value)                                                                                     \
    CKM_I_CPU_CLONES static void loop_##name(const parameters *given, const float *a, const float *b, float *out, \
                                             int64_t n)                                                           \
    {                                                                                                             \
        const parameters p = *given;                                                                              \
        (void)p;                                                                                                  \
        (void)b;                                                                                                  \
        CKM_I_CPU_SIMD                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            const float x = a[i];                                                                                 \
            out[i] = (value);                                                                                     \
        }                                                                                                         \
    }
#define GRADIENT(name, value)                                                                                     \
    CKM_I_CPU_CLONES static void loop_##name(const parameters *given, const float *a, const float *b, float *out, \
                                             int64_t n)                                                           \
    {                                                                                                             \
        const parameters p = *given;                                                                              \
        (void)p;                                                                                                  \
        CKM_I_CPU_SIMD                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            const float dy = a[i];                                                                                \
            const float v = b[i];                                                                                 \
            out[i] = (value);                                                                                     \
        }                                                                                                         \
    }

// clang-format off
FUNCTION(relu_plain, x < 0.0F ? 0.0F : x)
FUNCTION(relu_capped, x < 0.0F ? 0.0F : x >= p.max_value ? p.max_value : x)
FUNCTION(clip, (x < p.threshold ? p.threshold : x) > p.max_value ? p.max_value : x < p.threshold ? p.threshold : x)
FUNCTION(leaky_relu, x > 0.0F ? x : p.alpha * x)
FUNCTION(hard_sigmoid, clamp_unit(p.alpha * x + p.beta))
FUNCTION(hard_swish, x * clamp_unit(x / 6.0F + 0.5F))
FUNCTION(scale, p.alpha * x)
FUNCTION(neg, -x)
FUNCTION(abs, fabsf(x))
FUNCTION(sqrt, sqrtf(x))
FUNCTION(reciprocal, 1.0F / x)
FUNCTION(erf, ckm_i_cpu_erf(x))
FUNCTION(elu, x > 0.0F ? x : p.alpha * ckm_i_cpu_expm1_negative(x))
FUNCTION(mish, mish(x))
FUNCTION(gelu_by_erf, gelu_by_erf(x))
FUNCTION(gelu_by_tanh, gelu_by_tanh(x))
FUNCTION(exp, ckm_i_cpu_exp(x))
FUNCTION(log, ckm_i_cpu_log(x))

GRADIENT(relu_backward, v > 0.0F ? dy : 0.0F)
GRADIENT(relu_capped_backward, v > 0.0F && v < p.max_value ? dy : 0.0F)
GRADIENT(clip_backward, v > p.threshold && v < p.max_value ? dy : 0.0F)
GRADIENT(leaky_relu_backward, v > 0.0F ? dy : p.alpha * dy)
GRADIENT(hard_sigmoid_backward, v > 0.0F && v < 1.0F ? dy * p.alpha : 0.0F)
GRADIENT(hard_swish_backward, dy * hard_swish_slope(v))
GRADIENT(sigmoid_backward, dy * v * (1.0F - v))
GRADIENT(tanh_backward, dy * (1.0F - v * v))
GRADIENT(sqrt_backward, dy * 0.5F / v)
GRADIENT(reciprocal_backward, -dy * v * v)
GRADIENT(elu_backward_from_output, v > 0.0F ? dy : dy * (v + p.alpha))
GRADIENT(elu_backward_from_input, v > 0.0F ? dy : dy * (p.alpha * ckm_i_cpu_exp_negative(v)))
GRADIENT(mish_backward, dy * mish_slope(v))
GRADIENT(gelu_by_erf_backward, dy * gelu_by_erf_slope(v))
GRADIENT(gelu_by_tanh_backward, dy * gelu_by_tanh_slope(v))
GRADIENT(erf_backward, dy * 1.12837916709551257F * ckm_i_cpu_exp_negative(-v * v))
// clang-format on

typedef struct row {
    loop *run;
    double alpha, beta;  // when absent
    ckm_i_op_kind kind;
    bool two;
} row;

static const row rows[] = {
    {loop_leaky_relu, 0.01, 0.0, CKM_I_OP_leaky_relu, false},
    {loop_hard_sigmoid, 0.2, 0.5, CKM_I_OP_hard_sigmoid, false},
    {loop_hard_swish, 0.0, 0.0, CKM_I_OP_hard_swish, false},
    {loop_scale, 1.0, 0.0, CKM_I_OP_scale, false},
    {loop_neg, 0.0, 0.0, CKM_I_OP_neg, false},
    {loop_abs, 0.0, 0.0, CKM_I_OP_abs, false},
    {loop_sqrt, 0.0, 0.0, CKM_I_OP_sqrt, false},
    {loop_reciprocal, 0.0, 0.0, CKM_I_OP_reciprocal, false},
    {loop_erf, 0.0, 0.0, CKM_I_OP_erf, false},
    {loop_elu, 1.0, 0.0, CKM_I_OP_elu, false},
    {loop_mish, 0.0, 0.0, CKM_I_OP_mish, false},
    {loop_exp, 0.0, 0.0, CKM_I_OP_exp, false},
    {loop_log, 0.0, 0.0, CKM_I_OP_log, false},
    {loop_mish_backward, 0.0, 0.0, CKM_I_OP_mish_backward, true},
    {loop_erf_backward, 0.0, 0.0, CKM_I_OP_erf_backward, true},
    {loop_leaky_relu_backward, 0.01, 0.0, CKM_I_OP_leaky_relu_backward, true},
    {loop_hard_sigmoid_backward, 0.2, 0.5, CKM_I_OP_hard_sigmoid_backward, true},
    {loop_hard_swish_backward, 0.0, 0.0, CKM_I_OP_hard_swish_backward, true},
    {loop_sigmoid_backward, 0.0, 0.0, CKM_I_OP_sigmoid_backward, true},
    {loop_tanh_backward, 0.0, 0.0, CKM_I_OP_tanh_backward, true},
    {loop_sqrt_backward, 0.0, 0.0, CKM_I_OP_sqrt_backward, true},
    {loop_reciprocal_backward, 0.0, 0.0, CKM_I_OP_reciprocal_backward, true},
};

typedef struct job {
    const elementwise *e;
    const float *a, *b;
    float *out;
} job;

static void run_part(void *context, int64_t begin, int64_t end)
{
    const job *j = context;
    j->e->run(&j->e->p, j->a + begin, j->b != NULL ? j->b + begin : NULL, j->out + begin, end - begin);
}

static ckm_status run_elementwise(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                                  ckm_error *err)
{
    (void)err;
    const elementwise *e = kernel->data;
    job j = {.e = e, .a = call->inputs[0], .b = e->two ? call->inputs[1] : NULL, .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, e->n, CKM_I_CPU_GRAIN, run_part, &j);
    return CKM_OK;
}

// clip's limits: an attribute, else an operand, which is there when the operator runs, else none.
static float limit_of(const ckm_i_graph_op *op, const ckm_i_kernel_call *call, const char *key, int32_t i,
                      double fallback)
{
    if (ckm_i_op_attr(op, key) == NULL && i < op->n_inputs && op->inputs[i] >= 0) {
        return *(const float *)call->inputs[i];
    }
    return (float)ckm_i_op_attr_double(op, key, fallback);
}

static ckm_status run_clip(const ckm_i_cpu *cpu, const ckm_i_kernel *kernel, const ckm_i_kernel_call *call,
                           ckm_error *err)
{
    (void)err;
    elementwise e = *(const elementwise *)kernel->data;
    const ckm_i_graph_op *op = &kernel->step->ops[kernel->op];
    int32_t limits = e.two ? 2 : 1;
    e.p.threshold = limit_of(op, call, "min", limits, -(double)INFINITY);
    e.p.max_value = limit_of(op, call, "max", limits + 1, (double)INFINITY);
    job j = {.e = &e, .a = call->inputs[0], .b = e.two ? call->inputs[1] : NULL, .out = call->outputs[0]};
    ckm_i_cpu_parallel(cpu->threads, e.n, CKM_I_CPU_GRAIN, run_part, &j);
    return CKM_OK;
}

static bool is_float(const ckm_i_op_view *v, int32_t inputs)
{
    const ckm_i_graph_tensor *tensors = v->graph->tensors;
    for (int32_t i = 0; i < inputs; i++) {
        int32_t t = v->op->inputs[i];
        if (t < 0 || tensors[t].dtype != CKM_F32 ||
            !ckm_i_shapes_equal(&tensors[t].shape, &tensors[v->op->inputs[0]].shape)) {
            return false;
        }
    }
    return v->op->outputs[0] >= 0 && tensors[v->op->outputs[0]].dtype == CKM_F32;
}

static ckm_status take(const ckm_i_op_view *v, loop *run, const parameters *p, bool two, ckm_i_kernel *kernel,
                       ckm_error *err)
{
    elementwise *e = ckm_i_calloc(1, sizeof *e);
    if (e == NULL) {
        return ckm_i_error_memory(err);
    }
    *e = (elementwise){.p = *p, .run = run, .n = ckm_i_elements(&v->in[0]->shape), .two = two};
    kernel->data = e;
    kernel->dispose = free;
    kernel->run = run_elementwise;
    return CKM_OK;
}

static ckm_status prepare_row(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel, ckm_error *err)
{
    (void)cpu;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const row *r = &rows[i];
        if (r->kind == v->op->op_class->id && is_float(v, r->two ? 2 : 1)) {
            parameters p = {.alpha = (float)ckm_i_op_attr_double(v->op, "alpha", r->alpha),
                            .beta = (float)ckm_i_op_attr_double(v->op, "beta", r->beta)};
            return take(v, r->run, &p, r->two, kernel, err);
        }
    }
    return CKM_OK;
}

// relu with a threshold or a slope is left to the reference.
static ckm_status prepare_relu(const ckm_i_op_view *v, loop *plain, loop *capped, bool two, ckm_i_kernel *kernel,
                               ckm_error *err)
{
    parameters p = {.max_value = (float)ckm_i_op_attr_double(v->op, "max_value", (double)INFINITY)};
    if (!is_float(v, two ? 2 : 1) || ckm_i_op_attr_double(v->op, "threshold", 0.0) != 0.0 ||
        ckm_i_op_attr_double(v->op, "negative_slope", 0.0) != 0.0 || !(p.max_value > 0.0F)) {
        return CKM_OK;
    }
    return take(v, p.max_value < INFINITY ? capped : plain, &p, two, kernel, err);
}

static ckm_status prepare_relu_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                       ckm_error *err)
{
    (void)cpu;
    return prepare_relu(v, loop_relu_plain, loop_relu_capped, false, kernel, err);
}

static ckm_status prepare_relu_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                        ckm_error *err)
{
    (void)cpu;
    return prepare_relu(v, loop_relu_backward, loop_relu_capped_backward, true, kernel, err);
}

// With a negative alpha, the output does not determine the slope: the gradient reads the input.
static ckm_status prepare_elu_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                       ckm_error *err)
{
    (void)cpu;
    parameters p = {.alpha = (float)ckm_i_op_attr_double(v->op, "alpha", 1.0)};
    loop *run = p.alpha < 0.0F ? loop_elu_backward_from_input : loop_elu_backward_from_output;
    return is_float(v, 2) ? take(v, run, &p, true, kernel, err) : CKM_OK;
}

static ckm_status prepare_gelu(const ckm_i_op_view *v, loop *by_erf, loop *by_tanh, bool two, ckm_i_kernel *kernel,
                               ckm_error *err)
{
    bool tanh_wanted = strcmp(ckm_i_op_attr_text(v->op, "approximate", "none"), "tanh") == 0;
    parameters none = {0};
    return is_float(v, two ? 2 : 1) ? take(v, tanh_wanted ? by_tanh : by_erf, &none, two, kernel, err) : CKM_OK;
}

static ckm_status prepare_gelu_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                       ckm_error *err)
{
    (void)cpu;
    return prepare_gelu(v, loop_gelu_by_erf, loop_gelu_by_tanh, false, kernel, err);
}

static ckm_status prepare_gelu_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                        ckm_error *err)
{
    (void)cpu;
    return prepare_gelu(v, loop_gelu_by_erf_backward, loop_gelu_by_tanh_backward, true, kernel, err);
}

static ckm_status prepare_clip(const ckm_i_op_view *v, loop *run, bool two, ckm_i_kernel *kernel, ckm_error *err)
{
    parameters p = {0};
    ckm_status status = ckm_i_cpu_floats(v) && is_float(v, two ? 2 : 1) ? take(v, run, &p, two, kernel, err) : CKM_OK;
    kernel->run = kernel->run != NULL ? run_clip : NULL;
    return status;
}

static ckm_status prepare_clip_forward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                       ckm_error *err)
{
    (void)cpu;
    return prepare_clip(v, loop_clip, false, kernel, err);
}

static ckm_status prepare_clip_backward(const ckm_i_cpu *cpu, const ckm_i_op_view *v, ckm_i_kernel *kernel,
                                        ckm_error *err)
{
    (void)cpu;
    return prepare_clip(v, loop_clip_backward, true, kernel, err);
}

// clang-format off
const ckm_i_cpu_row ckm_i_cpu_elementwise[] = {
    {CKM_I_OP_clip, prepare_clip_forward},
    {CKM_I_OP_clip_backward, prepare_clip_backward},
    {CKM_I_OP_relu, prepare_relu_forward},
    {CKM_I_OP_relu_backward, prepare_relu_backward},
    {CKM_I_OP_elu_backward, prepare_elu_backward},
    {CKM_I_OP_gelu, prepare_gelu_forward},
    {CKM_I_OP_gelu_backward, prepare_gelu_backward},
    {CKM_I_OP_elu, prepare_row},
    {CKM_I_OP_mish, prepare_row},
    {CKM_I_OP_mish_backward, prepare_row},
    {CKM_I_OP_exp, prepare_row},
    {CKM_I_OP_log, prepare_row},
    {CKM_I_OP_leaky_relu, prepare_row},
    {CKM_I_OP_hard_sigmoid, prepare_row},
    {CKM_I_OP_hard_swish, prepare_row},
    {CKM_I_OP_scale, prepare_row},
    {CKM_I_OP_neg, prepare_row},
    {CKM_I_OP_abs, prepare_row},
    {CKM_I_OP_sqrt, prepare_row},
    {CKM_I_OP_reciprocal, prepare_row},
    {CKM_I_OP_erf, prepare_row},
    {CKM_I_OP_erf_backward, prepare_row},
    {CKM_I_OP_leaky_relu_backward, prepare_row},
    {CKM_I_OP_hard_sigmoid_backward, prepare_row},
    {CKM_I_OP_hard_swish_backward, prepare_row},
    {CKM_I_OP_sigmoid_backward, prepare_row},
    {CKM_I_OP_tanh_backward, prepare_row},
    {CKM_I_OP_sqrt_backward, prepare_row},
    {CKM_I_OP_reciprocal_backward, prepare_row},
    {0},
};
// clang-format on
