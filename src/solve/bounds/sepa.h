// SPDX-License-Identifier: Apache-2.0
// Cutting planes of the relaxations of windows, each for ckm_i_milp_options: `context` is the model.
#ifndef CKM_SRC_SOLVE_BOUNDS_SEPA_H
#define CKM_SRC_SOLVE_BOUNDS_SEPA_H

#include "solve/bounds/window_model.h"

// Path cuts tie windows together.
void ckm_i_sepa_paths(const void *context, const double *x, ckm_i_milp *m);
// Peak cuts know of memory inside windows. Of models that keep the order only.
void ckm_i_sepa_peaks(const void *context, const double *x, ckm_i_milp *m);
// Cover cuts know of tensors that do not fit together.
void ckm_i_sepa_covers(const void *context, const double *x, ckm_i_milp *m);
// Rounding cuts know of what sizes add up to.
void ckm_i_sepa_roundings(const void *context, const double *x, ckm_i_milp *m);
// All that the model has.
void ckm_i_sepa_all(const void *context, const double *x, ckm_i_milp *m);

// Path cuts where tensors can be moved: `context` is a ckm_i_moving_model.
void ckm_i_sepa_moving_paths(const void *context, const double *x, ckm_i_milp *m);

#endif
