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

typedef struct ckm_i_lower_rule {
    const char *kind;
    ckm_status (*run)(ckm_i_lower *l, ckm_error *err);
} ckm_i_lower_rule;

// The rule for a kind; kinds without one are copied with their attributes.
const ckm_i_lower_rule *ckm_i_lower_find(const char *kind);

// Adds an operator of l->kind with l->attrs named after the network's operator; n_outputs outputs, of which the
// first that the network has are entered in l->outputs.
ckm_status ckm_i_lower_emit(ckm_i_lower *l, const int32_t *inputs, int32_t n_inputs, int32_t n_outputs,
                            ckm_error *err) CKM_NODISCARD;

// Rules in files of their own.
ckm_status ckm_i_lower_conv(ckm_i_lower *l, ckm_error *err);
ckm_status ckm_i_lower_conv_transpose(ckm_i_lower *l, ckm_error *err);
ckm_status ckm_i_lower_separable_conv(ckm_i_lower *l, ckm_error *err);
ckm_status ckm_i_lower_pool(ckm_i_lower *l, ckm_error *err);
ckm_status ckm_i_lower_max_pool(ckm_i_lower *l, ckm_error *err);

#endif
