// SPDX-License-Identifier: Apache-2.0
// Costs and bytes of a training graph: the step from a training graph to the dataflow graph solvers see.
#ifndef CHECKMATE_COST_H
#define CHECKMATE_COST_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ckm_cost_kind {
    CKM_COST_MODEL_FLOPS,   // multiply-accumulates, counted as the paper does
    CKM_COST_MODEL_PROFILE  // a checkmate-profile file: measured nanoseconds by operator name
} ckm_cost_kind;

typedef struct ckm_cost_model {
    ckm_cost_kind kind;
    const char *profile_path;  // for CKM_COST_MODEL_PROFILE
} ckm_cost_model;
// clang-format off
#define CKM_COST_MODEL_INIT \
    { CKM_COST_MODEL_FLOPS, NULL }
// clang-format on

// Gives every operator of `training` its cost and every value its bytes. Errors: CKM_ERR_OVERFLOW;
// CKM_ERR_NOT_FOUND when a profile lacks operators (all are named).
CKM_API ckm_status ckm_cost_apply(const ckm_training *training, const ckm_cost_model *model, ckm_dataflow **out,
                                  ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
