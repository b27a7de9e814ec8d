// SPDX-License-Identifier: Apache-2.0
// A little more search where the gap closed before long.
#ifndef CKM_SRC_SOLVE_POLISH_H
#define CKM_SRC_SOLVE_POLISH_H

#include "solve/core/solver.h"

// When the gap asked for is closed but not exactly: local search for as long again, at least a quarter of a second, at
// most one, within the time limit. Does nothing where a cost or a number of moves was to be kept, a gap above that of
// `optimal` was asked for, or the caller wants to stop.
ckm_status ckm_i_polish(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

#endif
