// SPDX-License-Identifier: Apache-2.0
#include "solve/core/solve_options.h"

#include <math.h>

#include "base/error.h"
#include "base/options.h"
#include "solve/core/solver.h"

static void settle(ckm_solve_options *o, double usual_seconds)
{
    static const double usual_gap = 1e-4;
    o->time_limit_seconds = o->time_limit_seconds == 0.0 ? usual_seconds : o->time_limit_seconds;
    o->gap = ckm_i_usual(o->gap, usual_gap);
    o->cost_limit = ckm_i_usual_count(o->cost_limit, -1);
    o->threads = (int)ckm_i_usual_count(o->threads, 1);
}

ckm_solve_options ckm_i_solve_options_usual(void)
{
    ckm_solve_options o = CKM_SOLVE_OPTIONS_INIT;
    settle(&o, CKM_I_DEFAULT_SECONDS);
    return o;
}

ckm_status ckm_i_solve_options_read(const ckm_solve_options *given, double usual_seconds, ckm_solve_options *own,
                                    ckm_error *err)
{
    ckm_solve_options o = CKM_SOLVE_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_solve_options, &o, start, given, err));
    settle(&o, usual_seconds);
    if (isnan(o.gap) || o.gap < 0.0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "gap must not be negative, unless it is CKM_NONE");
    }
    *own = o;
    return CKM_OK;
}
