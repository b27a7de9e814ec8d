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
    static const ckm_i_memory_floor_options options = {CKM_I_MEMORY_FLOOR_BRIEF, INT64_MAX};
    ckm_i_memory_floor_result found;
    ckm_status status = ckm_i_memory_floor(df, &options, &found, err);
    if (status == CKM_OK) {
        *floor_bytes = found.floor_bytes;
    }
    return status;
}
