// SPDX-License-Identifier: Apache-2.0
// From a point of the stage relaxation to what a schedule holds.
#ifndef CKM_SRC_SOLVE_BOUNDS_STAGE_ROUND_H
#define CKM_SRC_SOLVE_BOUNDS_STAGE_ROUND_H

#include "solve/search/search_state.h"
#include "solve/bounds/stage_model.h"

// For every tensor the stages into which it is held when it is live at the cuts where x says so (s >= 1/2): between
// two uses either all the way, or from the cut on at which it is there again. Peaks between the cuts, and where s is
// fractional, may exceed the budget. *out, freed with ckm_i_spans_free, has n_tensors lists for ckm_i_search_take.
// O(tensors * cuts + edges).
ckm_status ckm_i_stage_round(const ckm_i_stage_model *model, const double *x, ckm_i_spans **out,
                             ckm_error *err) CKM_NODISCARD;

#endif
