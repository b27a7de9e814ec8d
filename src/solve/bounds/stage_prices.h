// SPDX-License-Identifier: Apache-2.0
// An estimate of what a single cut of the stage relaxation proves, for every place at once.
#ifndef CKM_SRC_SOLVE_BOUNDS_STAGE_PRICES_H
#define CKM_SRC_SOLVE_BOUNDS_STAGE_PRICES_H

#include "dataflow/dataflow.h"

// prices[v] (room for every operator): the least cost at which as much of what lives on past v as does not fit beside v's
// working set can be made again, each storage by its operator alone. O((operators + edges) log operators).
ckm_status ckm_i_stage_prices(const ckm_dataflow *df, int64_t budget_bytes, double *prices,
                              ckm_error *err) CKM_NODISCARD;

#endif
