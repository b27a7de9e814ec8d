// SPDX-License-Identifier: Apache-2.0
// Random changes of a sequence of runs.
#ifndef CKM_SRC_SOLVE_RUNS_RUNS_MOVES_H
#define CKM_SRC_SOLVE_RUNS_RUNS_MOVES_H

#include "base/rng.h"
#include "solve/runs/runs_state.h"

typedef struct ckm_i_runs_mover {
    ckm_i_runs *q;
    ckm_i_rng rng;
    int64_t *op_stamp, stamp;  // by operator: of those that touch a tensor, or are in the chain
    int32_t *held;             // tensors to choose from
    bool keeps_results;        // lets go of no result once it is made
} ckm_i_runs_mover;

ckm_status ckm_i_runs_mover_init(ckm_i_runs_mover *m, ckm_i_runs *q, uint64_t seed, ckm_error *err) CKM_NODISCARD;
void ckm_i_runs_mover_dispose(ckm_i_runs_mover *m);

// Writes a random change to q; false where the one that was drawn is none.
bool ckm_i_runs_draw(ckm_i_runs_mover *m);
// The same, more often where the budget is exceeded.
bool ckm_i_runs_draw_far(ckm_i_runs_mover *m);
// Leaves out all runs of a stretch but first ones: what they made is held instead, however much that is.
bool ckm_i_runs_draw_stretch(ckm_i_runs_mover *m);

#endif
