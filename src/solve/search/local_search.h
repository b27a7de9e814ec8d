// SPDX-License-Identifier: Apache-2.0
// Local search on S: annealed moves that hold or drop one tensor between two of its uses. Given S, a stage's
// cost and peak depend on two rows only, so a move re-evaluates the stages it touches and nothing else. Several
// searches side by side meet after every round, where the best of what they found is combined.
#ifndef CKM_SRC_SOLVE_SEARCH_LOCAL_SEARCH_H
#define CKM_SRC_SOLVE_SEARCH_LOCAL_SEARCH_H

#include "solve/search/search_state.h"
#include "solve/core/solver.h"

typedef struct ckm_i_local_search_options {
    double seconds;  // wall time
    int64_t
        moves;    // limit on moves tried by all; 0: none. With it, a seed and a number of threads, runs repeat exactly
    int threads;  // searches side by side, the calling thread's included
    // How many of the threads are at work elsewhere, asked before each round; NULL: none.
    int (*elsewhere)(void *context);
    // What else to look at, asked often; NULL: nothing. Gives spans for ckm_i_search_take, which need not be within the
    // budget and are freed here, or NULL: nothing new.
    ckm_i_spans *(*suggest)(void *context);
    void *context;
    // After this many seconds, asked before each round whether it ends early, with the solver that it is for; NULL: it does not.
    double trial_seconds;
    bool (*give_up)(const ckm_i_solver *solver);
} ckm_i_local_search_options;
#define CKM_I_LOCAL_SEARCH_OPTIONS_INIT         \
    {                                           \
        10.0, 0, 1, NULL, NULL, NULL, 0.0, NULL \
    }

// Starts from the solver's best schedule, or from holding everything, and hands in every improvement at the
// end of a round. Ends at its limits or when the solver should stop. Callbacks come from the calling thread only.
ckm_status ckm_i_local_search(ckm_i_solver *solver, const ckm_i_local_search_options *options,
                              ckm_error *err) CKM_NODISCARD;
// For proofs that want a schedule to start from: one thread, a small share of the time.
ckm_status ckm_i_local_search_briefly(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

#endif
