// SPDX-License-Identifier: Apache-2.0
// ckm_solve for searches that solve many times and know something already.
#ifndef CKM_SRC_SOLVE_SOLVE_ABOVE_H
#define CKM_SRC_SOLVE_SOLVE_ABOVE_H

#include <checkmate/solve.h>

#include "solve/core/bound_lines.h"
#include "solve/core/solver.h"

// What is known of a problem before it is solved.
typedef struct ckm_i_known {
    double bound_cost;  // proven, NAN: none
    ckm_bound_class bound_covers;
    const ckm_schedule *hint;  // see ckm_i_solver; NULL: none
    ckm_i_bound_lines *lines;  // used for this budget, and takes what is proven for others
    bool proven_elsewhere;     // the time is for search
    bool of_many;              // other budgets are searched, too, so the least that fits need not be looked for
    bool comes_back;           // what is done at the end of a run, whatever the time, is left to another one
} ckm_i_known;

// `floor_bytes` is proven for all schedules of the graph; ckm_solve passes ckm_i_memory_floor_of.
ckm_status ckm_i_solve_above(const ckm_dataflow *df, const ckm_solve_options *options, int64_t floor_bytes,
                             ckm_solve_result *result, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_solve_known(const ckm_dataflow *df, const ckm_solve_options *options, int64_t floor_bytes,
                             const ckm_i_known *known, ckm_solve_result *result, ckm_error *err) CKM_NODISCARD;

// The strategies that take next to no time.

// Runs them on the solver's problem, one after the other, each for a share of this many seconds; the first, the slowest, for at least
// `first_seconds`. Ends when the solver should stop.
ckm_status ckm_i_quick_run(ckm_i_solver *solver, double seconds, double first_seconds, ckm_error *err) CKM_NODISCARD;

// The component `quick`: where a run begins, so that none of them is better than the strategy that searches.
ckm_status ckm_i_quick_begin(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

// How little memory is known to be enough.

// Looks for schedules of ever smaller peak, whatever they cost, until a point in time on ckm_i_clock_seconds: by the strategies that
// take no time, the reverse pebble game, and search that goes on from the least peak known. What it finds is known to fit, and is
// handed in where the strategy takes any schedule. Neither looks below the memory floor, nor below a budget that is not refuted.
ckm_status ckm_i_least_peak(ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes, double until,
                            ckm_error *err) CKM_NODISCARD;
// Until when to look at the end of a run: some seconds, of which few are after the limit.
double ckm_i_least_peak_until(const ckm_i_solver *solver);
// How many seconds of the limit are kept for it where a search may find nothing.
double ckm_i_least_peak_kept(const ckm_i_solver *solver);

#endif
