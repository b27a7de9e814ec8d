// SPDX-License-Identifier: Apache-2.0
// Several operators of the network as one of the step graph, where that one keeps less for the backward pass. The
// network itself is not changed.
#ifndef CKM_SRC_AUTODIFF_FUSE_H
#define CKM_SRC_AUTODIFF_FUSE_H

#include "autodiff/step.h"

#define CKM_I_FUSED_INPUTS 5

// One operator in place of several.
typedef struct ckm_i_fused {
    int32_t root;   // operator of the network in whose place it stands and whose first output it gives
    int32_t named;  // and the one whose name it takes
    const char *kind;
    int32_t n_inputs, n_outputs;
    int32_t inputs[CKM_I_FUSED_INPUTS];    // tensors of the network, -1: absent
    ckm_shape shapes[CKM_I_FUSED_INPUTS];  // what they are reshaped to first
    bool draws;                            // it takes attribute `key`, which random numbers depend on
    ckm_i_attrs attrs;
} ckm_i_fused;

// The input of the pattern search: the operators that the loss depends on, and the readers of their outputs.
typedef struct ckm_i_fuse {
    const ckm_graph *graph;
    const bool *live;
    int32_t *n_readers;  // one a tensor: how often live operators read it
    int32_t *reader;     // and the last of them
    int32_t n, cap;
    ckm_i_fused *items;  // in the order of their roots
    int32_t *item_of;    // one an operator of the network: the item that replaces it, or -1
} ckm_i_fuse;

// Finds all patterns. `outputs` are the network's, which stay.
ckm_status ckm_i_fuse_init(ckm_i_fuse *f, const ckm_graph *graph, const bool *live, const int32_t *outputs,
                           int32_t n_outputs, ckm_error *err) CKM_NODISCARD;
void ckm_i_fuse_dispose(ckm_i_fuse *f);

// Patterns: whether one begins at operator `op`, and then what replaces it.
typedef bool ckm_i_fuse_pattern(const ckm_i_fuse *f, int32_t op, ckm_i_fused *out);
ckm_i_fuse_pattern ckm_i_fuse_attention;
ckm_i_fuse_pattern ckm_i_fuse_gelu;
ckm_i_fuse_pattern ckm_i_fuse_gelu_tanh;
ckm_i_fuse_pattern ckm_i_fuse_swish;

// ---- for patterns

// The operator that gives `tensor`, if it is its first output; else NULL.
const ckm_i_graph_op *ckm_i_fuse_producer(const ckm_i_fuse *f, int32_t tensor);
static inline bool ckm_i_fuse_is(const ckm_i_graph_op *op, ckm_i_op_kind kind)
{
    return op != NULL && op->op_class->id == kind;
}
// The only operator that reads `tensor`, once; -1 when there are more, or none.
int32_t ckm_i_fuse_only_reader(const ckm_i_fuse *f, int32_t tensor);
// The value of a tensor that is one known number.
bool ckm_i_fuse_number(const ckm_i_fuse *f, int32_t tensor, double *value);
// Is `op` y = factor x, with the result of x's shape? Then which x, and the factor.
bool ckm_i_fuse_scaled(const ckm_i_fuse *f, const ckm_i_graph_op *op, int32_t *x, double *factor);
// Is `op` of this kind with two operands, one of which is `tensor`? Then the other one.
bool ckm_i_fuse_other(const ckm_i_graph_op *op, ckm_i_op_kind kind, int32_t tensor, int32_t *other);

#endif
