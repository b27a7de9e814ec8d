// SPDX-License-Identifier: Apache-2.0
// The paper's mixed-integer program (Jain et al. 2020, section 4.2-4.7) over a dataflow graph, generalised
// and tightened; docs/THEORY.md derives every row. Shared by the strategies ilp, lp-bound and lp-round.
#ifndef CKM_SRC_SOLVE_ILP_ILP_H
#define CKM_SRC_SOLVE_ILP_ILP_H

#include <checkmate/solve.h>

#include "base/rng.h"
#include "dataflow/dataflow.h"
#include "milp/milp.h"
#include "schedule/stages.h"
#include "solve/core/solver.h"

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

// Two-phase rounding of the relaxation (paper, section 5, algorithm 2), the first phase: from a fractional S to a binary
// one. The second, the least R for it, is ckm_i_stages_complete.

// Values of S that differ by less are one value: an engine's vertex has them only so exactly, and what it means as 1 may be
// 0.9999999.
#define CKM_I_ILP_SAME_VALUE 1e-6

// Solves the relaxation for a point to round: among those of the same cost, one that recomputes least. Where an operator
// costs nothing, the relaxation may as well run it in part in any stage, and S, which then holds parts of what it reads and
// makes, says little. The program has its true costs again afterwards: the multipliers prove a bound for them.
ckm_status ckm_i_ilp_relax_to_round(ckm_i_ilp *ilp, const ckm_i_milp_options *limits, ckm_i_milp_result *result,
                                    ckm_error *err) CKM_NODISCARD;

// The thresholds that ckm_i_ilp_take has to be called with for every S that thresholding gives: 0.5, the paper's, then one
// halfway between any two neighbouring values of S, from large to small, the last below the smallest that is not 0.
// *out has *n of them and is freed with free().
ckm_status ckm_i_ilp_thresholds(const ckm_i_ilp *ilp, const double *x, double **out, int32_t *n,
                                ckm_error *err) CKM_NODISCARD;

// Sets each bit of S with the probability that x gives it.
void ckm_i_ilp_sample(const ckm_i_ilp *ilp, const double *x, ckm_i_rng *rng, ckm_i_stages *stages);

// The integer program as a component: builds it, starts it from the solver's best, hands in what it finds.

// Runs for `seconds` or until the solver's deadline. CKM_ERR_UNSUPPORTED when the program would be too large.
ckm_status ckm_i_ilp_run(ckm_i_solver *solver, double seconds, ckm_error *err) CKM_NODISCARD;

#endif
