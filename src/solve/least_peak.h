// SPDX-License-Identifier: Apache-2.0
// How little memory is known to be enough.
#ifndef CKM_SRC_SOLVE_LEAST_PEAK_H
#define CKM_SRC_SOLVE_LEAST_PEAK_H

#include "solve/floor/memory_floor.h"
#include "solve/core/solver.h"

// Looks for schedules of ever smaller peak, whatever they cost, until a point in time on ckm_i_clock_seconds: by the strategies that
// take no time, the reverse pebble game, and search that goes on from the least peak known. What it finds is known to fit, and is
// handed in where the strategy takes any schedule. Neither looks below the memory floor, nor below a budget that is not refuted.
ckm_status ckm_i_least_peak(ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes, double until,
                            ckm_error *err) CKM_NODISCARD;

// Hands in the reverse pebble game's schedule for the budget, where it finds one; for further ones, so many seconds.
ckm_status ckm_i_offer_pebbling(ckm_i_solver *solver, double more_seconds, ckm_error *err) CKM_NODISCARD;

// A schedule of hardly any memory: at the budgets the game believes in and a little above, the first that it can write
// out; *out is NULL when there is none below `below_bytes`. `work` units at most for each. The game is
// one in which every operator may run again.
ckm_status ckm_i_pebbling_least(ckm_i_pebbling *p, int64_t enough_bytes, int64_t below_bytes, int64_t work,
                                ckm_stop_fn stop, void *user, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

#endif
