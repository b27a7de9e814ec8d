// SPDX-License-Identifier: Apache-2.0
// Computations left out of a long sequence, many at a time.
#ifndef CKM_SRC_SOLVE_LEAVE_OUT_MANY_H
#define CKM_SRC_SOLVE_LEAVE_OUT_MANY_H

#include "dataflow/dataflow.h"

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
