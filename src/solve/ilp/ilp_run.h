// SPDX-License-Identifier: Apache-2.0
// The integer program as a component: builds it, starts it from the solver's best, hands in what it finds.
#ifndef CKM_SRC_SOLVE_ILP_ILP_RUN_H
#define CKM_SRC_SOLVE_ILP_ILP_RUN_H

#include "solve/core/solver.h"

// Runs for `seconds` or until the solver's deadline. CKM_ERR_UNSUPPORTED when the program would be too large.
ckm_status ckm_i_ilp_run(ckm_i_solver *solver, double seconds, ckm_error *err) CKM_NODISCARD;

#endif
