// SPDX-License-Identifier: Apache-2.0
// The memory floor for those who only want to know it.
#include <checkmate/min_budget.h>

#include "base/error.h"
#include "dataflow/dataflow.h"
#include "solve/floor/memory_floor.h"

ckm_status ckm_min_budget_floor(const ckm_dataflow *df, int64_t *floor_bytes, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(floor_bytes, err);
    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    return ckm_i_memory_floor_of(df, floor_bytes, err);
}
