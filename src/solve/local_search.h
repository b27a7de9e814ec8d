// SPDX-License-Identifier: Apache-2.0
// Local search on S: annealed moves that hold or drop one tensor between two of its uses. Given S, a stage's
// cost and peak depend on two rows only, so a move re-evaluates the stages it touches and nothing else.
#ifndef CKM_SRC_SOLVE_LOCAL_SEARCH_H
#define CKM_SRC_SOLVE_LOCAL_SEARCH_H

#include "solve/solver.h"

typedef struct ckm_i_local_search_options {
    double seconds;  // wall time
    int64_t moves;   // limit on moves tried; 0: none. With it and a seed, runs repeat exactly
} ckm_i_local_search_options;
#define CKM_I_LOCAL_SEARCH_OPTIONS_INIT \
    {                                   \
        10.0, 0                         \
    }

// Starts from the solver's best matrices, or from holding everything, and hands in every improvement at the
// end of a round. Ends at its limits or when the solver should stop.
ckm_status ckm_i_local_search(ckm_i_solver *solver, const ckm_i_local_search_options *options,
                              ckm_error *err) CKM_NODISCARD;

#endif
