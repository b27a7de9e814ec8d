// SPDX-License-Identifier: Apache-2.0
// Two-phase rounding of the relaxation (paper, section 5, algorithm 2), the first phase: from a fractional S to a binary
// one. The second, the least R for it, is ckm_i_stages_complete.
#ifndef CKM_SRC_SOLVE_ILP_ILP_ROUND_H
#define CKM_SRC_SOLVE_ILP_ILP_ROUND_H

#include "base/rng.h"
#include "solve/ilp/ilp_model.h"

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

#endif
