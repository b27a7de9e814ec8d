// SPDX-License-Identifier: Apache-2.0
// The operator groups. A group X is a file src/ops/<family>/op_X.c that defines the table ckm_i_ops_X, one row a kind, ended
// by a row whose kind is NULL.
#ifndef CKM_SRC_GRAPH_OP_REGISTRY_H
#define CKM_SRC_GRAPH_OP_REGISTRY_H

#include "graph/graph.h"

// One line a group; the order does not matter, kinds are unique.
#define CKM_I_OP_GROUPS(X) \
    X(conv)                \
    X(dense)               \
    X(norm)                \
    X(activation)          \
    X(merge)               \
    X(pool)                \
    X(border)              \
    X(resize)              \
    X(basic)               \
    X(elementwise)         \
    X(matmul)              \
    X(einsum)              \
    X(reduce)              \
    X(layer_norm)          \
    X(movement)            \
    X(attention)           \
    X(masked_softmax)      \
    X(rms_norm)            \
    X(roll)                \
    X(rotary)              \
    X(time_embedding)      \
    X(window_bias)         \
    X(grad_conv)           \
    X(grad_norm)           \
    X(grad_pool)           \
    X(grad_movement)       \
    X(loss)                \
    X(update)

#define CKM_I_OP_GROUP_DECLARE(group) extern const ckm_i_op_class ckm_i_ops_##group[];
CKM_I_OP_GROUPS(CKM_I_OP_GROUP_DECLARE)
#undef CKM_I_OP_GROUP_DECLARE

#endif
