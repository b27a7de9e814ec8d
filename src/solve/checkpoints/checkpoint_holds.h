// SPDX-License-Identifier: Apache-2.0
// What a strategy wants to hold from stage to stage: as rows of bits where the graph is small, and as a list of spans
// where matrices, which take memory and time in the square of the operators, would not do. What is computed again follows.
#ifndef CKM_SRC_SOLVE_CHECKPOINTS_CHECKPOINT_HOLDS_H
#define CKM_SRC_SOLVE_CHECKPOINTS_CHECKPOINT_HOLDS_H

#include "solve/core/solver.h"

// Matrices of graphs of more operators than this are not made.
#define CKM_I_MATRIX_MAX_OPS 8192

typedef struct ckm_i_hold {
    int32_t tensor, first, last;  // rows of S
} ckm_i_hold;

typedef struct ckm_i_holds {
    const ckm_dataflow *df;
    ckm_i_stages *stages;  // the bits go here; NULL: spans go to the list
    int64_t n, cap;
    ckm_i_hold *at;
    bool failed;    // memory ran out
    bool too_many;  // more spans than a schedule worth having has: the rest is not listed
} ckm_i_holds;

// Holds tensor x in rows first..last, those of them in which that is possible.
void ckm_i_holds_add(ckm_i_holds *holds, int32_t x, int32_t first, int32_t last);
// Empties the list and frees it. The stages are the caller's.
void ckm_i_holds_dispose(ckm_i_holds *holds);

// The schedule of what the list says: in every stage what it newly holds and its own operator need, each tensor freed
// after its last use. *out is NULL where it would compute more than eight times as many operators as there are, or `stop`
// said so. O(spans log spans + computations + edges).
ckm_status ckm_i_holds_schedule(ckm_i_holds *holds, ckm_stop_fn stop, void *user, ckm_schedule **out,
                                ckm_error *err) CKM_NODISCARD;

// Hands in what is held: the matrices as they are (ckm_i_solver_offer would drop what is held in vain), R in them already;
// or the schedule of the list. *peak_bytes (may be NULL): -1 where there is none.
ckm_status ckm_i_holds_offer(ckm_i_solver *solver, ckm_i_holds *holds, const char *source, int64_t *peak_bytes,
                             ckm_error *err) CKM_NODISCARD;

#endif
