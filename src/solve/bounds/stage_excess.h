// SPDX-License-Identifier: Apache-2.0
// Where a point of the stage relaxation needs more memory between the cuts than there is: the places for further cuts.
#ifndef CKM_SRC_SOLVE_BOUNDS_STAGE_EXCESS_H
#define CKM_SRC_SOLVE_BOUNDS_STAGE_EXCESS_H

#include "solve/bounds/stage_model.h"

// For every operator an estimate of what is in memory while it first runs, less what there is, in parts of that: above 0
// where the point holds too much. It proves nothing. O(cuts * tensors + edges). False when memory runs out.
bool ckm_i_stage_excess(const ckm_i_stage_model *model, const double *x, double *excess);

// What the memory row of cut k leaves at the point, in parts of what there is.
double ckm_i_stage_slack(const ckm_i_stage_model *model, const double *x, int32_t k);

#endif
