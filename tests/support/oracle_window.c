// SPDX-License-Identifier: Apache-2.0
#include "oracle_window.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "solve/bounds/sepa.h"

double oracle_solve_window(ckm_i_window_model *model, bool integer, ckm_i_milp_result *result)
{
    ckm_i_milp_options options = {
        .relax = !integer,
        .seconds = 60.0,
        .cutoff = INFINITY,
        .threads = 1,
        .separate = ckm_i_sepa_all,
        .context = model,
        .enough = INFINITY,
    };
    assert_int_equal(ckm_i_milp_solve(&model->milp, &options, result, NULL), CKM_OK);
    return model->constant + result->proven * model->cost_scale;
}
