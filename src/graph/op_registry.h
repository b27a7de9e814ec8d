// SPDX-License-Identifier: Apache-2.0
// The operator groups. A group X is a file src/ops/<family>/op_X.c that defines the table ckm_i_ops_X, one row a kind, ended
// by a row whose kind is NULL.
#ifndef CKM_SRC_GRAPH_OP_REGISTRY_H
#define CKM_SRC_GRAPH_OP_REGISTRY_H

#include "graph/graph.h"

#define CKM_I_OP_GROUP_DECLARE(group) extern const ckm_i_op_class ckm_i_ops_##group[];
CKM_I_OP_GROUPS(CKM_I_OP_GROUP_DECLARE)
#undef CKM_I_OP_GROUP_DECLARE

#endif
