// SPDX-License-Identifier: Apache-2.0
// How little memory is known to be enough, and how little is known not to be.
#ifndef CKM_SRC_SOLVE_LEAST_PEAK_H
#define CKM_SRC_SOLVE_LEAST_PEAK_H

#include "solve/floor/memory_floor.h"
#include "solve/core/solver.h"

// Raises *floor_bytes, a proven memory floor, by the reverse pebble game, and hands in a proof of infeasibility where
// the budget is below it.
ckm_status ckm_i_prove_floor(ckm_i_solver *solver, int64_t *floor_bytes, ckm_error *err) CKM_NODISCARD;

// Looks for schedules of ever smaller peak, whatever they cost, and lowers the solver's least_peak_bytes: by the reverse
// pebble game, then by local search, first at the memory floor, then by bisection between it and the least peak known.
// What fits the budget is handed in. Ends after `seconds`, and some work for the game.
ckm_status ckm_i_least_peak(ckm_i_solver *solver, int64_t floor_bytes, double seconds, ckm_error *err) CKM_NODISCARD;

// A schedule of hardly any memory: at the budgets the game believes in and a little above, the first that it can write
// out; *out is NULL when there is none below `below_bytes`. `work` units at most for each.
ckm_status ckm_i_pebbling_least(ckm_i_pebbling *p, int64_t enough_bytes, int64_t below_bytes, int64_t work,
                                const ckm_solve_options *options, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

#endif
