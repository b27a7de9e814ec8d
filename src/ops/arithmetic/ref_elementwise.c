// SPDX-License-Identifier: Apache-2.0
// Element by element arithmetic, comparisons and logic, with broadcasting. A piece of the result is put together
// aside and then written, so that the output may share the buffer of any operand of its shape.
#include <math.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

enum { PIECE = 256 };

// The walk over the output with itself as operand 0, then all inputs.
static ckm_status open_walk(const ckm_i_ref_op *r, ckm_i_ref_walk *w, ckm_error *err)
{
    if (r->op->n_inputs >= CKM_I_REF_MAX_OPERANDS) {
        return ckm_i_ref_error(r, err, CKM_ERR_UNSUPPORTED, "more than %d operands", CKM_I_REF_MAX_OPERANDS - 1);
    }
    const ckm_shape *out = &ckm_i_ref_out(r, 0)->shape;
    *w = ckm_i_ref_walk_over(out);
    ckm_i_ref_walk_add(w, out);
    for (int32_t i = 0; i < r->op->n_inputs; i++) {
        ckm_i_ref_walk_add(w, &ckm_i_ref_in(r, i)->shape);
    }
    return CKM_OK;
}

static bool all_floats(const ckm_i_ref_op *r)
{
    return ckm_i_ref_check_floats(r, NULL) == CKM_OK;
}

static bool is_real(ckm_dtype dtype)
{
    return dtype == CKM_F32 || dtype == CKM_F64;
}

// ---- in single precision

// sum[j] = sum[j] combined with x[j * stride].
typedef void (*combine_fn)(float *sum, const float *x, int64_t stride, int64_t n);

#define COMBINE(name, value)                                                         \
    static void name##_floats(float *sum, const float *x, int64_t stride, int64_t n) \
    {                                                                                \
        if (stride == 1) {                                                           \
            for (int64_t j = 0; j < n; j++) {                                        \
                const float a = sum[j];                                              \
                const float b = x[j];                                                \
                sum[j] = (value);                                                    \
            }                                                                        \
        } else {                                                                     \
            for (int64_t j = 0; j < n; j++) {                                        \
                const float a = sum[j];                                              \
                const float b = x[j * stride];                                       \
                sum[j] = (value);                                                    \
            }                                                                        \
        }                                                                            \
    }

// mod: the sign is the dividend's, as fmod has it; for integers, below, the divisor's.
COMBINE(add, a + b)
COMBINE(sub, a - b)
COMBINE(mul, b *a)
COMBINE(div, a / b)
COMBINE(pow, b == 2.0F ? a * a : powf(a, b))
COMBINE(mod, fmodf(a, b))
COMBINE(minimum, b < a || b != b ? b : a)
COMBINE(maximum, b > a || b != b ? b : a)

static void fold_floats(const ckm_i_ref_op *r, ckm_i_ref_walk *w, combine_fn combine, float factor)
{
    float piece[PIECE] = {0};
    float *y = ckm_i_ref_output(r, 0);
    for (bool more = ckm_i_ref_walk_start(w); more; more = ckm_i_ref_walk_next(w)) {
        int64_t length = ckm_i_ref_row_length(w);
        for (int64_t first = 0; first < length; first += PIECE) {
            int64_t n = length - first < PIECE ? length - first : PIECE;
            for (int32_t i = 0; i < r->op->n_inputs; i++) {
                int64_t stride = ckm_i_ref_row_stride(w, i + 1);
                const float *x = (const float *)ckm_i_ref_input(r, i) + w->offsets[i + 1] + first * stride;
                if (i > 0) {
                    combine(piece, x, stride, n);
                    continue;
                }
                for (int64_t j = 0; j < n; j++) {
                    piece[j] = x[j * stride];
                }
            }
            float *to = y + w->offsets[0] + first;
            for (int64_t j = 0; j < n; j++) {
                to[j] = factor == 1.0F ? piece[j] : piece[j] * factor;
            }
        }
    }
}

// ---- in any type, by way of doubles

typedef double (*combine_one_fn)(double a, double b, bool real);

static double add_one(double a, double b, bool real)
{
    (void)real;
    return a + b;
}

static double sub_one(double a, double b, bool real)
{
    (void)real;
    return a - b;
}

static double mul_one(double a, double b, bool real)
{
    (void)real;
    return a * b;
}

static double div_one(double a, double b, bool real)
{
    return real ? a / b : b == 0.0 ? 0.0 : trunc(a / b);
}

static double pow_one(double a, double b, bool real)
{
    (void)real;
    return pow(a, b);
}

static double mod_one(double a, double b, bool real)
{
    return real ? fmod(a, b) : b == 0.0 ? 0.0 : a - floor(a / b) * b;
}

static double minimum_one(double a, double b, bool real)
{
    (void)real;
    return b < a || b != b ? b : a;
}

static double maximum_one(double a, double b, bool real)
{
    (void)real;
    return b > a || b != b ? b : a;
}

static double equal_one(double a, double b, bool real)
{
    (void)real;
    return a == b;
}

static double less_one(double a, double b, bool real)
{
    (void)real;
    return a < b;
}

static double less_or_equal_one(double a, double b, bool real)
{
    (void)real;
    return a <= b;
}

static double greater_one(double a, double b, bool real)
{
    (void)real;
    return a > b;
}

static double greater_or_equal_one(double a, double b, bool real)
{
    (void)real;
    return a >= b;
}

static double and_one(double a, double b, bool real)
{
    (void)real;
    return a != 0.0 && b != 0.0;
}

static double or_one(double a, double b, bool real)
{
    (void)real;
    return a != 0.0 || b != 0.0;
}

static double xor_one(double a, double b, bool real)
{
    (void)real;
    return (a != 0.0) != (b != 0.0);
}

static void fold_any(const ckm_i_ref_op *r, ckm_i_ref_walk *w, combine_one_fn combine, double factor)
{
    ckm_dtype type = ckm_i_ref_out(r, 0)->dtype;
    for (bool more = ckm_i_ref_walk_start(w); more; more = ckm_i_ref_walk_next(w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(w); j++) {
            double value = 0.0;
            for (int32_t i = 0; i < r->op->n_inputs; i++) {
                ckm_dtype own = ckm_i_ref_in(r, i)->dtype;
                double x = ckm_i_ref_load(ckm_i_ref_input(r, i), own,
                                          w->offsets[i + 1] + j * ckm_i_ref_row_stride(w, i + 1));
                value = i == 0 ? x : combine(value, x, is_real(own));
            }
            ckm_i_ref_store(ckm_i_ref_output(r, 0), type, w->offsets[0] + j, value * factor);
        }
    }
}

static ckm_status fold(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, combine_fn floats,
                       combine_one_fn any, bool mean, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    ckm_i_ref_walk w;
    CKM_I_CHECK(open_walk(&r, &w, err));
    double factor = mean ? 1.0 / r.op->n_inputs : 1.0;
    if (floats != NULL && all_floats(&r)) {
        fold_floats(&r, &w, floats, (float)factor);
    } else {
        fold_any(&r, &w, any, factor);
    }
    return CKM_OK;
}

#define FOLD(name, floats, any, mean)                                                                              \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        return fold(step, op, call, floats, any, mean, err);                                                       \
    }

FOLD(add, add_floats, add_one, false)
FOLD(sub, sub_floats, sub_one, false)
FOLD(mul, mul_floats, mul_one, false)
FOLD(div, div_floats, div_one, false)
FOLD(pow, pow_floats, pow_one, false)
FOLD(mod, mod_floats, mod_one, false)
FOLD(minimum, minimum_floats, minimum_one, false)
FOLD(maximum, maximum_floats, maximum_one, false)
FOLD(mean, add_floats, add_one, true)
FOLD(equal, NULL, equal_one, false)
FOLD(less, NULL, less_one, false)
FOLD(less_or_equal, NULL, less_or_equal_one, false)
FOLD(greater, NULL, greater_one, false)
FOLD(greater_or_equal, NULL, greater_or_equal_one, false)
FOLD(and, NULL, and_one, false)
FOLD(or, NULL, or_one, false)
FOLD(xor, NULL, xor_one, false)

// ---- one operand of any type

#define MAP(name, value)                                                                                           \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        (void)err;                                                                                                 \
        ckm_i_ref_op r = ckm_i_ref_open(step, op, call);                                                           \
        ckm_dtype from = ckm_i_ref_in(&r, 0)->dtype;                                                               \
        ckm_dtype to = ckm_i_ref_out(&r, 0)->dtype;                                                                \
        int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);                                                   \
        if (from == CKM_F32 && to == CKM_F32) {                                                                    \
            const float *x_data = ckm_i_ref_input(&r, 0);                                                          \
            float *y_data = ckm_i_ref_output(&r, 0);                                                               \
            for (int64_t i = 0; i < n; i++) {                                                                      \
                const double x = (double)x_data[i];                                                                \
                y_data[i] = (float)(value);                                                                        \
            }                                                                                                      \
            return CKM_OK;                                                                                         \
        }                                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            const double x = ckm_i_ref_load(ckm_i_ref_input(&r, 0), from, i);                                      \
            ckm_i_ref_store(ckm_i_ref_output(&r, 0), to, i, (value));                                              \
        }                                                                                                          \
        return CKM_OK;                                                                                             \
    }

MAP(neg, -x)
MAP(abs, fabs(x))
MAP(floor, floor(x))
MAP(ceil, ceil(x))
MAP(round, nearbyint(x))
MAP(sign, x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x)
MAP(not, x == 0.0)
MAP(is_nan, x != x)

#define ROW(name)                         \
    {                                     \
        CKM_I_OP_##name, NULL, run_##name \
    }

const ckm_i_reference_kernel ckm_i_ref_kernels_elementwise[] = {
    ROW(add),
    {CKM_I_OP_sum, NULL, run_add},
    ROW(sub),
    ROW(mul),
    ROW(div),
    ROW(pow),
    ROW(mod),
    ROW(minimum),
    ROW(maximum),
    ROW(mean),
    ROW(equal),
    ROW(less),
    ROW(less_or_equal),
    ROW(greater),
    ROW(greater_or_equal),
    ROW(and),
    ROW(or),
    ROW(xor),
    ROW(neg),
    ROW(abs),
    ROW(floor),
    ROW(ceil),
    ROW(round),
    ROW(sign),
    ROW(not ),
    ROW(is_nan),
    {0},
};
