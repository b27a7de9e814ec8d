// SPDX-License-Identifier: Apache-2.0
// ckm_solve for searches that solve many times and know something already.
#ifndef CKM_SRC_SOLVE_SOLVE_ABOVE_H
#define CKM_SRC_SOLVE_SOLVE_ABOVE_H

#include <checkmate/solve.h>

#include "solve/core/bound_lines.h"

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

#endif
