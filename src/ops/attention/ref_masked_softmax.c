// SPDX-License-Identifier: Apache-2.0
// Softmax over the keys that a query sees. A row is read before it is written, so the output may share the operand's
// buffer.
#include <math.h>
#include <string.h>

#include "ops/attention/ref_attention.h"
#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

static ckm_i_ref_map read_map(const ckm_i_graph_op *op)
{
    ckm_i_ref_map m;
    for (int32_t i = 0; i < 2; i++) {
        m.grid[i] = ckm_i_op_attr_int(op, "grid", i, 1);
        m.window[i] = ckm_i_op_attr_int(op, "window", i, 1);
        m.shift[i] = ckm_i_op_attr_int(op, "shift", i, 0);
    }
    return m;
}

// Row `row` of all rows: which of its n keys the query sees.
static void fill_mask(const ckm_i_graph_op *op, const ckm_shape *shape, int64_t row, bool *mask)
{
    int64_t keys = shape->dims[shape->rank - 1];
    int64_t queries = shape->dims[shape->rank - 2];
    int64_t query = row % queries;
    if (strcmp(ckm_i_op_attr_text(op, "mask", ""), "causal") == 0) {
        for (int64_t k = 0; k < keys; k++) {
            mask[k] = k <= query + keys - queries;
        }
        return;
    }
    ckm_i_ref_map m = read_map(op);
    int64_t window = row / (queries * shape->dims[1]) % ckm_i_ref_map_windows(&m);
    for (int64_t k = 0; k < keys; k++) {
        mask[k] = ckm_i_ref_map_part(&m, window, query) == ckm_i_ref_map_part(&m, window, k);
    }
}

static int64_t workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    const ckm_shape *x = &v->in[0]->shape;
    (void)step;
    return x->dims[x->rank - 1] * (int64_t)sizeof(bool);
}

static void softmax_row(const float *x, const bool *mask, int64_t n, float *y)
{
    float best = -INFINITY;
    for (int64_t k = 0; k < n; k++) {
        best = mask[k] && x[k] > best ? x[k] : best;
    }
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        y[k] = mask[k] ? expf(x[k] - best) : 0.0F;
        sum += (double)y[k];
    }
    float factor = (float)(1.0 / sum);
    for (int64_t k = 0; k < n; k++) {
        y[k] *= factor;
    }
}

// inputs x; attributes mask, and those of the windows
static ckm_status masked_softmax(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    int64_t n = shape->dims[shape->rank - 1];
    int64_t rows = ckm_i_ref_span(shape, 0, shape->rank - 1);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    for (int64_t row = 0; row < rows; row++) {
        fill_mask(r.op, shape, row, call->workspace);
        softmax_row(x + row * n, call->workspace, n, y + row * n);
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_masked_softmax[] = {
    {CKM_I_OP_masked_softmax, workspace, masked_softmax},
    {0},
};
