// SPDX-License-Identifier: Apache-2.0
// Optimizers: parameter and state change in place, once a step.
#include <math.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// inputs parameter, gradient, [momentum]
static ckm_status update_sgd(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    float *weight = ckm_i_ref_state(&r, 0);
    const float *gradient = ckm_i_ref_input(&r, 1);
    float *velocity = ckm_i_ref_state(&r, 2);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    float rate = (float)call->learning_rate;
    float decay = (float)ckm_i_op_attr_double(r.op, "weight_decay", 0.0);
    float momentum = (float)ckm_i_op_attr_double(r.op, "momentum", 0.0);
    bool nesterov = ckm_i_op_attr_int(r.op, "nesterov", 0, 0) != 0;
    for (int64_t i = 0; i < n; i++) {
        float g = gradient[i] + decay * weight[i];
        if (velocity != NULL) {
            float v = call->step == 0 ? g : momentum * velocity[i] + g;
            velocity[i] = v;
            g = nesterov ? g + momentum * v : v;
        }
        weight[i] -= rate * g;
    }
    return CKM_OK;
}

// inputs parameter, gradient, m, v (first and second moment). Kingma & Ba 2015, algorithm 1; `decoupled`:
// Loshchilov & Hutter 2019, algorithm 2.
static ckm_status update_moments(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, bool decoupled,
                                 ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    float *weight = ckm_i_ref_state(&r, 0);
    const float *gradient = ckm_i_ref_input(&r, 1);
    float *first = ckm_i_ref_state(&r, 2);
    float *second = ckm_i_ref_state(&r, 3);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    double beta1 = ckm_i_op_attr_double(r.op, "beta1", 0.9);
    double beta2 = ckm_i_op_attr_double(r.op, "beta2", 0.999);
    float epsilon = (float)ckm_i_op_attr_double(r.op, "epsilon", 1e-8);
    double decay = ckm_i_op_attr_double(r.op, "weight_decay", 0.0);
    double t = (double)call->step + 1.0;
    // The corrections of the moments, folded into the rate and the root.
    float rate = (float)(call->learning_rate / (1.0 - pow(beta1, t)));
    float root = (float)(1.0 / sqrt(1.0 - pow(beta2, t)));
    float keep = decoupled ? (float)(1.0 - call->learning_rate * decay) : 1.0F;
    float pull = decoupled ? 0.0F : (float)decay;
    float b1 = (float)beta1;
    float b2 = (float)beta2;
    float c1 = (float)(1.0 - beta1);
    float c2 = (float)(1.0 - beta2);
    for (int64_t i = 0; i < n; i++) {
        float g = gradient[i] + pull * weight[i];
        float m = b1 * first[i] + c1 * g;
        float v = b2 * second[i] + c2 * g * g;
        first[i] = m;
        second[i] = v;
        weight[i] = keep * weight[i] - rate * m / (sqrtf(v) * root + epsilon);
    }
    return CKM_OK;
}

static ckm_status update_adam(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return update_moments(step, op, call, false, err);
}

static ckm_status update_adamw(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    return update_moments(step, op, call, true, err);
}

const ckm_i_reference_kernel ckm_i_ref_kernels_update[] = {
    {CKM_I_OP_update_sgd, NULL, update_sgd},
    {CKM_I_OP_update_adam, NULL, update_adam},
    {CKM_I_OP_update_adamw, NULL, update_adamw},
    {0},
};
