// SPDX-License-Identifier: Apache-2.0
// What another state of local search does better, tensors by tensors.
#ifndef CKM_SRC_SOLVE_SEARCH_CROSSING_H
#define CKM_SRC_SOLVE_SEARCH_CROSSING_H

#include "solve/search/search_pool.h"

// Where the state and `other` hold tensors over different stages: tries to hold all of them as `other` does, then
// the half of them that are produced first, then the other half, and so on down to single tensors; what leaves less
// excess over the budget, or as much at less cost, stays. So the state never gets worse. *improved tells whether
// anything stayed. O(d log d) changes for d tensors that differ; ends early when `stop`, which may be NULL, says so.
ckm_status ckm_i_cross(ckm_i_search *s, const ckm_i_snapshot *other, bool (*stop)(void *user), void *user,
                       bool *improved, ckm_error *err) CKM_NODISCARD;

#endif
