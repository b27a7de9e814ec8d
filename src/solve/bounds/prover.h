// SPDX-License-Identifier: Apache-2.0
// A ladder of proofs of growing size, climbed in a child process while the caller searches.
#ifndef CKM_SRC_SOLVE_BOUNDS_PROVER_H
#define CKM_SRC_SOLVE_BOUNDS_PROVER_H

#include "solve/core/solver.h"
#include "solve/search/search_state.h"

typedef struct ckm_i_prover ckm_i_prover;

// What it climbs: relaxations only, or integer programs after them.
ckm_status ckm_i_prover_create(ckm_i_solver *solver, bool programs, ckm_i_prover **out, ckm_error *err) CKM_NODISCARD;
// Relaxations of schedules in any order of the graph within the budget: the solver's, or a reduced one whose bounds carry over to all
// schedules of it. Both are kept.
ckm_status ckm_i_prover_create_open(ckm_i_solver *solver, const ckm_dataflow *df, int64_t budget_bytes,
                                    ckm_i_prover **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_prover_free(ckm_i_prover *prover);

// Goes on for this many seconds, or until nothing is left or the solver should stop. One process at work at a time.
ckm_status ckm_i_prover_run(ckm_i_prover *prover, double seconds, ckm_error *err) CKM_NODISCARD;

// Nothing is at work, and nothing is left that the time allows.
bool ckm_i_prover_has_ended(const ckm_i_prover *prover);

// What the last relaxation would hold, once: the caller frees it with ckm_i_spans_free. NULL: nothing new.
ckm_i_spans *ckm_i_prover_take_rounded(ckm_i_prover *prover);

// From attach to detach, for this many seconds at most, it goes on concurrently with the strategy: whenever that calls
// ckm_i_solver_attend(), bounds and schedules are handed in and what is next is started. Attach starts the process that
// all of it runs in, so that nothing is forked while the strategy has threads; where there is no process to be had, it
// has nothing to do and says so in the log. Detach reports what went wrong.
ckm_status ckm_i_prover_attach(ckm_i_prover *prover, double seconds, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_prover_detach(ckm_i_prover *prover, ckm_error *err) CKM_NODISCARD;

#endif
