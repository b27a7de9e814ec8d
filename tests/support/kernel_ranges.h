// SPDX-License-Identifier: Apache-2.0
// Numbers that operators distinguish. kernel_script.h fills the operands of a script with them, one range after the other; which
// ranges a kind takes is in the table of kernel_ranges.c. A kind that the table leaves out is taken at its record's word: one
// that computes element by element takes every number there is, all others take what sums take.
#ifndef CKM_TESTS_SUPPORT_KERNEL_RANGES_H
#define CKM_TESTS_SUPPORT_KERNEL_RANGES_H

#include "graph/graph.h"

typedef enum kernel_range {
    KERNEL_RANGE_UNIT,    // [-1, 1), or [0.5, 1.5)
    KERNEL_RANGE_EVERY,   // breakpoints and their neighbours, both zeros, subnormal, huge and infinite numbers, NaN
    KERNEL_RANGE_SCORES,  // hundreds apart, the largest more than once, some minus infinity
    KERNEL_RANGE_TIES,    // a few different numbers, both zeros among them
    KERNEL_RANGE_LARGE,   // up to 4096, of every magnitude below
    KERNEL_RANGE_SMALL,   // below 1e-6
    KERNEL_RANGE_HOLES,   // [-1, 1) with a few infinities and NaN
    KERNEL_RANGE_NANS,  // the same with NaN alone: where what infinite numbers give is an infinite one or NaN, or either
    KERNEL_RANGE_COUNT
} kernel_range;

const char *kernel_range_name(kernel_range range);

// Whether all operators of the script take the range.
bool kernel_ranges_apply(const ckm_graph *script, kernel_range range);

// How operands of a kind are compared: each number with a tolerance of its own, or all with that of the largest.
bool kernel_range_is_each(kernel_range range);
// In the first case: where the tolerance, a part of the number, stops shrinking. The least of the script's operators.
double kernel_ranges_floor(const ckm_graph *script);

// Element i of n of operand `tensor`, in the range; the operator that reads it and its real attributes decide. `positive`:
// greater than 0. `unit` is the element's number in the range UNIT.
float kernel_range_number(const ckm_graph *script, kernel_range range, int32_t tensor, int64_t i, int64_t n,
                          bool positive, float unit);

// The numbers that every operator is tried on, those of its attributes and their neighbours; returns how many, at most
// KERNEL_RANGE_POINTS.
#define KERNEL_RANGE_POINTS 400
int kernel_range_points(const ckm_i_graph_op *op, float *points);

#endif
