// SPDX-License-Identifier: Apache-2.0
// The three linear maps of a convolution: forward, and backward to the data and to the weights. A transposed
// convolution is the second of them run forwards.
#ifndef CKM_SRC_OPS_CONV_REF_CONV_CORE_H
#define CKM_SRC_OPS_CONV_REF_CONV_CORE_H

#include "run/cpu/ref_window.h"

typedef struct ckm_i_ref_conv {
    ckm_i_ref_window window;  // over x, one position for each of y
    int64_t groups;
} ckm_i_ref_conv;

// `x` is what the windows slide over, `y` has a position a window; weight k…,I,O or O,I,k….
ckm_i_ref_conv ckm_i_ref_conv_read(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_shape *x,
                                   const ckm_shape *y, const ckm_shape *weight);
int64_t ckm_i_ref_conv_workspace(const ckm_i_ref_conv *c);

// What an operator computes in these terms: which map, and which of its tensors is which. `large` is what windows slide
// over, `small` has a position for each.
typedef enum ckm_i_conv_map { CKM_I_CONV_FORWARD, CKM_I_CONV_TO_DATA, CKM_I_CONV_TO_WEIGHTS } ckm_i_conv_map;
typedef struct ckm_i_conv_port {
    bool is_output;
    int32_t index;
} ckm_i_conv_port;
typedef struct ckm_i_conv_role {
    ckm_i_op_kind kind;
    ckm_i_conv_map map;
    ckm_i_conv_port large, small, weight;
} ckm_i_conv_role;

// Of an operator of one of the six kinds of convolution.
const ckm_i_conv_role *ckm_i_conv_role_of(const ckm_i_graph_op *op);
ckm_i_ref_conv ckm_i_conv_read_as(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_i_conv_role *as);

void ckm_i_ref_conv_forward(const ckm_i_ref_conv *c, const float *x, const float *weight, float *y, void *workspace);
void ckm_i_ref_conv_data(const ckm_i_ref_conv *c, const float *dy, const float *weight, float *dx, void *workspace);
void ckm_i_ref_conv_weights(const ckm_i_ref_conv *c, const float *x, const float *dy, float *dweight, void *workspace);

#endif
