// SPDX-License-Identifier: Apache-2.0
// The exact search: the cheapest schedule of class CKM_BOUND_ORDER within the budget, and the proof that it is, of small graphs
// (docs/THEORY.md).
#ifndef CKM_SRC_SOLVE_RUNS_EXACT_H
#define CKM_SRC_SOLVE_RUNS_EXACT_H

#include "solve/core/solver.h"

typedef struct ckm_i_exact_result {
    bool is_done;        // the optimum is known, or that nothing fits; else time, memory or the caller has ended it
    bool is_infeasible;  // proven: no schedule of the class is within the budget
    int64_t
        bound_cost;  // no schedule of the class within the budget costs less; INT64_MAX: no number holds what it costs
    int64_t n_states, n_looked_at;
} ckm_i_exact_result;

// Searches until it is done, until the solver should stop, or until states take `most_bytes`; while they are moved to more room, it may
// be twice that. Hands in the schedule, the bound, and that nothing fits. No operator of the graph has more than 16 in-place pairs. O(moves * (operands + operators + tensors)) time.
ckm_status ckm_i_exact_run(ckm_i_solver *solver, int64_t most_bytes, ckm_i_exact_result *result,
                           ckm_error *err) CKM_NODISCARD;

#endif
