// SPDX-License-Identifier: Apache-2.0
// Sinusoids of time steps.
#include <math.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// inputs t; attributes dim, period
static ckm_status time_embedding(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    int64_t n = ckm_i_ref_in(&r, 0)->shape.dims[0];
    int64_t half = ckm_i_ref_out(&r, 0)->shape.dims[1] / 2;
    double period = ckm_i_op_attr_double(r.op, "period", 10000.0);
    const float *t = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t i = 0; i < half; i++) {
        double frequency = pow(period, -(double)i / (double)(half - 1));
        for (int64_t j = 0; j < n; j++) {
            double angle = (double)t[j] * frequency;
            y[j * 2 * half + i] = (float)sin(angle);
            y[j * 2 * half + half + i] = (float)cos(angle);
        }
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_time_embedding[] = {
    {CKM_I_OP_time_embedding, NULL, time_embedding},
    {0},
};
