// SPDX-License-Identifier: Apache-2.0
// Gradients of a step of several batches: added up in the order of the batches, or exchanged with other processes, which
// add in the same order. Both divide once, at the end: the bits are the same.
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// Its operator and what it has to do with.
typedef struct exchanged {
    ckm_i_ref_op r;
    int64_t n;
    const float *from;
    float *to;  // may be `from`
} exchanged;

static ckm_status open_op(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, exchanged *e,
                          ckm_error *err)
{
    e->r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&e->r, err));
    e->n = ckm_i_elements(&ckm_i_ref_in(&e->r, 0)->shape);
    e->from = ckm_i_ref_input(&e->r, 0);
    e->to = ckm_i_ref_output(&e->r, 0);
    return CKM_OK;
}

static void copy(const exchanged *e)
{
    if (e->to != e->from) {
        memcpy(e->to, e->from, (size_t)e->n * sizeof *e->to);
    }
}

// inputs gradient, sum of those before; the output is written by the last part only
static ckm_status gradient_sum(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    exchanged e;
    CKM_I_CHECK(open_op(step, op, call, &e, err));
    float *sum = ckm_i_ref_state(&e.r, 1);
    const float factor = call->parts > 1 ? (float)(1.0 / (double)call->parts) : 1.0F;
    if (call->parts <= 1) {
        copy(&e);
    } else if (call->part == 0) {
        memcpy(sum, e.from, (size_t)e.n * sizeof *sum);
    } else if (call->part < call->parts - 1) {
        for (int64_t i = 0; i < e.n; i++) {
            sum[i] += e.from[i];
        }
    } else {
        for (int64_t i = 0; i < e.n; i++) {
            float total = sum[i] + e.from[i];
            e.to[i] = total * factor;
        }
    }
    return CKM_OK;
}

// input gradient
static ckm_status gradient_send(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    exchanged e;
    CKM_I_CHECK(open_op(step, op, call, &e, err));
    copy(&e);
    return call->exchange != NULL ? call->exchange->begin(call->exchange, e.to, e.n, err) : CKM_OK;
}

// input what was sent
static ckm_status gradient_receive(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    exchanged e;
    CKM_I_CHECK(open_op(step, op, call, &e, err));
    if (call->exchange != NULL) {
        CKM_I_CHECK(call->exchange->end(call->exchange, e.from, err));
    }
    copy(&e);
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_exchange[] = {
    {CKM_I_OP_gradient_sum, NULL, gradient_sum},
    {CKM_I_OP_gradient_send, NULL, gradient_send},
    {CKM_I_OP_gradient_receive, NULL, gradient_receive},
    {0},
};
