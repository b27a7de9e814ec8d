// SPDX-License-Identifier: Apache-2.0
// Networks of one or a few operators, written as kernel scripts (kernel_script.h), whose gradients by the reference
// kernels are compared with central differences of the loss.
#ifndef CKM_TESTS_SUPPORT_GRADIENT_CHECK_H
#define CKM_TESTS_SUPPORT_GRADIENT_CHECK_H

#include <checkmate/autodiff.h>

typedef struct gradient_case {
    const char *script;  // kinds of the network; float inputs are parameters, others constants
    double scale;        // of the numbers in inputs without ":+"; 0 means 1
    double step;         // of the differences; 0 means 1e-3. Inputs keep their distance from each other and from 0
    double tolerance;    // of the largest element of each gradient; 0 means 2e-3
    ckm_loss_kind loss;  // 0 is cross-entropy
} gradient_case;

// Derives the training graph, runs it with the reference kernels on a target that is not the output, and checks
//  - every parameter's gradient against differences of the loss,
//  - that every operator gives the same bits with other buffers and other content of its workspace,
//  - and with every in-place pair that the training graph declares sharing one buffer.
// Fails the running test, naming the script.
void gradient_check(const gradient_case *c, ckm_layout layout);

#endif
