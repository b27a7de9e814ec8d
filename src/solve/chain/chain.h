// SPDX-License-Identifier: Apache-2.0
// Exact dynamic programs for chains: a lower bound for graphs whose forward part is a chain, and schedules for
// those and for sequences of blocks. docs/THEORY.md has the proofs.
#ifndef CKM_SRC_SOLVE_CHAIN_CHAIN_H
#define CKM_SRC_SOLVE_CHAIN_CHAIN_H

#include "solve/checkpoints/checkpoints.h"

// The chain at the beginning of a graph: operators 0..n-1, of which operator k reads what operator k-1 puts out
// and nothing else that takes memory. Its value is state k. States that are visited have an operator behind the
// chain that reads them and no earlier state; visits come in descending order of states.
typedef struct ckm_i_spine {
    int32_t n;
    int64_t *reach;      // n + 1: cost of operators 0..k-1
    int64_t *bytes;      // of state k
    int64_t *touched;    // bytes in memory when the visit of state k runs, fixed ones included
    int32_t *visit;      // the operator, or -1
    int32_t n_visits;    // 0: nothing is known about this graph
    bool order_is_free;  // the graph's edges alone put the visits in this order
} ckm_i_spine;

// O(edges * visits' distance). Release with ckm_i_spine_dispose, also when n_visits is 0.
ckm_status ckm_i_spine_find(const ckm_dataflow *df, ckm_i_spine *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_spine_dispose(ckm_i_spine *spine);

// Lower bound on the cost of a schedule that stays within the budget: exact arithmetic, valid for every legal
// schedule in which the visits come in order for the first time. At least the sum of all costs; INT64_MAX: none fits.
// Uniform sizes: attained by ckm_i_chain_schedule unless sweeps need more memory than visits. Time in proportion to
// n^3 times the levels memory is counted in: as many as `work` steps allow, at most CKM_I_CHAIN_WORK, which is about half a
// second. Fewer levels make it weaker. Gives the sum of costs for chains too long.
#define CKM_I_CHAIN_WORK INT64_C(400000000)
ckm_status ckm_i_chain_bound(const ckm_dataflow *df, const ckm_i_spine *spine, int64_t budget_bytes, int64_t work,
                             int64_t *cost, ckm_error *err) CKM_NODISCARD;

// Offers the best persistent schedules of the sequence of blocks that the forward part is (a chain: one operator a
// block), within memories that are corrected until the exact peak meets the budget.
ckm_status ckm_i_chain_schedule(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

// Both, for strategies that have them as one of their parts. Returns at once where neither applies.
ckm_status ckm_i_chain_run(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

// The forward part of a graph as a sequence of blocks, with what a dynamic program over it needs to know.

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
