// SPDX-License-Identifier: Apache-2.0
// Kernels against formulas in double precision: numbers of all kinds, what is wanted with the magnitudes that it is made
// of, and both back ends run on them.
#ifndef CKM_TESTS_SUPPORT_FORMULA_CHECK_H
#define CKM_TESTS_SUPPORT_FORMULA_CHECK_H

#include "kernel_script.h"

enum { FORMULA_MOST = 4096, FORMULA_RESULTS = 3 };

typedef enum formula_range {
    UNIT,
    WIDE,  // exponentials of differences leave the range of floats
    ZEROS,
    SUBNORMAL,
    TIES,
    SHIFTED,    // far from 0, near each other
    BIG,        // squares are in the range of floats, but little else
    LARGE,      // squares leave it
    HUGE_ONES,  // sums do
    HIDDEN,     // -infinity among others, as masks have it
    HOLES,      // infinities and NaN here and there
    N_RANGES
} formula_range;

uint64_t formula_mixed(uint64_t x);
float formula_number(formula_range r, uint64_t seed, int i);
void formula_fill(float *x, int n, formula_range r, uint64_t seed);

// Rounding errors are parts of `size`.
typedef struct formula_wanted {
    int n;
    double value[FORMULA_MOST], size[FORMULA_MOST];
} formula_wanted;

void formula_want(formula_wanted *w, int i, double value, double size);
// Not finite: infinite or NaN, as the kernel likes.
void formula_want_no_number(formula_wanted *w, int i);
// `lost`: numbers below it may be 0.
void formula_compare(const char *what, const float *got, const formula_wanted *w, double lost);

typedef struct formula_operands {
    const void *in[5];
    float out[FORMULA_RESULTS][FORMULA_MOST];
} formula_operands;

// The last operator of a script on a back end.
void formula_run(const char *backend_name, const char *script, ckm_layout layout, formula_operands *o);
// On the reference and on "cpu", with the first `n` outputs compared.
void formula_check(const char *script, ckm_layout layout, formula_range r, formula_operands *o, const formula_wanted *w,
                   int n, double lost);
const char *formula_range_name(formula_range r);

#endif
