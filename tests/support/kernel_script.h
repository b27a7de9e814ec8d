// SPDX-License-Identifier: Apache-2.0
// Step graphs written as one line of text, run on a back end and compared with the reference kernels. A script is a
// list of statements separated by ';':
//     in 2x8x8x3          an input of this shape with numbers in [-1, 1) and other ranges; tensors count from 0 in order
//     in 2x8:+            numbers in [0.5, 1.5) and other positive ones
//     in 4:i10            int32 in [-1, 10), -1 meaning no label
//     in 2x8:b            booleans, most of them true
//     conv 0 1 - > 1 strides=2,2 epsilon=1e-5 mode=linear inplace=0/0,1/0
//                         an operator on these tensors (- is absent); after ">" the number of outputs; values are integers, reals
//                         (with a point or an exponent) or words; inplace lists pairs input/output
#ifndef CKM_TESTS_SUPPORT_KERNEL_SCRIPT_H
#define CKM_TESTS_SUPPORT_KERNEL_SCRIPT_H

#include "kernel_ranges.h"
#include "run/cpu/ref_registry.h"

#define KERNEL_SCRIPT_OPS 12
#define KERNEL_SCRIPT_TENSORS 64

typedef struct kernel_script {
    ckm_graph *graph;
    char *text;  // attribute keys point into it
    struct {
        enum { KERNEL_FILL_SIGNED, KERNEL_FILL_POSITIVE, KERNEL_FILL_LABELS, KERNEL_FILL_BOOLEANS } kind;
        int64_t limit;
    } fill[KERNEL_SCRIPT_TENSORS];
    int32_t n_pairs[KERNEL_SCRIPT_OPS];
    int32_t pairs[KERNEL_SCRIPT_OPS][8][2];
} kernel_script;

// Fails the running test, naming the script, when it cannot be read.
void kernel_script_read(kernel_script *s, const char *text, ckm_layout layout);
void kernel_script_free(kernel_script *s);

// The number of threads with which a script is tried on all ranges of numbers that its operators distinguish
// (kernel_ranges.h), and not on ordinary ones alone.
#define KERNEL_SCRIPT_SPANS 2

// Runs every operator on the "cpu" back end with `threads` threads and on the reference, from the same inputs:
// outputs and changed inputs agree within `tolerance` of the largest value; inputs are otherwise left alone; nothing
// is written outside of outputs and workspace; a second run with other buffers and another workspace content gives
// the same bits, and so does each in-place pair.
void kernel_script_check(const char *text, ckm_layout layout, int threads, double tolerance);

// How far from the wanted number one may be: a part of the largest finite one or, with `each`, of the number itself, as if these
// were at least `floor`. With the part 0, zeros have the same sign.
typedef struct kernel_tolerance {
    double part, floor;
    bool each;
} kernel_tolerance;

// The first number that is farther off, or n. Where what is wanted is infinite or none, so is what there is.
size_t kernel_script_first_difference(const float *got, const float *wanted, size_t n, const kernel_tolerance *t);

// Whether the operator of the last statement runs on a kernel of the "cpu" back end and not on the reference.
bool kernel_script_is_own(const char *text, ckm_layout layout);

#endif
