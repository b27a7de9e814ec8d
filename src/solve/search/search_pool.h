// SPDX-License-Identifier: Apache-2.0
// What states of local search hold, by itself: to carry it from one search to another, and a small pool of the
// best ones met.
#ifndef CKM_SRC_SOLVE_SEARCH_SEARCH_POOL_H
#define CKM_SRC_SOLVE_SEARCH_SEARCH_POOL_H

#include "solve/search/search_state.h"

enum { CKM_I_POOL_SIZE = 8 };

// Spans of all tensors, one tensor after the other.
typedef struct ckm_i_snapshot {
    int64_t cost;
    double excess;      // sum over stages of bytes over the budget
    uint64_t hash;      // of the spans
    int32_t n_tensors;  // 0: nothing is held here, not even a state
    int32_t *first;     // per tensor: its first span; one more at the end
    ckm_i_span *spans;
} ckm_i_snapshot;

// Copies spans of n_tensors tensors. `out` is overwritten, not released; on an error it is left alone.
ckm_status ckm_i_snapshot_take(const ckm_i_spans *from, int32_t n_tensors, int64_t cost, double excess,
                               ckm_i_snapshot *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_snapshot_dispose(ckm_i_snapshot *snapshot);
// Less over the budget, or as much at less cost.
bool ckm_i_snapshot_better(const ckm_i_snapshot *a, const ckm_i_snapshot *b);
// Replaces the state of a search on the same graph; it closes and trims what it takes over.
ckm_status ckm_i_snapshot_load(const ckm_i_snapshot *snapshot, ckm_i_search *s, ckm_error *err) CKM_NODISCARD;

// The best snapshots that differ, the best one first.
typedef struct ckm_i_pool {
    int32_t n;
    ckm_i_snapshot at[CKM_I_POOL_SIZE];
} ckm_i_pool;

// Takes over `snapshot`, which is empty afterwards; one that is there already, or worse than a full pool, is released.
// Returns whether it went in.
bool ckm_i_pool_add(ckm_i_pool *pool, ckm_i_snapshot *snapshot);
void ckm_i_pool_dispose(ckm_i_pool *pool);

// The best combination of what several states of local search hold.

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

// What another state of local search does better, tensors by tensors.

// Where the state and `other` hold tensors over different stages: tries to hold all of them as `other` does, then
// the half of them that are produced first, then the other half, and so on down to single tensors; what leaves less
// excess over the budget, or as much at less cost, stays. So the state never gets worse. *improved tells whether
// anything stayed. O(d log d) changes for d tensors that differ; ends early when `stop`, which may be NULL, says so.
ckm_status ckm_i_cross(ckm_i_search *s, const ckm_i_snapshot *other, bool (*stop)(void *user), void *user,
                       bool *improved, ckm_error *err) CKM_NODISCARD;

#endif
