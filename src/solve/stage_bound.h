// SPDX-License-Identifier: Apache-2.0
// A lower bound on the cost of every schedule that keeps the graph's first-execution order, recomputing any
// number of times anywhere, from a relaxation by stages.
#ifndef CKM_SRC_SOLVE_STAGE_BOUND_H
#define CKM_SRC_SOLVE_STAGE_BOUND_H

#include "milp/milp.h"
#include "solve/solver.h"

typedef struct ckm_i_stage_bound {
    ckm_i_milp milp;
    int32_t first_stage;
    int32_t *r_col;  // [(t - first_stage) * n_ops + v], t up to n_ops: columns, -1 where zero
    int32_t *s_col;  // [(t - first_stage) * n_tensors + x], likewise
    double cost_scale;
    int64_t cost_gcd;
} ckm_i_stage_bound;

// The relaxation for the stages from first_stage on; docs/FORMULATION.md proves it. Smaller first stages give
// larger programs and bounds at least as good.
ckm_status ckm_i_stage_bound_build(const ckm_dataflow *df, int64_t budget_bytes, int32_t first_stage,
                                   ckm_i_stage_bound *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_stage_bound_dispose(ckm_i_stage_bound *bound);

// Whether the relaxation has a size that an engine gets through in reasonable time and memory.
bool ckm_i_stage_bound_is_practical(const ckm_dataflow *df);

// Builds and solves it within `seconds` and hands the bound, or a proof of infeasibility, to the solver.
// `integer`: with S binary, by branch and bound, which is far tighter where it gets anywhere; what CBC holds is
// then also handed in as a schedule.
ckm_status ckm_i_stage_bound_run(ckm_i_solver *solver, bool integer, double seconds, ckm_error *err) CKM_NODISCARD;

#endif
