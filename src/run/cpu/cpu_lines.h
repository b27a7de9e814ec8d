// SPDX-License-Identifier: Apache-2.0
// Lines along an axis and the sums of their exponentials, for softmax and the loss. Line i of a tensor, outer x axis x inner,
// belongs to (i / inner, i % inner).
#ifndef CKM_SRC_RUN_CPU_CPU_LINES_H
#define CKM_SRC_RUN_CPU_CPU_LINES_H

#include "run/cpu/cpu_support.h"

// At a time.
#define CKM_I_CPU_LINES 64

typedef struct ckm_i_cpu_lines {
    float top[CKM_I_CPU_LINES];      // the largest number
    int32_t place[CKM_I_CPU_LINES];  // and its first place; not said where exponentials are asked for
    double sum[CKM_I_CPU_LINES];     // of e^(x - top)
} ckm_i_cpu_lines;

// How many lines from `line` on lie in one piece: at most CKM_I_CPU_LINES, at most to `end`, not beyond one outer element where
// lines are side by side. Their first number is at *at.
int64_t ckm_i_cpu_next_lines(const ckm_i_cpu_around *a, int64_t line, int64_t end, int64_t *at);

// Of n lines from x on, which lie in one piece. exponentials: where e^(x - top) goes (may be x), or NULL. A line with NaN has
// NaN for its sum, and so has one with plus infinity.
void ckm_i_cpu_measure_lines(const ckm_i_cpu_around *a, const float *x, int64_t n, float *exponentials,
                             ckm_i_cpu_lines *out);

#endif
