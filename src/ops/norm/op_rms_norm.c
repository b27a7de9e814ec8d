// SPDX-License-Identifier: Apache-2.0
// Normalization by the root mean square of the last axis (Zhang and Sennrich 2019, "Root Mean Square Layer
// Normalization", equation 4) and its gradient. One operator, as in every framework's fused kernel: written with
// squares, a mean and products it would keep three tensors of x's size for the backward pass instead of x and one
// number a row.
#include "graph/op_grad_support.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "ops/gradients.h"

enum { NORM_COST = 4, NORM_BACKWARD_COST = 8 };  // per element, as layer_norm

static void shapes_of(const ckm_shape *x, ckm_shape *rows, ckm_shape *scale)
{
    *rows = *x;
    rows->dims[x->rank - 1] = 1;
    *scale = (ckm_shape){1, {x->dims[x->rank - 1]}};
}

// x, [scale] -> y, inverse root mean square of every row.
static ckm_status forward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape rows;
    ckm_shape scale;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    shapes_of(&v->in[0]->shape, &rows, &scale);
    if (v->op->n_inputs > 1 && v->in[1] != NULL) {
        CKM_I_CHECK(ckm_i_grad_check(v, 1, &scale, err));
    }
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        shapes[i] = i == 0 ? v->in[0]->shape : rows;
        dtypes[i] = v->in[0]->dtype;
    }
    return CKM_OK;
}

// dy, x, [scale], inverse root mean square -> dx, dscale.
static ckm_status backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape rows;
    ckm_shape scale;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    shapes_of(&v->in[0]->shape, &rows, &scale);
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    if (v->in[2] != NULL) {
        CKM_I_CHECK(ckm_i_grad_check(v, 2, &scale, err));
    }
    CKM_I_CHECK(ckm_i_grad_check(v, 3, &rows, err));
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        shapes[i] = i == 0 ? v->in[0]->shape : scale;
        dtypes[i] = v->in[0]->dtype;
    }
    return CKM_OK;
}

static ckm_status forward_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, NORM_COST, macs, err);
}

static ckm_status backward_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, NORM_BACKWARD_COST, macs, err);
}

const ckm_i_op_class ckm_i_ops_rms_norm[] = {
    {CKM_I_OP(rms_norm, 1, 2, 2, forward_infer, forward_macs), CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_ONE}, .lower = ckm_i_lower_rms_norm,
     CKM_I_OP_LEARNS(ckm_i_grad_of_rms_norm)},
    {CKM_I_OP(rms_norm_backward, 2, 4, 2, backward_infer, backward_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
