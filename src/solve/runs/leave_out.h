// SPDX-License-Identifier: Apache-2.0
// Less computation in a schedule of whatever class.
#ifndef CKM_SRC_SOLVE_LEAVE_OUT_H
#define CKM_SRC_SOLVE_LEAVE_OUT_H

#include "solve/core/solver.h"

// Where the best schedule is not frontier-advancing, so that no search could work on it, as those of the reverse pebble
// game are not: leaves computations out one after the other as long as the rest fits the budget, what they made before
// being held until then; those that save most for the bytes and steps held first. What is cheaper is handed in. Ends at
// the deadline, or a little after it where that has passed. O(steps) for each computation that is tried.
ckm_status ckm_i_leave_out(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

// The same of a schedule that fits the budget, by a profile of memory alone: in time nearly proportional to its length. What
// is cheaper than the best is handed in.
ckm_status ckm_i_leave_out_of(ckm_i_solver *solver, const ckm_schedule *s, const char *source,
                              ckm_error *err) CKM_NODISCARD;

#endif
