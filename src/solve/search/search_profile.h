// SPDX-License-Identifier: Apache-2.0
// Peaks of all stages against a budget, for a search that shifts ranges of them all the time. Stages lie in
// blocks; a shift of a whole block is one addition as long as the block stays on one side of the budget.
#ifndef CKM_SRC_SOLVE_SEARCH_SEARCH_PROFILE_H
#define CKM_SRC_SOLVE_SEARCH_SEARCH_PROFILE_H

#include <checkmate/base.h>

typedef struct ckm_i_profile_block {
    int64_t shift;      // to be added to every peak of the block
    int64_t low, high;  // of the stored peaks
    bool stale;         // low and high have to be found again
} ckm_i_profile_block;

typedef struct ckm_i_profile {
    int32_t n_stages, n_blocks;
    int64_t budget_bytes;
    bool open;        // ranges are noted at their ends only, in `stored`, until they are all there
    int64_t *stored;  // per stage
    ckm_i_profile_block *blocks;
} ckm_i_profile;

// All peaks zero. O(n_stages) memory.
ckm_status ckm_i_profile_create(int32_t n_stages, int64_t budget_bytes, ckm_i_profile *out,
                                ckm_error *err) CKM_NODISCARD;
void ckm_i_profile_dispose(ckm_i_profile *profile);
void ckm_i_profile_clear(ckm_i_profile *profile);
// From here on to `close` ckm_i_profile_add takes constant time and returns 0; nothing else may be asked. Close takes
// O(n_stages). All peaks are zero before.
void ckm_i_profile_open(ckm_i_profile *profile);
void ckm_i_profile_close(ckm_i_profile *profile);

int64_t ckm_i_profile_peak(const ckm_i_profile *profile, int32_t t);
// Adds `bytes` to stages first..last. Returns by how much the sum over stages of bytes over the budget changes.
// O(stages in a block + blocks).
double ckm_i_profile_add(ckm_i_profile *profile, int32_t first, int32_t last, int64_t bytes);
// The stage of first..last with the largest peak.
int32_t ckm_i_profile_highest(ckm_i_profile *profile, int32_t first, int32_t last);
// Sum over stages of bytes over the budget, afresh.
double ckm_i_profile_excess(const ckm_i_profile *profile);

#endif
