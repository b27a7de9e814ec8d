// SPDX-License-Identifier: Apache-2.0
// Functions of one operand: the reference kernel and the fast one against the formula in double precision, forward, and
// backward against the formula's own slope; the slope against differences of the formula, away from kinks. Numbers are those
// of kernel_ranges.h, in tensors of lengths around those of vectors. At kinks the slope is the one that
// src/autodiff/OPERATORS.md states.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernel_script.h"
#include "run/backend/backend.h"

typedef double function(double x);

static double logistic(double x)
{
    return x >= 0.0 ? 1.0 / (1.0 + exp(-x)) : exp(x) / (1.0 + exp(x));
}

static double softplus(double x)
{
    return fmax(x, 0.0) + log1p(exp(-fabs(x)));
}

static const double selu_alpha = 1.67326319217681884765625;
static const double selu_gamma = 1.05070102214813232421875;
static const double root = 0.79788456080286535588;  // of 2 / pi

#define F(name, value)                   \
    static double f_##name(double x)     \
    {                                    \
        return isnan(x) ? NAN : (value); \
    }
// clang-format off
F(relu, x < 0 ? 0 : x)                              F(relu_slope, x > 0 ? 1 : 0)
F(relu6, x < 0 ? 0 : x > 6 ? 6 : x)                 F(relu6_slope, x > 0 && x < 6 ? 1 : 0)
F(leaky, x > 0 ? x : 0.25 * x)                      F(leaky_slope, x > 0 ? 1 : 0.25)
F(elu, x > 0 ? x : 0.75 * expm1(x))                 F(elu_slope, x > 0 ? 1 : 0.75 * exp(x))
F(elu_down, x > 0 ? x : -0.75 * expm1(x))           F(elu_down_slope, x > 0 ? 1 : -0.75 * exp(x))
F(celu, x > 0 ? x : 0.5 * expm1(x / 0.5))           F(celu_slope, x > 0 ? 1 : exp(x / 0.5))
F(selu, selu_gamma * (x > 0 ? x : selu_alpha * expm1(x)))
F(selu_slope, selu_gamma * (x > 0 ? 1 : selu_alpha * exp(x)))
F(sigmoid, logistic(x))                             F(sigmoid_slope, logistic(x) * logistic(-x))
F(hard_sigmoid, fmin(1, fmax(0, 0.25 * x + 0.5)))   F(hard_sigmoid_slope, x > -2 && x < 2 ? 0.25 : 0)
F(hard_swish, x <= -3 ? (isinf(x) ? NAN : 0) : x >= 3 ? x : x * (x + 3) / 6)
F(hard_swish_slope, x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6)
F(tanh, tanh(x))                                    F(tanh_slope, 1 / (cosh(x) * cosh(x)))
F(softplus, softplus(x))                            F(softplus_slope, logistic(x))
F(softsign, isinf(x) ? NAN : x / (1 + fabs(x)))     F(softsign_slope, 1 / ((1 + fabs(x)) * (1 + fabs(x))))
F(gelu, x == -INFINITY ? NAN : 0.5 * x * erfc(-x / sqrt(2)))
F(gelu_slope, 0.5 * erfc(-x / sqrt(2)) + (isinf(x) ? NAN : x * root / 2 * exp(-x * x / 2)))
F(gelu_tanh, x == -INFINITY ? NAN : x * logistic(2 * root * (x + 0.044715 * x * x * x)))
static double f_gelu_tanh_slope(double x)
{
    if (isnan(x)) {
        return NAN;
    }
    if (fabs(x) > 40) {
        return x > 0 ? 1 : 0;
    }
    double u = 2 * root * (x + 0.044715 * x * x * x);
    return logistic(u) + x * logistic(u) * logistic(-u) * 2 * root * (1 + 3 * 0.044715 * x * x);
}
F(swish, x == -INFINITY ? NAN : x * logistic(x))
F(swish_slope, isinf(x) ? NAN : logistic(x) + x * logistic(x) * logistic(-x))
F(mish, x == -INFINITY ? NAN : x * tanh(softplus(x)))
F(mish_slope, isinf(x) ? NAN : fabs(x) > 700 ? (x > 0 ? 1 : 0) : tanh(softplus(x)) + x * logistic(x) / pow(cosh(fmin(softplus(x), 300)), 2))
F(thresholded, x > 1.5 ? x : 0)                     F(thresholded_slope, x > 1.5 ? 1 : 0)
F(shrink, x < -0.75 ? x + 0.25 : x > 0.75 ? x - 0.25 : 0)
F(shrink_slope, fabs(x) > 0.75 ? 1 : 0)
F(clip, x < -0.5 ? -0.5 : x > 2.5 ? 2.5 : x)        F(clip_slope, x > -0.5 && x < 2.5 ? 1 : 0)
F(abs, fabs(x))                                     F(abs_slope, x > 0 ? 1 : x < 0 ? -1 : 0)
F(sqrt, sqrt(x))                                    F(sqrt_slope, 0.5 / sqrt(x))
F(reciprocal, 1 / x)                                F(reciprocal_slope, -1 / (x * x))
F(erf, erf(x))                                      F(erf_slope, 2 / sqrt(3.14159265358979323846) * exp(-x * x))
F(exp, exp(x))                                      F(log, x < 0 ? NAN : log(x))
F(sin, sin(x))                                      F(sin_slope, cos(x))
F(cos, cos(x))                                      F(cos_slope, -sin(x))
F(atan, atan(x))                                    F(atan_slope, 1 / (1 + x * x))
F(neg, -x)                                          F(scale, -0.25 * x)
    // clang-format on

    // Which operand the slope is computed from.
    typedef enum reads {
        NOTHING,
        INPUT,
        OUTPUT
    } reads;

// `floor`: tolerances are parts of the number, but at least of this.
static const struct row {
    const char *kind, *attributes;
    function *f, *slope;
    reads reads;
    double tolerance, floor;
    double kinks[2];
} rows[] = {
    {"relu", "", f_relu, f_relu_slope, OUTPUT, 0, 0, {0, 0}},
    {"relu", "max_value=6.0", f_relu6, f_relu6_slope, OUTPUT, 0, 0, {0, 6}},
    {"leaky_relu", "alpha=0.25", f_leaky, f_leaky_slope, OUTPUT, 0, 0, {0, 0}},
    {"elu", "alpha=0.75", f_elu, f_elu_slope, OUTPUT, 1e-6, 1, {0, 0}},
    {"elu", "alpha=-0.75", f_elu_down, f_elu_down_slope, INPUT, 1e-6, 0.01, {0, 0}},
    {"celu", "alpha=0.5", f_celu, f_celu_slope, OUTPUT, 1e-6, 1, {0, 0}},
    {"selu", "", f_selu, f_selu_slope, OUTPUT, 1e-6, 1, {0, 0}},
    {"sigmoid", "", f_sigmoid, f_sigmoid_slope, OUTPUT, 1e-6, 1, {0, 0}},
    {"hard_sigmoid", "alpha=0.25 beta=0.5", f_hard_sigmoid, f_hard_sigmoid_slope, OUTPUT, 1e-6, 1, {-2, 2}},
    {"hard_swish", "", f_hard_swish, f_hard_swish_slope, INPUT, 1e-6, 1, {-3, 3}},
    {"tanh", "", f_tanh, f_tanh_slope, OUTPUT, 1e-6, 1, {0, 0}},
    {"softplus", "", f_softplus, f_softplus_slope, OUTPUT, 1e-6, 1e-30, {0, 0}},
    {"softsign", "", f_softsign, f_softsign_slope, OUTPUT, 1e-6, 1, {0, 0}},
    {"gelu", "", f_gelu, f_gelu_slope, INPUT, 1e-6, 1, {0, 0}},
    {"gelu", "approximate=tanh", f_gelu_tanh, f_gelu_tanh_slope, INPUT, 3e-6, 1, {0, 0}},
    {"swish", "", f_swish, f_swish_slope, INPUT, 1e-6, 1, {0, 0}},
    {"mish", "", f_mish, f_mish_slope, INPUT, 1e-6, 1, {0, 0}},
    {"thresholded_relu", "alpha=1.5", f_thresholded, f_thresholded_slope, OUTPUT, 0, 0, {1.5, 1.5}},
    {"shrink", "lambd=0.75 bias=0.25", f_shrink, f_shrink_slope, INPUT, 1e-6, 1, {-0.75, 0.75}},
    {"clip", "min=-0.5 max=2.5", f_clip, f_clip_slope, OUTPUT, 0, 0, {-0.5, 2.5}},
    {"abs", "", f_abs, f_abs_slope, INPUT, 0, 0, {0, 0}},
    {"sqrt", "", f_sqrt, f_sqrt_slope, OUTPUT, 1e-6, 1e-30, {0, 0}},
    {"reciprocal", "", f_reciprocal, f_reciprocal_slope, OUTPUT, 1e-6, 1e-30, {0, 0}},
    {"erf", "", f_erf, f_erf_slope, INPUT, 1e-6, 1, {0, 0}},
    {"exp", "", f_exp, NULL, NOTHING, 1e-6, 1e-35, {0, 0}},
    {"log", "", f_log, NULL, NOTHING, 1e-6, 1e-30, {0, 0}},
    {"sin", "", f_sin, f_sin_slope, INPUT, 1e-6, 1, {0, 0}},
    {"cos", "", f_cos, f_cos_slope, INPUT, 1e-6, 1, {0, 0}},
    {"atan", "", f_atan, f_atan_slope, INPUT, 1e-6, 1e-30, {0, 0}},
    {"neg", "", f_neg, NULL, NOTHING, 0, 0, {0, 0}},
    {"scale", "alpha=-0.25", f_scale, NULL, NOTHING, 1e-6, 1e-35, {0, 0}},
};

enum { ROOM = KERNEL_RANGE_POINTS + 64 };

// The script's operator on a back end.
static void run(const char *backend_name, const char *script, const float *a, const float *b, float *out)
{
    kernel_script s;
    ckm_i_backend *backend = NULL;
    ckm_i_kernel *kernel = NULL;
    int64_t bytes = 0;
    char workspace[1 << 12];
    const void *inputs[2] = {a, b};
    void *outputs[1] = {out};
    ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs, .workspace = workspace};
    kernel_script_read(&s, script, CKM_CHANNELS_LAST);
    assert_int_equal(ckm_i_backend_create(backend_name, 1, &backend, NULL), CKM_OK);
    assert_int_equal(backend->prepare(backend, s.graph, 0, &kernel, &bytes, NULL), CKM_OK);
    assert_true(bytes <= (int64_t)sizeof workspace);
    assert_int_equal(backend->run(backend, kernel, &call, NULL), CKM_OK);
    backend->free_kernel(backend, kernel);
    ckm_i_backend_destroy(backend);
    kernel_script_free(&s);
}

// Results in double precision may lie beyond the range of floats, and below it.
static void compare(const char *what, const float *x, const float *got, const double *wanted, int n, double tolerance,
                    double floor)
{
    for (int i = 0; i < n; i++) {
        double far = fabs((double)got[i] - wanted[i]);
        bool beyond = fabs(wanted[i]) >= 3.4e38 && isinf(got[i]) && (got[i] > 0.0F) == (wanted[i] > 0.0);
        bool same = isnan(wanted[i]) ? isnan(got[i]) : (double)got[i] == wanted[i] || beyond;
        if (!same && !(far <= tolerance * fmax(floor, fabs(wanted[i])) + 2e-45)) {
            fail_msg("%s at %.9g: %.9g, not %.9g", what, (double)x[i], (double)got[i], wanted[i]);
        }
    }
}

static bool is_next_to(float x, double kink)
{
    return (double)x != kink && fabs((double)x - kink) < 3e-7 * fabs(kink);
}

static void check_row(const struct row *r, const char *backend, const float *x, int n)
{
    char script[256];
    char what[320];
    float y[ROOM];
    float dx[ROOM];
    float dy[ROOM];
    double wanted[ROOM];
    snprintf(script, sizeof script, "in %d;%s 0 %s", n, r->kind, r->attributes);
    snprintf(what, sizeof what, "%s on %s", script, backend);
    run(backend, script, x, NULL, y);
    for (int i = 0; i < n; i++) {
        wanted[i] = r->f((double)x[i]);
        dy[i] = i % 3 == 0 ? -2.0F : 1.0F;
    }
    compare(what, x, y, wanted, n, r->tolerance, r->floor);
    if (r->reads == NOTHING) {
        return;
    }
    snprintf(script, sizeof script, "in %d;in %d;%s_backward 0 1 %s", n, n, r->kind, r->attributes);
    snprintf(what, sizeof what, "%s on %s", script, backend);
    run(backend, script, dy, r->reads == OUTPUT ? y : x, dx);
    for (int i = 0; i < n; i++) {
        wanted[i] = (double)dy[i] * r->slope((double)x[i]);
        // Not defined; or so near a kink that the output is that of the kink.
        if (isnan(x[i]) || isinf(x[i]) || is_next_to(x[i], r->kinks[0]) || is_next_to(x[i], r->kinks[1])) {
            wanted[i] = (double)dx[i];
        }
    }
    // An output rounded to a float tells the slope no better than that.
    compare(what, x, dx, wanted, n, r->tolerance * 8, r->reads == OUTPUT ? fmax(r->floor, 1e-2) : r->floor);
}

static void functions_and_slopes(void **state)
{
    (void)state;
    static const int lengths[] = {1, 7, 8, 15, 16, 17, 33};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kernel_script s;
        char script[256];
        float x[ROOM];
        snprintf(script, sizeof script, "in 4;%s 0 %s", rows[i].kind, rows[i].attributes);
        kernel_script_read(&s, script, CKM_CHANNELS_LAST);
        int n = kernel_range_points(&s.graph->ops[0], x);
        kernel_script_free(&s);
        const char *const backends[] = {"reference", "cpu"};
        for (int b = 0; b < 2; b++) {
            check_row(&rows[i], backends[b], x, n);
            for (size_t k = 0, at = 0; k < sizeof lengths / sizeof lengths[0]; at += (size_t)lengths[k++]) {
                check_row(&rows[i], backends[b], x + at, lengths[k]);
            }
        }
    }
}

static bool is_near_kink(const struct row *r, double x)
{
    return fabs(x - r->kinks[0]) < 0.01 || fabs(x - r->kinks[1]) < 0.01;
}

static void slopes_are_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *r = &rows[i];
        for (int k = -800; r->slope != NULL && k <= 800; k++) {
            double x = k / 100.0 + 0.003;
            double h = 1e-5;
            double difference = (r->f(x + h) - r->f(x - h)) / (2.0 * h);
            if (!isnan(difference) && !is_near_kink(r, x) && fabs(x) > 0.05 &&
                fabs(difference - r->slope(x)) > 1e-6 * fmax(1.0, fabs(difference))) {
                fail_msg("%s %s at %g: slope %.9g, differences %.9g", r->kind, r->attributes, x, r->slope(x),
                         difference);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_and_slopes),
        cmocka_unit_test(slopes_are_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
