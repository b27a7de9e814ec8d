// SPDX-License-Identifier: Apache-2.0
// What the verifier's files share.
#include "schedule/schedule_verifier.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/text.h"

static const size_t why_room = sizeof((ckm_verdict *)0)->why;

bool ckm_i_verify_complain(const ckm_i_verifier *vf, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(vf->why, why_room, format, args);
    va_end(args);
    ckm_i_text_clean(vf->why);
    return false;
}

const char *ckm_i_verify_name(const ckm_i_verifier *vf, int32_t x)
{
    const char *name = ckm_dataflow_get_tensor(vf->df, x).name;
    return name != NULL ? name : "";
}

ckm_status ckm_i_verify_occupy(ckm_i_verifier *vf, int32_t storage, int64_t first, int64_t last, ckm_error *err)
{
    if (!CKM_I_GROW(vf->intervals, vf->n_intervals, vf->cap_intervals)) {
        return ckm_i_error_memory(err);
    }
    if (first <= last) {
        vf->intervals[vf->n_intervals++] = (ckm_i_interval){storage, first, last};
    }
    return CKM_OK;
}
