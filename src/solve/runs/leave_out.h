// SPDX-License-Identifier: Apache-2.0
// Less computation in a schedule of whatever class.
#ifndef CKM_SRC_SOLVE_LEAVE_OUT_H
#define CKM_SRC_SOLVE_LEAVE_OUT_H

#include "dataflow/dataflow.h"
#include "solve/core/solver.h"

// Where the best schedule is not frontier-advancing, so that no search could work on it, as those of the reverse pebble
// game are not: leaves computations out one after the other as long as the rest fits the budget, what they made before
// being held until then; those that save most for the bytes and steps held first. What is cheaper is handed in. Ends at
// the deadline, or a little after it where that has passed. O(steps) for each computation that is tried.
ckm_status ckm_i_leave_out(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

// The same of a schedule that fits the budget, by a profile of memory alone: in time nearly proportional to its length. What
// is cheaper than the best is handed in.
ckm_status ckm_i_leave_out_of(ckm_i_solver *solver, const ckm_schedule *s, const char *source,
                              ckm_error *err) CKM_NODISCARD;

// Computations left out of a long sequence, many at a time.

typedef struct ckm_i_leave_out_options {
    int64_t budget_bytes;
    double exponent;  // what a byte held for a step counts against the cost saved
    bool (*stop)(void *context);
    void *context;
} ckm_i_leave_out_options;

// Leaves computations out of a sequence that fits the budget, in passes until one finds none or it is time to stop; what
// is left fits, too. Memory held longer is added to the profile of memory in use, and what is freed by that is only seen
// in the next pass, so each candidate takes O(log n) and what goes with it. *n becomes less.
ckm_status ckm_i_leave_out_many(const ckm_dataflow *df, const ckm_i_leave_out_options *options, int32_t *order,
                                int64_t *n, ckm_error *err) CKM_NODISCARD;

#endif
