// SPDX-License-Identifier: Apache-2.0
// How little memory is known to be enough.
#ifndef CKM_SRC_SOLVE_LEAST_PEAK_H
#define CKM_SRC_SOLVE_LEAST_PEAK_H

#include "solve/core/solver.h"

// Looks for schedules of ever smaller peak, whatever they cost, until a point in time on ckm_i_clock_seconds: by the strategies that
// take no time, the reverse pebble game, and search that goes on from the least peak known. What it finds is known to fit, and is
// handed in where the strategy takes any schedule. Neither looks below the memory floor, nor below a budget that is not refuted.
ckm_status ckm_i_least_peak(ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes, double until,
                            ckm_error *err) CKM_NODISCARD;

#endif
