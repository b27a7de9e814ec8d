// SPDX-License-Identifier: Apache-2.0
// The strategies that take next to no time.
#ifndef CKM_SRC_SOLVE_QUICK_H
#define CKM_SRC_SOLVE_QUICK_H

#include "solve/core/solver.h"

// The share of the time that the first of them, the slowest, has.
extern const double ckm_i_quick_first_share;

// Runs them on the solver's problem, one after the other, for so many seconds at most. Ends when the solver should stop.
ckm_status ckm_i_quick_run(ckm_i_solver *solver, double seconds, ckm_error *err) CKM_NODISCARD;

#endif
