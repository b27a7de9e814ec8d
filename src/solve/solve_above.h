// SPDX-License-Identifier: Apache-2.0
// ckm_solve for searches that solve many times and know a memory floor already.
#ifndef CKM_SRC_SOLVE_SOLVE_ABOVE_H
#define CKM_SRC_SOLVE_SOLVE_ABOVE_H

#include <checkmate/solve.h>

// `floor_bytes` is proven for all schedules of the graph; ckm_solve passes ckm_i_memory_floor_of.
ckm_status ckm_i_solve_above(const ckm_dataflow *df, const ckm_solve_options *options, int64_t floor_bytes,
                             ckm_solve_result *result, ckm_error *err) CKM_NODISCARD;

#endif
