// SPDX-License-Identifier: Apache-2.0
// The region: persistent tensors one after the other, then the arena, rounded up to whole pages; one allocation of the
// back end's.
#include "run/session/session_region.h"

#include <unistd.h>

#include "base/align.h"
#include "base/error.h"

ckm_status ckm_i_region_lay_out(const ckm_dataflow *df, int64_t *offsets, int64_t *end, ckm_error *err)
{
    int64_t at = 0;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        const ckm_i_dataflow_tensor *tensor = &df->tensors[x];
        int64_t bytes;
        if (offsets != NULL) {
            offsets[x] = -1;
        }
        if (!tensor->pinned || tensor->storage != x) {
            continue;
        }
        if (offsets != NULL) {
            offsets[x] = at;
        }
        if (!ckm_i_round_up(tensor->bytes, CKM_I_ALIGNMENT, &bytes) || !ckm_i_add(at, bytes, &at)) {
            return ckm_i_error(err, CKM_ERR_OVERFLOW, "bytes of parameters and inputs exceed 63 bits");
        }
    }
    *end = at;
    return CKM_OK;
}

int64_t ckm_i_region_page_bytes(void)
{
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? page : 4096;
}

ckm_status ckm_run_region_bytes(const ckm_dataflow *df, const ckm_plan *plan, int64_t *out, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(plan, err);
    CKM_I_NEED(out, err);
    int64_t bytes;
    CKM_I_CHECK(ckm_i_region_lay_out(df, NULL, &bytes, err));
    if (!ckm_i_add(bytes, ckm_plan_get_info(plan)->arena_bytes, &bytes) ||
        !ckm_i_round_up(bytes, ckm_i_region_page_bytes(), &bytes)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "bytes of parameters, inputs and arena exceed 63 bits");
    }
    *out = bytes;
    return CKM_OK;
}
