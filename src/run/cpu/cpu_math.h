// SPDX-License-Identifier: Apache-2.0
// Functions in operations that vectorize, for loops that would otherwise call the C library for every element.
#ifndef CKM_SRC_RUN_CPU_CPU_MATH_H
#define CKM_SRC_RUN_CPU_CPU_MATH_H

#include <math.h>
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

// e to the power x for x <= 0, to about 2 units in the last place: 2^n times a polynomial in the rest (Taylor's, on
// |r| <= ln 2 / 2 and a little more). Below -87 as at -87, where it is 1.6e-38. Adding 1.5 * 2^23 rounds to a whole
// number, which then is in the lowest bits; a conversion to an integer, which may trap, would keep gcc 12 from
// vectorizing behind the choice of x.
static inline float ckm_i_cpu_exp_negative(float x)
{
    const float low = -87.0F;
    const float whole = 12582912.0F;
    x = x > low ? x : low;
    float shifted = x * 1.44269504088896341F + whole;
    float n = shifted - whole;
    float r = x - n * 0.693359375F - n * -2.12194440e-4F;
    float p = 1.0F + r * (1.0F + r * (0.5F + r * (1.0F / 6 + r * (1.0F / 24 + r * (1.0F / 120 + r / 720)))));
    return p * ckm_i_cpu_from_bits((ckm_i_cpu_bits(shifted) + 127U) << 23);
}

// The error function: its series near 0, elsewhere Abramowitz and Stegun 1964, 7.1.26 (error below 2e-7).
static inline float ckm_i_cpu_erf(float x)
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
