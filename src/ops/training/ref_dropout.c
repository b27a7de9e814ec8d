// SPDX-License-Identifier: Apache-2.0
// Dropout, forward and backward alike: every element is kept or not by a number drawn from (seed, batch, key,
// element), so a recomputation and the backward pass meet the same mask.
#include "ops/training/ref_dropout.h"

#include "base/rng.h"
#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

static uint64_t mix(uint64_t state, uint64_t value)
{
    ckm_i_rng rng = {state ^ value};
    return ckm_i_rng_next(&rng);
}

uint64_t ckm_i_ref_dropout_stream(uint64_t seed, int64_t batch, int64_t key)
{
    return mix(mix(mix(0, seed), (uint64_t)batch), (uint64_t)key);
}

// inputs x; attributes rate, key
static ckm_status dropout(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    double rate = ckm_i_op_attr_double(r.op, "rate", 0.5);
    uint64_t stream = ckm_i_ref_dropout_stream(call->seed, call->batch, ckm_i_op_attr_int(r.op, "key", 0, 0));
    uint64_t threshold = ckm_i_ref_dropout_threshold(rate);
    float factor = rate < 1.0 ? (float)(1.0 / (1.0 - rate)) : 0.0F;
    for (int64_t i = 0; i < n; i++) {
        y[i] = ckm_i_ref_dropout_keeps(stream, threshold, i) ? x[i] * factor : 0.0F;
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_dropout[] = {
    {CKM_I_OP_dropout, NULL, dropout},
    {0},
};
