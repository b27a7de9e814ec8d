// SPDX-License-Identifier: Apache-2.0
// Activation functions and functions of one operand, and their derivatives. Element i of the output depends on
// element i of the operands alone, so outputs may share their buffers.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

static const float sqrt_2_over_pi = 0.797884560802865356F;
static const float inv_sqrt_2 = 0.707106781186547524F;
static const float inv_sqrt_2pi = 0.398942280401432678F;
static const float two_over_sqrt_pi = 1.128379167095512574F;

typedef struct parameters {
    float alpha, beta, gamma;
    float max_value, threshold, slope;  // of relu
    bool plain;                         // relu without any of these
    bool by_tanh;                       // the approximation of gelu
} parameters;

// `alpha` and `beta` when absent.
static parameters read_parameters(const ckm_i_ref_op *r, double alpha, double beta)
{
    parameters p = {
        .alpha = (float)ckm_i_op_attr_double(r->op, "alpha", alpha),
        .beta = (float)ckm_i_op_attr_double(r->op, "beta", beta),
        .gamma = (float)ckm_i_op_attr_double(r->op, "gamma", 1.05070102214813232421875),
        .max_value = (float)ckm_i_op_attr_double(r->op, "max_value", (double)INFINITY),
        .threshold = (float)ckm_i_op_attr_double(r->op, "threshold", 0.0),
        .slope = (float)ckm_i_op_attr_double(r->op, "negative_slope", 0.0),
        .by_tanh = strcmp(ckm_i_op_attr_text(r->op, "approximate", "none"), "tanh") == 0,
    };
    p.plain = p.max_value == INFINITY && p.threshold == 0.0F && p.slope == 0.0F;
    return p;
}

// ---- functions, by the names of their kinds

static inline float logistic(float x)
{
    if (x >= 0.0F) {
        return 1.0F / (1.0F + expf(-x));
    }
    float e = expf(x);
    return e / (1.0F + e);
}

static inline float clamp_unit(float x)
{
    return x < 0.0F ? 0.0F : x > 1.0F ? 1.0F : x;
}

static inline float softplus_of(float x)
{
    return (x > 0.0F ? x : 0.0F) + log1pf(expf(-fabsf(x)));
}

static inline float relu(float x, const parameters *p)
{
    if (p->plain) {
        return x < 0.0F ? 0.0F : x;
    }
    if (x >= p->max_value) {
        return p->max_value;
    }
    return x >= p->threshold ? x : p->slope == 0.0F && x < p->threshold ? 0.0F : p->slope * (x - p->threshold);
}

static inline float gelu(float x, const parameters *p)
{
    if (p->by_tanh) {
        return 0.5F * x * (1.0F + tanhf(sqrt_2_over_pi * (x + 0.044715F * x * x * x)));
    }
    return 0.5F * x * (1.0F + erff(x * inv_sqrt_2));
}

// ---- derivatives

static inline float gelu_slope(float x, const parameters *p)
{
    if (p->by_tanh) {
        float t = tanhf(sqrt_2_over_pi * (x + 0.044715F * x * x * x));
        float inner = sqrt_2_over_pi * (1.0F + 3.0F * 0.044715F * x * x);
        float rest = 1.0F - t * t;  // 0 long before x * x is infinite
        return 0.5F * (1.0F + t) + (rest != 0.0F ? 0.5F * x * rest * inner : 0.0F);
    }
    return 0.5F * (1.0F + erff(x * inv_sqrt_2)) + x * inv_sqrt_2pi * expf(-0.5F * x * x);
}

static inline float swish_slope(float x, const parameters *p)
{
    float s = logistic(p->alpha * x);
    return s + p->alpha * x * s * (1.0F - s);
}

static inline float hard_swish_slope(float x)
{
    float t = x / 6.0F + 0.5F;
    return clamp_unit(t) + (t > 0.0F && t < 1.0F ? x / 6.0F : 0.0F);
}

static inline float mish_slope(float x)
{
    float t = tanhf(softplus_of(x));
    return t + x * (1.0F - t * t) * logistic(x);
}

static inline float softsign_slope(float y)
{
    float rest = 1.0F - fabsf(y);
    return rest * rest;
}

// From y, or from x where y can be positive below 0.
static inline float elu_gradient(float dy, float v, const parameters *p)
{
    if (v > 0.0F) {
        return dy;
    }
    return p->alpha < 0.0F ? dy * p->alpha * expf(v) : dy * (v + p->alpha);
}

// From y, or from x where signs of y and x can differ.
static inline float selu_gradient(float dy, float v, const parameters *p)
{
    if (v > 0.0F) {
        return dy * p->gamma;
    }
    float lower = p->gamma * p->alpha;
    return p->alpha < 0.0F || p->gamma < 0.0F ? dy * lower * expf(v) : dy * (v + lower);
}

static inline float relu_gradient(float dy, float v, const parameters *p)
{
    if (v >= p->max_value && p->max_value < INFINITY) {
        return 0.0F;
    }
    return v > p->threshold ? dy : p->slope == 0.0F ? 0.0F : p->slope * dy;
}

// ---- kernels

// One operand x; `value` in terms of x and p.
#define FUNCTION(name, alpha, beta, value)                                                                         \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        ckm_i_ref_op r = ckm_i_ref_open(step, op, call);                                                           \
        CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));                                                              \
        const parameters given = read_parameters(&r, alpha, beta);                                                 \
        const parameters *p = &given;                                                                              \
        const float *from = ckm_i_ref_input(&r, 0);                                                                \
        float *to = ckm_i_ref_output(&r, 0);                                                                       \
        int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);                                                   \
        (void)p;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            const float x = from[i];                                                                               \
            to[i] = (value);                                                                                       \
        }                                                                                                          \
        return CKM_OK;                                                                                             \
    }

// Operands dy and v, which is x or y; `value` in terms of dy, v and p.
#define GRADIENT(name, alpha, beta, value)                                                                         \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        ckm_i_ref_op r = ckm_i_ref_open(step, op, call);                                                           \
        CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));                                                              \
        const parameters given = read_parameters(&r, alpha, beta);                                                 \
        const parameters *p = &given;                                                                              \
        const float *gradient = ckm_i_ref_input(&r, 0);                                                            \
        const float *from = ckm_i_ref_input(&r, 1);                                                                \
        float *to = ckm_i_ref_output(&r, 0);                                                                       \
        int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);                                                   \
        (void)p;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            const float dy = gradient[i];                                                                          \
            const float v = from[i];                                                                               \
            to[i] = (value);                                                                                       \
        }                                                                                                          \
        return CKM_OK;                                                                                             \
    }

#define SELU_ALPHA 1.67326319217681884765625

// clang-format off
FUNCTION(relu, 0.0, 0.0, relu(x, p))
FUNCTION(leaky_relu, 0.01, 0.0, x > 0.0F ? x : p->alpha * x)
FUNCTION(elu, 1.0, 0.0, x > 0.0F ? x : p->alpha * expm1f(x))
FUNCTION(selu, SELU_ALPHA, 0.0, p->gamma * (x > 0.0F ? x : p->alpha * expm1f(x)))
FUNCTION(celu, 1.0, 0.0, x > 0.0F ? x : p->alpha * expm1f(x / p->alpha))
FUNCTION(sigmoid, 0.0, 0.0, logistic(x))
FUNCTION(hard_sigmoid, 0.2, 0.5, clamp_unit(p->alpha * x + p->beta))
FUNCTION(tanh, 0.0, 0.0, tanhf(x))
FUNCTION(softplus, 0.0, 0.0, softplus_of(x))
FUNCTION(softsign, 0.0, 0.0, x / (1.0F + fabsf(x)))
FUNCTION(gelu, 0.0, 0.0, gelu(x, p))
FUNCTION(swish, 1.0, 0.0, x * logistic(p->alpha * x))
FUNCTION(hard_swish, 0.0, 0.0, x * clamp_unit(x / 6.0F + 0.5F))
FUNCTION(mish, 0.0, 0.0, x * tanhf(softplus_of(x)))
FUNCTION(thresholded_relu, 1.0, 0.0, x <= p->alpha ? 0.0F : x)
FUNCTION(scale, 1.0, 0.0, p->alpha * x)
FUNCTION(sqrt, 0.0, 0.0, sqrtf(x))
FUNCTION(erf, 0.0, 0.0, erff(x))
FUNCTION(exp, 0.0, 0.0, expf(x))
FUNCTION(log, 0.0, 0.0, logf(x))
FUNCTION(reciprocal, 0.0, 0.0, 1.0F / x)
FUNCTION(sin, 0.0, 0.0, sinf(x))
FUNCTION(cos, 0.0, 0.0, cosf(x))
FUNCTION(tan, 0.0, 0.0, tanf(x))
FUNCTION(atan, 0.0, 0.0, atanf(x))

// v is y, or x where y does not tell
GRADIENT(relu_backward, 0.0, 0.0, relu_gradient(dy, v, p))
GRADIENT(leaky_relu_backward, 0.01, 0.0, v > 0.0F ? dy : p->alpha * dy)
GRADIENT(thresholded_relu_backward, 1.0, 0.0, v > p->alpha ? dy : 0.0F)
GRADIENT(elu_backward, 1.0, 0.0, elu_gradient(dy, v, p))
GRADIENT(selu_backward, SELU_ALPHA, 0.0, selu_gradient(dy, v, p))
// v is y
GRADIENT(celu_backward, 1.0, 0.0, v > 0.0F ? dy : dy * (v / p->alpha + 1.0F))
GRADIENT(sigmoid_backward, 0.0, 0.0, dy * v * (1.0F - v))
GRADIENT(hard_sigmoid_backward, 0.2, 0.5, v > 0.0F && v < 1.0F ? dy * p->alpha : 0.0F)
GRADIENT(tanh_backward, 0.0, 0.0, dy * (1.0F - v * v))
GRADIENT(softplus_backward, 0.0, 0.0, dy * -expm1f(-v))
GRADIENT(softsign_backward, 0.0, 0.0, dy * softsign_slope(v))
GRADIENT(sqrt_backward, 0.0, 0.0, dy * 0.5F / v)
GRADIENT(reciprocal_backward, 0.0, 0.0, -dy * v * v)
GRADIENT(tan_backward, 0.0, 0.0, dy * (1.0F + v * v))
// v is x
GRADIENT(gelu_backward, 0.0, 0.0, dy * gelu_slope(v, p))
GRADIENT(swish_backward, 1.0, 0.0, dy * swish_slope(v, p))
GRADIENT(hard_swish_backward, 0.0, 0.0, dy * hard_swish_slope(v))
GRADIENT(mish_backward, 0.0, 0.0, dy * mish_slope(v))
GRADIENT(erf_backward, 0.0, 0.0, dy * two_over_sqrt_pi * expf(-v * v))
GRADIENT(abs_backward, 0.0, 0.0, v > 0.0F ? dy : v < 0.0F ? -dy : 0.0F)
GRADIENT(sin_backward, 0.0, 0.0, dy * cosf(v))
GRADIENT(cos_backward, 0.0, 0.0, -dy * sinf(v))
GRADIENT(atan_backward, 0.0, 0.0, dy / (1.0F + v * v))

#define ROW(name) {CKM_I_OP_##name, NULL, run_##name},
const ckm_i_reference_kernel ckm_i_ref_kernels_activation[] = {
    ROW(relu) ROW(leaky_relu) ROW(elu) ROW(selu) ROW(celu) ROW(sigmoid) ROW(hard_sigmoid) ROW(tanh) ROW(softplus)
    ROW(softsign) ROW(gelu) ROW(swish) ROW(hard_swish) ROW(mish) ROW(thresholded_relu) ROW(scale) ROW(sqrt) ROW(erf)
    ROW(exp) ROW(log) ROW(reciprocal) ROW(sin) ROW(cos) ROW(tan) ROW(atan)
    ROW(relu_backward) ROW(leaky_relu_backward) ROW(thresholded_relu_backward) ROW(elu_backward) ROW(selu_backward)
    ROW(celu_backward) ROW(sigmoid_backward) ROW(hard_sigmoid_backward) ROW(tanh_backward) ROW(softplus_backward)
    ROW(softsign_backward) ROW(sqrt_backward) ROW(reciprocal_backward) ROW(tan_backward) ROW(gelu_backward)
    ROW(swish_backward) ROW(hard_swish_backward) ROW(mish_backward) ROW(erf_backward) ROW(abs_backward)
    ROW(sin_backward) ROW(cos_backward) ROW(atan_backward)
    {0},
};
// clang-format on
