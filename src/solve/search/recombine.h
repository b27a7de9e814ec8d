// SPDX-License-Identifier: Apache-2.0
// The best combination of what several states of local search hold.
#ifndef CKM_SRC_SOLVE_SEARCH_RECOMBINE_H
#define CKM_SRC_SOLVE_SEARCH_RECOMBINE_H

#include "solve/search/search_pool.h"

// Row S[t] of the result is that of any of the parents, at most 64, for every t on its own. Of all such matrices in
// which no operator that must not run again would have to, one with the least excess over the budget, and the least
// cost among those. Since the parents themselves are among them, it is no worse than the best of them. `out` is
// overwritten, and left empty when `stop`, asked now and then, says so.
//
// A stage's cost and peak depend on S[t] and S[t+1] only, so this is a shortest path through the stages, with the
// different rows of the parents as the nodes of a layer. O(stages * (parents * what a stage computes + parents^2 *
// tensors / 64)) time, O(stages * parents) memory besides the parents.
ckm_status ckm_i_recombine(const ckm_dataflow *df, int64_t budget_bytes, const ckm_i_snapshot *parents, int32_t n,
                           bool (*stop)(void *user), void *user, ckm_i_snapshot *out, ckm_error *err) CKM_NODISCARD;

#endif
