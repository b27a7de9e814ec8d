// SPDX-License-Identifier: Apache-2.0
// From the network's operators to those of a step graph: the normal form of OPERATORS.md.
#ifndef CKM_SRC_AUTODIFF_LOWER_H
#define CKM_SRC_AUTODIFF_LOWER_H

#include "autodiff/step.h"

// One operator of the network while it is lowered. A rule changes `kind` and `attrs` and calls ckm_i_lower_emit,
// or adds several operators and sets `outputs`.
typedef struct ckm_i_lower {
    ckm_i_step *step;
    const ckm_i_graph_op *op;  // of the network
    ckm_i_op_view view;        // of the network
    int32_t n_inputs, n_outputs;
    int32_t *inputs;   // the operator's, as tensors of the step graph
    int32_t *outputs;  // to fill in: one for each output of the network's operator; -1: not to be had
    const char *kind;
    ckm_i_attrs attrs;
    const char *activation;  // fused, to follow; NULL: none
} ckm_i_lower;

// Operator records name their rule; kinds without one are copied with their attributes.
typedef ckm_status ckm_i_lower_rule(ckm_i_lower *l, ckm_error *err);
ckm_i_lower_rule ckm_i_lower_copy;

// Adds an operator of l->kind with l->attrs named after the network's operator; n_outputs outputs, of which the
// first that the network has are entered in l->outputs.
ckm_status ckm_i_lower_emit(ckm_i_lower *l, const int32_t *inputs, int32_t n_inputs, int32_t n_outputs,
                            ckm_error *err) CKM_NODISCARD;

ckm_i_lower_rule ckm_i_lower_conv, ckm_i_lower_conv_transpose, ckm_i_lower_separable_conv, ckm_i_lower_max_pool,
    ckm_i_lower_pool, ckm_i_lower_dense, ckm_i_lower_product, ckm_i_lower_batch_norm, ckm_i_lower_layer_norm,
    ckm_i_lower_group_norm, ckm_i_lower_rms_norm, ckm_i_lower_rotary, ckm_i_lower_border, ckm_i_lower_pad,
    ckm_i_lower_up_sampling, ckm_i_lower_interp, ckm_i_lower_resize, ckm_i_lower_lambda, ckm_i_lower_dropout,
    ckm_i_lower_attention, ckm_i_lower_clip, ckm_i_lower_cast, ckm_i_lower_wide, ckm_i_lower_sum, ckm_i_lower_mean,
    ckm_i_lower_concat, ckm_i_lower_last_axis, ckm_i_lower_first_axis, ckm_i_lower_top_k, ckm_i_lower_transpose,
    ckm_i_lower_reshape, ckm_i_lower_blocks, ckm_i_lower_cumulative_sum, ckm_i_lower_reduce;

#endif
