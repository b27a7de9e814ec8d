// SPDX-License-Identifier: Apache-2.0
// The strategies that take next to no time.
#ifndef CKM_SRC_SOLVE_QUICK_H
#define CKM_SRC_SOLVE_QUICK_H

#include "solve/core/solver.h"

// Runs them on the solver's problem, one after the other, each for a share of so many seconds; the first, the slowest, for at least
// `first_seconds`. Ends when the solver should stop.
ckm_status ckm_i_quick_run(ckm_i_solver *solver, double seconds, double first_seconds, ckm_error *err) CKM_NODISCARD;

#endif
