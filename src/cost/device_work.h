// SPDX-License-Identifier: Apache-2.0
// What an operator asks of a device: arithmetic, traffic to memory, kernels.
#ifndef CKM_SRC_COST_DEVICE_WORK_H
#define CKM_SRC_COST_DEVICE_WORK_H

#include <checkmate/cost.h>

#include "graph/training.h"

typedef struct ckm_i_device_work {
    ckm_device_class arithmetic;  // which rate `macs` go by: CONV3, MATRIX or GROUPED; STREAM: they do not matter
    double macs;
    double bytes;       // read and written by the main kernels
    double tail_bytes;  // read and written by kernels behind them: an activation or a bias that a layer has built in
    double launches;
} ckm_i_device_work;

// Operator `op` of a training graph. Views ask for nothing.
ckm_status ckm_i_device_work_of(const ckm_training *training, int32_t op, ckm_i_device_work *work,
                                ckm_error *err) CKM_NODISCARD;
// How long it takes, in nanoseconds.
double ckm_i_device_time(const ckm_device *device, const ckm_i_device_work *work);

#endif
