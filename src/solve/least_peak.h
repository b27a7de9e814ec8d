// SPDX-License-Identifier: Apache-2.0
// How little memory is known to be enough.
#ifndef CKM_SRC_SOLVE_LEAST_PEAK_H
#define CKM_SRC_SOLVE_LEAST_PEAK_H

#include "solve/solver.h"

// Looks for schedules of ever smaller peak, whatever they cost, and lowers the solver's least_peak_bytes:
// first at the memory floor, then by bisection between it and the least peak known. Ends after `seconds`.
ckm_status ckm_i_least_peak(ckm_i_solver *solver, double seconds, ckm_error *err) CKM_NODISCARD;

#endif
