// SPDX-License-Identifier: Apache-2.0
// Training graph, internal view: operators over values, each referring to the network operator it comes
// from. Autodiff makes it, cost/ gives it costs and bytes.
#ifndef CKM_SRC_GRAPH_TRAINING_H
#define CKM_SRC_GRAPH_TRAINING_H

#include "graph/graph.h"

typedef enum ckm_i_phase { CKM_I_FORWARD, CKM_I_LOSS, CKM_I_BACKWARD, CKM_I_UPDATE } ckm_i_phase;

typedef struct ckm_i_training_value {
    char *name;
    int64_t bytes;
    int32_t alias_of;  // value whose storage this one views, or -1
} ckm_i_training_value;

typedef struct ckm_i_training_op {
    char *name;
    ckm_i_phase phase;
    int32_t source;           // operator of the network, or -1 (loss, sums of gradients, updates)
    bool once;                // must not be computed again: it would see what an update has changed
    int64_t workspace_bytes;  // 0 until a back end's `prepare` has said what the operator needs while it runs
    int32_t n_inputs, n_outputs, n_inplace;
    int32_t *inputs, *outputs;  // values; the inputs are distinct and present
    int32_t (*inplace)[2];      // pairs (input, output) that a kernel may put into one buffer
} ckm_i_training_op;

struct ckm_training {
    const ckm_graph *graph;  // the network, borrowed
    ckm_graph *step;         // op level: owned; value i is step tensor i, operator v is step operator v. Else NULL
    char *name;
    int64_t fixed_bytes;
    int32_t n_values, cap_values, n_ops, cap_ops, n_results, cap_results;
    ckm_i_training_value *values;
    ckm_i_training_op *ops;
    int32_t *results;  // values that must be there when the step ends
    // Values of the op level, -1 where there is none: the loss (a scalar), the number of samples predicted right
    // (a scalar int32), what the loss compares with (role INPUT: int32 labels or a float target).
    int32_t loss, correct, labels;
};

ckm_status ckm_i_training_create(const ckm_graph *graph, const char *name, ckm_training **out,
                                 ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_training_add_value(ckm_training *t, const char *name, int64_t bytes, int32_t alias_of, int32_t *index,
                                    ckm_error *err) CKM_NODISCARD;
// An operator to be added; everything is copied. Members as in ckm_i_training_op.
typedef struct ckm_i_new_training_op {
    const char *name;
    ckm_i_phase phase;
    int32_t source;
    ckm_i_tensor_list inputs, outputs;
} ckm_i_new_training_op;
ckm_status ckm_i_training_add_op(ckm_training *t, const ckm_i_new_training_op *op, ckm_error *err) CKM_NODISCARD;
// Declares that operator `op` may write value `out` over value `in`.
ckm_status ckm_i_training_add_inplace(ckm_training *t, int32_t op, int32_t in, int32_t out,
                                      ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_training_add_result(ckm_training *t, int32_t value, ckm_error *err) CKM_NODISCARD;
// Bytes an operator needs while it runs, as a back end says.
ckm_status ckm_i_training_set_workspace(ckm_training *t, int32_t op, int64_t bytes, ckm_error *err) CKM_NODISCARD;

#endif
