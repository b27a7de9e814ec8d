// SPDX-License-Identifier: Apache-2.0
// A graph without a second memory that stands for one with it: some storages come back by a read instead of their operator.
#ifndef CKM_SRC_SOLVE_MOVES_MOVES_GRAPH_H
#define CKM_SRC_SOLVE_MOVES_MOVES_GRAPH_H

#include "dataflow/dataflow.h"

// Of a chosen storage, the operator that makes it makes a copy instead that is never read, and a token without bytes; a read, right
// after it, makes the storage from the token alone, as often as asked for. Of a chosen storage that is loaded, a read stands for the load itself.
// Tensors have the numbers that they have in the graph, then come copies and tokens.
typedef struct ckm_i_moves_graph {
    const ckm_dataflow *df;
    ckm_dataflow *stand_in;
    int32_t *op_of;      // by operator of the stand-in: the graph's, or -1 for a read
    int32_t *read_of;    // by operator of the stand-in: the storage that it reads, or -1
    int32_t *tensor_of;  // by tensor of the stand-in: the graph's, also of a copy; -1 of a token
} ckm_i_moves_graph;

// Which storages can come back by a transfer: those whose owner is made by an operator, and nothing on them before. `can` has room
// for one a tensor. O(tensors).
void ckm_i_moves_which(const ckm_dataflow *df, bool *can);
// `price`, by storage: what a read of it costs in the stand-in, or -1 where it is not chosen. Only storages that can come back are.
ckm_status ckm_i_moves_graph_make(const ckm_dataflow *df, const int64_t *price, ckm_i_moves_graph *out,
                                  ckm_error *err) CKM_NODISCARD;
void ckm_i_moves_graph_dispose(ckm_i_moves_graph *m);

#endif
