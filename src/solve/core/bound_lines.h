// SPDX-License-Identifier: Apache-2.0
// What the multipliers found for one budget prove for others: straight lines over the budget (docs/THEORY.md, "Bounds for other budgets").
#ifndef CKM_SRC_SOLVE_CORE_BOUND_LINES_H
#define CKM_SRC_SOLVE_CORE_BOUND_LINES_H

#include "base/error.h"

// A bound on the cost for a budget of b units: down + down_slope * (at - b) below `at`, up - up_slope * (b - at) above it.
typedef struct ckm_i_bound_line {
    int64_t at_bytes, unit_bytes;
    double down, down_slope, up, up_slope;  // slopes per unit; up: -INFINITY where nothing is proven
    int64_t cost_gcd;
} ckm_i_bound_line;

typedef struct ckm_i_bound_lines {
    int32_t n, cap;
    ckm_i_bound_line *at;
} ckm_i_bound_lines;

// Without memory for it, the line is left out.
void ckm_i_bound_lines_add(ckm_i_bound_lines *lines, const ckm_i_bound_line *line);
void ckm_i_bound_lines_dispose(ckm_i_bound_lines *lines);
// The largest bound that they prove for a budget, rounded as bounds are; NAN: none.
double ckm_i_bound_lines_for(const ckm_i_bound_lines *lines, int64_t budget_bytes);

#endif
