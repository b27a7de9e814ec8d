// SPDX-License-Identifier: Apache-2.0
// What single cuts prove (single_cut.h), at once and for graphs of any size, and a schedule out of the best of them.
#ifndef CKM_SRC_SOLVE_BOUNDS_FIRST_BOUND_H
#define CKM_SRC_SOLVE_BOUNDS_FIRST_BOUND_H

#include "solve/core/solver.h"
#include "solve/search/search_state.h"

// Tries places for a cut for about so many seconds, at least one, and hands in what they prove. *rounded is what the best of
// them would hold, for ckm_i_spans_free, or NULL where none proves anything.
ckm_status ckm_i_first_bound(ckm_i_solver *solver, double seconds, ckm_i_spans **rounded, ckm_error *err) CKM_NODISCARD;

// Brings spans within the budget, for at most so many seconds, and hands in the schedule where that works.
ckm_status ckm_i_first_schedule(ckm_i_solver *solver, const ckm_i_spans *spans, double seconds,
                                ckm_error *err) CKM_NODISCARD;

#endif
