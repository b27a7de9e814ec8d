// SPDX-License-Identifier: Apache-2.0
// Where the open relaxation cuts schedules (open_model.h).
#ifndef CKM_SRC_SOLVE_BOUNDS_OPEN_PLACES_H
#define CKM_SRC_SOLVE_BOUNDS_OPEN_PLACES_H

#include "solve/bounds/open_model.h"

typedef struct ckm_i_open_places {
    const ckm_dataflow *df;
    double *promise;  // per operator: an estimate of what a cut after it proves; below zero: by how much that is missed
    double *score;    // per operator: what one has proven, -INFINITY: not tried
    int32_t best;     // the operator with the largest score, -1
    int32_t n_tried;
    ckm_i_open_reach reach;
    bool *fits;  // per operator: room for a chain's choices
} ckm_i_open_places;

ckm_status ckm_i_open_places_init(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_open_places *out,
                                  ckm_error *err) CKM_NODISCARD;
void ckm_i_open_places_dispose(ckm_i_open_places *places);

// The next operator to try, -1 when there is none: by turns of all that are left and of the neighbours of the best.
int32_t ckm_i_open_places_next(const ckm_i_open_places *places);
void ckm_i_open_places_score(ckm_i_open_places *places, int32_t cut, double bound);

// A chain of at most n_cuts operators around the best, ascending, far apart and of good promise. Returns their number; a
// longer chain has all of a shorter one.
int32_t ckm_i_open_places_chain(ckm_i_open_places *places, int32_t n_cuts, int32_t *out);

#endif
