// SPDX-License-Identifier: Apache-2.0
// The forward part of a graph as a sequence of blocks, with what a dynamic program over it needs to know.
#ifndef CKM_SRC_SOLVE_CHAIN_CHAIN_BLOCKS_H
#define CKM_SRC_SOLVE_CHAIN_CHAIN_BLOCKS_H

#include "solve/checkpoints/checkpoints.h"

// A cut is a position that no edge of the forward part passes by. Block k is cut k, whose outputs are state k, and the
// positions up to the next cut. On a chain every block is one operator.
typedef struct ckm_i_block {
    int32_t start, end;    // positions start .. end - 1
    int32_t first, last;   // stages of the operators that unwind it; first > last: none does
    int64_t reach;         // cost of computing state k from nothing
    int64_t inner;         // cost of the block's other operators
    int64_t state_bytes;   // of state k
    int64_t whole_bytes;   // of state k and everything in the block that is read when it is unwound
    int64_t pass_bytes;    // peak on the way from state k to state k + 1, state k included
    int64_t around_bytes;  // everything else while the block is unwound, at most; resident bytes included
    int64_t before_bytes;  // everything else when the first stage begins
} ckm_i_block;

typedef struct ckm_i_blocks {
    const ckm_i_forward *fw;
    int32_t n;
    ckm_i_block *at;
    int32_t top;    // the last block that is unwound, -1: none
    bool is_chain;  // every block is one operator
} ckm_i_blocks;

// At most `most` blocks: with more cuts, only every few of them count. Bytes assume that what is not forward is kept
// while it is used; views count as their storage.
ckm_status ckm_i_blocks_create(const ckm_i_forward *fw, int32_t most, ckm_i_blocks *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_blocks_dispose(ckm_i_blocks *blocks);

#endif
