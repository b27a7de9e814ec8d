// SPDX-License-Identifier: Apache-2.0
// Functions in operations that vectorize, for loops that would otherwise call the C library for every element.
#ifndef CKM_SRC_RUN_CPU_CPU_MATH_H
#define CKM_SRC_RUN_CPU_CPU_MATH_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

// The bits of a number. Of unsigned integers: their sums may wrap.
static inline uint32_t ckm_i_cpu_bits(float x)
{
    union {
        float value;
        uint32_t bits;
    } both = {.value = x};
    return both.bits;
}

static inline float ckm_i_cpu_from_bits(uint32_t x)
{
    union {
        uint32_t bits;
        float value;
    } both = {.bits = x};
    return both.value;
}

// These functions must be inlined into every version of a loop, regardless of their size.
#define CKM_I_CPU_INLINE static inline __attribute__((always_inline))

// e to the power x is 2^n e^r: n is in the lowest bits of `shifted`, since adding 1.5 * 2^23 rounds to a whole number (a
// conversion to an integer, which may trap, would keep gcc 12 from vectorizing behind a choice), r is what remains, and e^r
// Taylor's polynomial on |r| <= ln 2 / 2 and a little more.
#define CKM_I_CPU_WHOLE 12582912.0F

CKM_I_CPU_INLINE float ckm_i_cpu_exp_parts(float x, float *shifted)
{
    *shifted = x * 1.44269504088896341F + CKM_I_CPU_WHOLE;
    float n = *shifted - CKM_I_CPU_WHOLE;
    float r = x - n * 0.693359375F - n * -2.12194440e-4F;
    return 1.0F + r * (1.0F + r * (0.5F + r * (1.0F / 6 + r * (1.0F / 24 + r * (1.0F / 120 + r * (1.0F / 720))))));
}

// e to the power x for x of at most a little more than 0, to about 2 units in the last place; 0 below -87. What is not a
// number stays so.
CKM_I_CPU_INLINE float ckm_i_cpu_exp_negative(float x)
{
    const float low = -87.0F;
    float shifted;
    float p = ckm_i_cpu_exp_parts(x < low ? low : x, &shifted);
    float result = p * ckm_i_cpu_from_bits((ckm_i_cpu_bits(shifted) + 127U) << 23);
    return x < low ? 0.0F : result;
}

// The same for every x, infinite and subnormal results included: 2^n in two factors.
CKM_I_CPU_INLINE float ckm_i_cpu_exp(float x)
{
    const float low = -104.0F;  // e^-104 rounds to 0, e^89 is infinite
    const float high = 89.0F;
    float bounded = x < low ? low : x;
    float shifted;
    float p = ckm_i_cpu_exp_parts(bounded > high ? high : bounded, &shifted);
    uint32_t n = ckm_i_cpu_bits(shifted) - ckm_i_cpu_bits(CKM_I_CPU_WHOLE) + 254U;  // of n and twice the bias
    return p * ckm_i_cpu_from_bits(n / 2 << 23) * ckm_i_cpu_from_bits((n - n / 2) << 23);
}

// e to the power x, minus 1, for x <= 0: Taylor's polynomial where the difference would lose digits.
CKM_I_CPU_INLINE float ckm_i_cpu_expm1_negative(float x)
{
    float series = 1.0F / 120 + x * (1.0F / 720 + x * (1.0F / 5040 + x * (1.0F / 40320)));
    float near = x * (1.0F + x * (0.5F + x * (1.0F / 6 + x * (1.0F / 24 + x * series))));
    return x > -0.35F ? near : ckm_i_cpu_exp_negative(x) - 1.0F;
}

// 1 / (1 + e^-x) and 1 minus that, both without a difference.
CKM_I_CPU_INLINE float ckm_i_cpu_logistic(float x, float *rest)
{
    float e = ckm_i_cpu_exp_negative(-fabsf(x));
    float larger = 1.0F / (1.0F + e);
    float smaller = e * larger;
    *rest = x < 0.0F ? larger : smaller;
    return x < 0.0F ? smaller : larger;
}

// The natural logarithm, to about 3 units in the last place: x is 2^e m with m from sqrt(1/2) to sqrt(2), and ln m =
// 2 artanh s with s = (m - 1) / (m + 1), by its series. Minus infinity of 0, no number of what is below.
CKM_I_CPU_INLINE float ckm_i_cpu_log(float x)
{
    const uint32_t half = 0x3f3504f3U;      // the bits of sqrt(1/2)
    const bool tiny = x < 1.17549435e-38F;  // subnormal
    const float scaled = tiny ? x * 0x1p24F : x;
    const uint32_t above = ckm_i_cpu_bits(scaled) - half + (128U << 23);
    const float e = (float)(int32_t)(above >> 23) - (tiny ? 152.0F : 128.0F);
    const float f = ckm_i_cpu_from_bits((above & 0x7fffffU) + half) - 1.0F;
    const float s = f / (2.0F + f);
    const float z = s * s;
    const float rest = 2.0F * s * z * (1.0F / 3 + z * (1.0F / 5 + z * (1.0F / 7 + z * (1.0F / 9 + z / 11))));
    const float value = e * 0.693359375F + (2.0F * s + (rest + e * -2.12194440e-4F));
    const float end = x == 0.0F ? -INFINITY : x > 0.0F ? x : NAN;
    return ((x > 0.0F) & (x < INFINITY)) ? value : end;
}

// The error function: its series near 0, elsewhere Abramowitz and Stegun 1964, 7.1.26 (error below 2e-7).
CKM_I_CPU_INLINE float ckm_i_cpu_erf(float x)
{
    float a = fabsf(x);
    float s = x * x;
    float near = 1.12837916709551257F * x *
                 (1.0F - s * (1.0F / 3 - s * (0.1F - s * (1.0F / 42 - s * (1.0F / 216 - s / 1320)))));
    float t = 1.0F / (1.0F + 0.3275911F * a);
    float p = t * (0.254829592F + t * (-0.284496736F + t * (1.421413741F + t * (-1.453152027F + t * 1.061405429F))));
    float far = copysignf(1.0F - p * ckm_i_cpu_exp_negative(-s), x);
    return a < 0.5F ? near : far;
}

#endif
