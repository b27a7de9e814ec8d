// SPDX-License-Identifier: Apache-2.0
// The three linear maps of a convolution: forward, and backward to the data and to the weights. A transposed
// convolution is the second of them run forwards.
#ifndef CKM_SRC_RUN_CPU_REF_CONV_CORE_H
#define CKM_SRC_RUN_CPU_REF_CONV_CORE_H

#include "run/cpu/ref_window.h"

typedef struct ckm_i_ref_conv {
    ckm_i_ref_window window;  // over x, one position for each of y
    int64_t groups;
} ckm_i_ref_conv;

// `x` is what the windows slide over, `y` has a position a window; weight k…,I,O or O,I,k….
ckm_i_ref_conv ckm_i_ref_conv_read(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_shape *x,
                                   const ckm_shape *y, const ckm_shape *weight);
int64_t ckm_i_ref_conv_workspace(const ckm_i_ref_conv *c);

void ckm_i_ref_conv_forward(const ckm_i_ref_conv *c, const float *x, const float *weight, float *y, void *workspace);
void ckm_i_ref_conv_data(const ckm_i_ref_conv *c, const float *dy, const float *weight, float *dx, void *workspace);
void ckm_i_ref_conv_weights(const ckm_i_ref_conv *c, const float *x, const float *dy, float *dweight, void *workspace);

#endif
