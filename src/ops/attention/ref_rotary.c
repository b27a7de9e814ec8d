// SPDX-License-Identifier: Apache-2.0
// Rotary positions: every pair (i, i + half) of a row is turned by the angle of the row's position. A pair is read
// before it is written, so the output may share the operand's buffer.
#include <math.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Room for the cosine and sine of every position and pair: they are the same for all samples and heads.
static int64_t workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    const ckm_shape *x = &v->in[0]->shape;
    (void)step;
    return x->dims[x->rank - 2] * x->dims[x->rank - 1] * (int64_t)sizeof(float);
}

static void fill_angles(float *cosines, float *sines, int64_t positions, int64_t half, double base, bool inverse)
{
    for (int64_t i = 0; i < half; i++) {
        double frequency = pow(base, -(double)i / (double)half);
        for (int64_t t = 0; t < positions; t++) {
            double angle = (double)t * frequency;
            cosines[t * half + i] = (float)cos(angle);
            sines[t * half + i] = (float)(inverse ? -sin(angle) : sin(angle));
        }
    }
}

// inputs x
static ckm_status rotary(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    int64_t positions = shape->dims[shape->rank - 2];
    int64_t half = shape->dims[shape->rank - 1] / 2;
    int64_t rows = ckm_i_ref_span(shape, 0, shape->rank - 1);
    float *cosines = call->workspace;
    float *sines = cosines + positions * half;
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    fill_angles(cosines, sines, positions, half, ckm_i_op_attr_double(r.op, "base", 10000.0),
                ckm_i_op_attr_int(r.op, "inverse", 0, 0) != 0);
    for (int64_t row = 0; row < rows; row++, x += 2 * half, y += 2 * half) {
        const float *c = cosines + row % positions * half;
        const float *s = sines + row % positions * half;
        for (int64_t i = 0; i < half; i++) {
            float a = x[i];
            float b = x[i + half];
            y[i] = a * c[i] - b * s[i];
            y[i + half] = b * c[i] + a * s[i];
        }
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_rotary[] = {
    {CKM_I_OP_rotary, workspace, rotary},
    {0},
};
