// SPDX-License-Identifier: Apache-2.0
// Violated path cuts of a relaxation, of which the best become rows.
#ifndef CKM_SRC_SOLVE_BOUNDS_PATH_CANDIDATES_H
#define CKM_SRC_SOLVE_BOUNDS_PATH_CANDIDATES_H

#include <stdbool.h>
#include <stdint.h>

// The path that ends at operator v, between the cuts i and j.
typedef struct ckm_i_path_candidate {
    double score;
    int32_t i, j, v;
} ckm_i_path_candidate;

// Begins as zeros with `most`, the number to keep. Whoever made it frees `found`.
typedef struct ckm_i_path_candidates {
    int64_t most;
    ckm_i_path_candidate *found;
    int64_t n, cap;
} ckm_i_path_candidates;

// False if there is no memory. Now and then drops what cannot be among the best, so that memory is O(most).
bool ckm_i_path_add(ckm_i_path_candidates *c, ckm_i_path_candidate candidate);

// Leaves the best, sorted by i, j and v. O(n log n).
void ckm_i_path_settle(ckm_i_path_candidates *c);

#endif
