// SPDX-License-Identifier: Apache-2.0
// Cost models: each fills one cost per operator of a training graph.
#ifndef CKM_SRC_COST_COST_MODELS_H
#define CKM_SRC_COST_COST_MODELS_H

#include <checkmate/cost.h>

#include "graph/training.h"

// ckm_cost_apply for a graph with a second memory; NULL: without. Multiply-accumulates are then taken for time, ten of them for a
// nanosecond: enough to find a schedule by which operators can be measured, and no more.
ckm_status ckm_i_cost_apply(const ckm_training *training, const ckm_cost_model *model, const ckm_second_memory *second,
                            ckm_dataflow **out, ckm_error *err) CKM_NODISCARD;

// Multiply-accumulates, as the paper counts them.
ckm_status ckm_i_cost_flops(const ckm_training *training, int64_t *costs, ckm_error *err) CKM_NODISCARD;
// Measured nanoseconds from a checkmate-profile file.
ckm_status ckm_i_cost_profile(const ckm_training *training, const char *path, int64_t *costs,
                              ckm_error *err) CKM_NODISCARD;
// Nanoseconds that a device is modelled to take.
ckm_status ckm_i_cost_device(const ckm_training *training, const ckm_device *device, int64_t *costs,
                             ckm_error *err) CKM_NODISCARD;

#endif
