// SPDX-License-Identifier: Apache-2.0
// The paper's mixed-integer program (Jain et al. 2020, section 4.2-4.7) over a dataflow graph, generalised
// and tightened; docs/FORMULATION.md derives every row. Shared by the strategies ilp, lp-bound and lp-round.
#ifndef CKM_SRC_SOLVE_ILP_ILP_MODEL_H
#define CKM_SRC_SOLVE_ILP_ILP_MODEL_H

#include <checkmate/solve.h>

#include "dataflow/dataflow.h"
#include "milp/milp.h"
#include "schedule/stages.h"

typedef struct ckm_i_ilp {
    const ckm_dataflow *df;
    ckm_formulation formulation;
    ckm_i_milp milp;
    int32_t *r_col;     // [t * n_ops + v]; CKM_I_ILP_ZERO or CKM_I_ILP_ONE where it is a constant
    int32_t *s_col;     // [t * n_tensors + x], t = 0..n_ops
    double cost_scale;  // objective * cost_scale = cost in the graph's unit
    int64_t cost_gcd;
} ckm_i_ilp;

#define CKM_I_ILP_ZERO (-1)
#define CKM_I_ILP_ONE (-2)

// Builds the model for a budget. Size: about n_ops^2 / 2 binaries for R and n_ops * n_tensors / 2 for S, and
// one continuous column per (stage, operand). CKM_ERR_MEMORY, CKM_ERR_UNSUPPORTED beyond max_entries. `stop` (may be NULL) is asked
// before each stage; once it says so, *out is NULL.
ckm_status ckm_i_ilp_build(const ckm_dataflow *df, int64_t budget_bytes, ckm_formulation formulation,
                           int64_t max_entries, ckm_stop_fn stop, void *user, ckm_i_ilp **out,
                           ckm_error *err) CKM_NODISCARD;
// Whether its tables alone, in the square of the operators, have more than max_entries entries.
bool ckm_i_ilp_is_too_large(const ckm_dataflow *df, int64_t max_entries);
void ckm_i_ilp_free(ckm_i_ilp *ilp);

// Values of the integer columns for completed matrices (continuous columns are left 0): a MIP start.
void ckm_i_ilp_start(const ckm_i_ilp *ilp, const ckm_i_stages *stages, double *x);
// S of a solution: bits where the column's value is above `threshold`. R follows from S.
void ckm_i_ilp_take(const ckm_i_ilp *ilp, const double *x, double threshold, ckm_i_stages *stages);
// A bound on the objective as a bound on the cost: scaled, and rounded up to what costs can be.
double ckm_i_ilp_cost_bound(const ckm_i_ilp *ilp, double objective_bound);

#endif
