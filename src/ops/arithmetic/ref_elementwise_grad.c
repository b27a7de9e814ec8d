// SPDX-License-Identifier: Apache-2.0
// Derivatives of arithmetic with broadcasting: every output has the shape of dy, sums over repeats come after.
// Element i of the output depends on element i of the operands, so it may share their buffers.
#include <math.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Operands dy, u and v; `value` in terms of them.
#define GRADIENT(name, value)                                                                                      \
    static ckm_status run_##name(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err) \
    {                                                                                                              \
        ckm_i_ref_op r = ckm_i_ref_open(step, op, call);                                                           \
        CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));                                                              \
        const float *operands[3];                                                                                  \
        float *out = ckm_i_ref_output(&r, 0);                                                                      \
        ckm_i_ref_walk w = ckm_i_ref_walk_over(&ckm_i_ref_out(&r, 0)->shape);                                      \
        for (int32_t i = 0; i < 3; i++) {                                                                          \
            operands[i] = ckm_i_ref_input(&r, i);                                                                  \
            ckm_i_ref_walk_add(&w, &ckm_i_ref_in(&r, i)->shape);                                                   \
        }                                                                                                          \
        for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {                         \
            for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {                                               \
                const float dy = operands[0][w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0)];                      \
                const float u = operands[1][w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1)];                       \
                const float v = operands[2][w.offsets[2] + j * ckm_i_ref_row_stride(&w, 2)];                       \
                *out++ = (value);                                                                                  \
            }                                                                                                      \
        }                                                                                                          \
        return CKM_OK;                                                                                             \
    }

GRADIENT(div_backward_b, -(dy *u) / v)                                   // u = y, v = b
GRADIENT(pow_backward_a, v == 0.0F ? 0.0F : dy * v * powf(u, v - 1.0F))  // u = a, v = b
GRADIENT(pow_backward_b, u <= 0.0F ? 0.0F : dy * v * logf(u))            // u = a, v = y

// inputs dy, x0, x1, …; attributes operand, largest. Ties share the gradient.
static ckm_status extreme_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    int32_t n = r.op->n_inputs;
    if (n > CKM_I_REF_MAX_OPERANDS) {
        return ckm_i_ref_error(&r, err, CKM_ERR_UNSUPPORTED, "more than %d operands", CKM_I_REF_MAX_OPERANDS - 1);
    }
    int32_t own = (int32_t)ckm_i_op_attr_int(r.op, "operand", 0, 0) + 1;
    float sign = ckm_i_op_attr_int(r.op, "largest", 0, 1) != 0 ? 1.0F : -1.0F;
    float *out = ckm_i_ref_output(&r, 0);
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&ckm_i_ref_out(&r, 0)->shape);
    for (int32_t i = 0; i < n; i++) {
        ckm_i_ref_walk_add(&w, &ckm_i_ref_in(&r, i)->shape);
    }
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            float values[CKM_I_REF_MAX_OPERANDS] = {0};
            float best = -INFINITY;
            int32_t ties = 0;
            for (int32_t i = 0; i < n; i++) {
                values[i] = ((const float *)ckm_i_ref_input(&r, i))[w.offsets[i] + j * ckm_i_ref_row_stride(&w, i)];
                best = i > 0 && sign * values[i] > best ? sign * values[i] : best;
            }
            for (int32_t i = 1; i < n; i++) {
                ties += sign * values[i] == best;
            }
            *out++ = sign * values[own] == best ? values[0] / (float)ties : 0.0F;
        }
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_elementwise_grad[] = {
    {CKM_I_OP_div_backward_b, NULL, run_div_backward_b},
    {CKM_I_OP_pow_backward_a, NULL, run_pow_backward_a},
    {CKM_I_OP_pow_backward_b, NULL, run_pow_backward_b},
    {CKM_I_OP_extreme_backward, NULL, extreme_backward},
    {0},
};
