// SPDX-License-Identifier: Apache-2.0
// Large neighbourhoods for local search: the best schedule among all that compute again only what one of a few good
// schedules computes again in the same stage, by the integer program over those (neighbourhood_model.h).
#ifndef CKM_SRC_SOLVE_SEARCH_NEIGHBOURHOOD_H
#define CKM_SRC_SOLVE_SEARCH_NEIGHBOURHOOD_H

#include "solve/core/solver.h"
#include "solve/ilp/ilp.h"
#include "solve/search/search_pool.h"

// How it went so far; zero to begin with.
typedef struct ckm_i_neighbourhood {
    double start_seconds;  // when the search began; 0: now
    double spent_seconds;
    double share;            // of the time that it may take; 0: not tried yet
    int32_t n_recent, next;  // what rounds have ended with lately, good or not: they differ more than the best do
    ckm_i_snapshot recent[CKM_I_POOL_SIZE];
} ckm_i_neighbourhood;

// Takes note of the state that a round has ended with, when it is within the budget.
ckm_status ckm_i_neighbourhood_meet(ckm_i_neighbourhood *nb, const ckm_i_search *s, ckm_error *err) CKM_NODISCARD;
void ckm_i_neighbourhood_dispose(ckm_i_neighbourhood *nb);

// Leaves the better of the pool's best schedule and what the program finds in `s`; *improved tells whether that is a
// better one than the pool's. Does nothing where it has had its share of the time, which grows while it improves and
// shrinks while it does not, in the first seconds, where few rounds have ended within the budget, and above some
// thousand operators. Ends by the clock, so runs do not repeat exactly. Never after `deadline_seconds` or when the solver should
// stop, save for the engine's grace.
ckm_status ckm_i_neighbourhood_improve(ckm_i_neighbourhood *nb, ckm_i_solver *solver, const ckm_i_pool *pool,
                                       ckm_i_search *s, double deadline_seconds, bool *improved,
                                       ckm_error *err) CKM_NODISCARD;

// The integer program over all schedules that compute nothing again but what a given set allows: pairs of a stage and
// an operator. What is held is free. docs/THEORY.md says why it is small.

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
