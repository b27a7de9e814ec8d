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
    int32_t source;  // operator of the network, or -1 (loss)
    int32_t n_inputs, n_outputs;
    int32_t *inputs, *outputs;  // values
} ckm_i_training_op;

struct ckm_training {
    const ckm_graph *graph;  // borrowed
    char *name;
    int64_t fixed_bytes;
    int32_t n_values, cap_values, n_ops, cap_ops;
    ckm_i_training_value *values;
    ckm_i_training_op *ops;
};

ckm_status ckm_i_training_create(const ckm_graph *graph, const char *name, ckm_training **out,
                                 ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_training_add_value(ckm_training *t, const char *name, int64_t bytes, int32_t alias_of, int32_t *index,
                                    ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_training_add_op(ckm_training *t, const char *name, ckm_i_phase phase, int32_t source,
                                 const int32_t *inputs, int32_t n_inputs, const int32_t *outputs, int32_t n_outputs,
                                 ckm_error *err) CKM_NODISCARD;

#endif
