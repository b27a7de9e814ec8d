// SPDX-License-Identifier: Apache-2.0
// The integer program over all schedules that compute nothing again but what a given set allows: pairs of a stage and
// an operator. What is held is free. docs/SEARCH.md says why it is small.
#ifndef CKM_SRC_SOLVE_SEARCH_NEIGHBOURHOOD_MODEL_H
#define CKM_SRC_SOLVE_SEARCH_NEIGHBOURHOOD_MODEL_H

#include "solve/ilp/ilp_model.h"
#include "solve/search/search_pool.h"

typedef struct ckm_i_neighbourhood_set {
    int32_t n_ops;
    int64_t n;           // pairs
    ckm_i_ints *ops;     // per stage: operators that it may run on top of its own
    ckm_i_ints *stages;  // per operator: those stages
} ckm_i_neighbourhood_set;

ckm_status ckm_i_neighbourhood_set_create(int32_t n_ops, ckm_i_neighbourhood_set *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_neighbourhood_set_dispose(ckm_i_neighbourhood_set *set);
// Adds what the state computes again. O(pairs of the state * pairs of a stage).
ckm_status ckm_i_neighbourhood_set_add(ckm_i_neighbourhood_set *set, const ckm_i_search *s,
                                       ckm_error *err) CKM_NODISCARD;

// The program for a state within the budget whose own recomputations are in the set; stages that nothing in the set
// concerns are taken from it. The objective counts recomputations only. Memory and time O(operators * (operators +
// tensors)) for the tables, the program itself grows with the set.
ckm_status ckm_i_neighbourhood_build(const ckm_i_search *s, const ckm_i_neighbourhood_set *set, ckm_i_ilp **out,
                                     ckm_error *err) CKM_NODISCARD;
// Replaces the state by what a solution holds, closed and trimmed: never dearer or larger than the solution says, up to
// the engine's tolerances.
ckm_status ckm_i_neighbourhood_take(const ckm_i_ilp *ilp, const double *x, ckm_i_search *s,
                                    ckm_error *err) CKM_NODISCARD;

#endif
