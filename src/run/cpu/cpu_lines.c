// SPDX-License-Identifier: Apache-2.0
#include "run/cpu/cpu_lines.h"

#include <string.h>

#include "run/cpu/cpu_math.h"

// Sums of BLOCK numbers are in single precision; these are added up in double precision.
enum { BLOCK = 256, LANES = 16 };

// Lines side by side in memory: the loop over lines is the inner one.
CKM_I_CPU_CLONES static void find_tops(const float *x, int64_t n, int64_t axis, int64_t step, ckm_i_cpu_lines *out)
{
    memcpy(out->top, x, (size_t)n * sizeof *x);
    memset(out->place, 0, sizeof out->place);
    for (int64_t k = 1; k < axis; k++) {
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < n; i++) {
            bool larger = x[k * step + i] > out->top[i];
            out->top[i] = larger ? x[k * step + i] : out->top[i];
            out->place[i] = larger ? (int32_t)k : out->place[i];
        }
    }
}

CKM_I_CPU_CLONES static void add_exponentials(const float *x, int64_t n, int64_t rows, int64_t step, const float *top,
                                              float *to, float *sum)
{
    for (int64_t k = 0; k < rows; k++) {
        if (to == NULL) {
            CKM_I_CPU_SIMD
            for (int64_t i = 0; i < n; i++) {
                sum[i] += ckm_i_cpu_exp_negative(x[k * step + i] - top[i]);
            }
            continue;
        }
        CKM_I_CPU_SIMD
        for (int64_t i = 0; i < n; i++) {
            float e = ckm_i_cpu_exp_negative(x[k * step + i] - top[i]);
            to[k * step + i] = e;
            sum[i] += e;
        }
    }
}

static void measure_side_by_side(const float *x, int64_t n, int64_t axis, int64_t step, float *to, ckm_i_cpu_lines *out)
{
    find_tops(x, n, axis, step, out);
    memset(out->sum, 0, sizeof out->sum);
    for (int64_t k = 0; k < axis; k += BLOCK) {
        float sum[CKM_I_CPU_LINES] = {0};
        add_exponentials(x + k * step, n, axis - k < BLOCK ? axis - k : BLOCK, step, out->top,
                         to != NULL ? to + k * step : NULL, sum);
        for (int64_t i = 0; i < n; i++) {
            out->sum[i] += (double)sum[i];
        }
    }
}

// Lines one after the other: the loop along the line is the inner one, its sums in lanes.
CKM_I_CPU_CLONES static double add_row(const float *x, float top, int64_t n, float *to)
{
    float lane[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        CKM_I_CPU_SIMD
        for (int j = 0; j < LANES; j++) {
            float e = ckm_i_cpu_exp_negative(x[k + j] - top);
            lane[j] += e;
            if (to != NULL) {
                to[k + j] = e;
            }
        }
    }
    for (int j = 0; k < n; k++, j++) {
        float e = ckm_i_cpu_exp_negative(x[k] - top);
        lane[j] += e;
        if (to != NULL) {
            to[k] = e;
        }
    }
    double sum = 0.0;
    for (int j = 0; j < LANES; j++) {
        sum += (double)lane[j];
    }
    return sum;
}

CKM_I_CPU_CLONES static float top_of_row(const float *x, int64_t n)
{
    float lane[LANES];
    float top = x[0];
    int64_t k = 0;
    for (int j = 0; j < LANES; j++) {
        lane[j] = top;
    }
    for (; k + LANES <= n; k += LANES) {
        CKM_I_CPU_SIMD
        for (int j = 0; j < LANES; j++) {
            lane[j] = x[k + j] > lane[j] ? x[k + j] : lane[j];
        }
    }
    for (int j = 0; j < LANES; j++) {
        top = lane[j] > top ? lane[j] : top;
    }
    for (; k < n; k++) {
        top = x[k] > top ? x[k] : top;
    }
    return top;
}

static void measure_row(const float *x, int64_t n, float *to, ckm_i_cpu_lines *out, int64_t i)
{
    const float top = top_of_row(x, n);
    double sum = 0.0;
    int64_t place = 0;
    while (to == NULL && top == top && x[place] != top) {  // where x[0] is NaN, that is the top
        place++;
    }
    for (int64_t k = 0; k < n; k += BLOCK * LANES) {
        int64_t rest = n - k;
        sum += add_row(x + k, top, rest < BLOCK * LANES ? rest : BLOCK * LANES, to != NULL ? to + k : NULL);
    }
    out->top[i] = top;
    out->place[i] = (int32_t)place;
    out->sum[i] = sum;
}

int64_t ckm_i_cpu_next_lines(const ckm_i_cpu_around *a, int64_t line, int64_t end, int64_t *at)
{
    int64_t n = end - line < CKM_I_CPU_LINES ? end - line : CKM_I_CPU_LINES;
    if (a->inner > 1 && n > a->inner - line % a->inner) {
        n = a->inner - line % a->inner;
    }
    *at = line / a->inner * a->axis * a->inner + line % a->inner;
    return n;
}

void ckm_i_cpu_measure_lines(const ckm_i_cpu_around *a, const float *x, int64_t n, float *exponentials,
                             ckm_i_cpu_lines *out)
{
    if (a->inner > 1) {
        measure_side_by_side(x, n, a->axis, a->inner, exponentials, out);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        measure_row(x + i * a->axis, a->axis, exponentials != NULL ? exponentials + i * a->axis : NULL, out, i);
    }
}
