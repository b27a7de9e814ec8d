// SPDX-License-Identifier: Apache-2.0
// A training graph in as many parts as fit a page: blocks of a network, each with what it computes forwards and backwards.
#ifndef CKM_SRC_EMIT_EMIT_BLOCKS_H
#define CKM_SRC_EMIT_EMIT_BLOCKS_H

#include <checkmate/dataflow.h>

enum { CKM_I_EMIT_BLOCKS_MOST = 44 };

// Blocks follow each other in the order of the graph's forward operators, of which each has a stretch.
typedef struct ckm_i_emit_blocks {
    int32_t n;
    int32_t *of_op;         // the block of every operator
    int32_t *first, *last;  // of every block: its first and last forward operator
    int depth;              // parts of its operators' path that a block's name has; 0: the whole path of one operator
} ckm_i_emit_blocks;

// Operators belong together by the beginning of their path (the module, or the name up to a separator), as long as that
// leaves a sensible number of blocks; otherwise stretches of equal length do. A small graph has a block for every forward
// operator. O(operators * log operators + operands).
ckm_status ckm_i_emit_blocks_create(const ckm_dataflow *df, ckm_i_emit_blocks *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_emit_blocks_dispose(ckm_i_emit_blocks *b);

// "layers.3", or "conv_1 … relu_8" of a stretch that has no name.
const char *ckm_i_emit_blocks_name(const ckm_dataflow *df, const ckm_i_emit_blocks *b, int32_t block, char *text,
                                   size_t size);

// What an operator puts out, without views of other tensors.
int64_t ckm_i_emit_output_bytes(const ckm_dataflow *df, int32_t v);

#endif
