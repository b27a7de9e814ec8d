// SPDX-License-Identifier: Apache-2.0
// Operators that move or pass on data: dropout, flatten, reshape, identity, lambda. All free.
#include "base/checked.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status dropout_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    double rate = ckm_i_op_attr_double(v->op, "rate", 0.5);
    if (!(rate >= 0.0 && rate <= 1.0)) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute rate is %g; it must be from 0 to 1", rate);
    }
    shapes[0] = v->in[0]->shape;
    dtypes[0] = v->in[0]->dtype;
    if (v->op->n_outputs > 1) {
        shapes[1] = shapes[0];
        dtypes[1] = CKM_BOOL;
    }
    return CKM_OK;
}

static ckm_status flatten_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    const ckm_shape *x = &v->in[0]->shape;
    int64_t axis;
    CKM_I_CHECK(ckm_i_op_int(v, "axis", -(int64_t)x->rank, x->rank, x->rank > 0 ? 1 : 0, &axis, err));
    axis = axis < 0 ? axis + x->rank : axis;
    ckm_shape rows = {.rank = (int32_t)axis};
    ckm_shape columns = {.rank = x->rank - (int32_t)axis};
    for (int32_t i = 0; i < x->rank; i++) {
        if (i < axis) {
            rows.dims[i] = x->dims[i];
        } else {
            columns.dims[i - axis] = x->dims[i];
        }
    }
    ckm_shape out = {.rank = 2};
    CKM_I_CHECK(ckm_i_op_elements(v, &rows, &out.dims[0], err));
    CKM_I_CHECK(ckm_i_op_elements(v, &columns, &out.dims[1], err));
    shapes[0] = out;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// Copies the dimensions that 0 stands for and finds the axis of -1 (-1: none).
static ckm_status reshape_target(const ckm_i_op_view *v, ckm_shape *out, int32_t *inferred, ckm_error *err)
{
    const ckm_i_attr *attr = ckm_i_op_attr(v->op, "shape");
    if (attr == NULL || attr->type != CKM_I_ATTR_INTS || attr->n > CKM_MAX_RANK) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute shape must be a list of up to %d integers",
                              CKM_MAX_RANK);
    }
    const ckm_shape *x = &v->in[0]->shape;
    bool copies = ckm_i_op_attr_int(v->op, "allow_zero", 0, 0) == 0;
    *inferred = -1;
    out->rank = attr->n;
    for (int32_t i = 0; i < attr->n; i++) {
        out->dims[i] = attr->ints[i];
        if (attr->ints[i] == 0 && copies && i < x->rank) {
            out->dims[i] = x->dims[i];
        } else if (attr->ints[i] == -1 && *inferred < 0) {
            *inferred = i;
        } else if (attr->ints[i] < 1) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute shape holds %lld at axis %d",
                                  (long long)attr->ints[i], (int)i);
        }
    }
    return CKM_OK;
}

static ckm_status reshape_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape out = {0};
    int32_t inferred;
    int64_t have;
    int64_t want;
    CKM_I_CHECK(reshape_target(v, &out, &inferred, err));
    CKM_I_CHECK(ckm_i_op_elements(v, &v->in[0]->shape, &have, err));
    if (inferred >= 0) {
        out.dims[inferred] = 1;
    }
    CKM_I_CHECK(ckm_i_op_elements(v, &out, &want, err));
    if (inferred >= 0 && have % want == 0) {
        out.dims[inferred] = have / want;
        want = have;
    }
    if (have != want) {
        char from[256];
        char to[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%s cannot be reshaped to %s",
                              ckm_i_shape_text(&v->in[0]->shape, from, sizeof from),
                              ckm_i_shape_text(&out, to, sizeof to));
    }
    shapes[0] = out;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// lambda: a function only its author knows; the output shape is given, without the batch.
static ckm_status lambda_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    const ckm_i_attr *attr = ckm_i_op_attr(v->op, "shape");
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    if (attr == NULL || attr->type != CKM_I_ATTR_INTS || attr->n > CKM_MAX_RANK - 1) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute shape must be a list of up to %d integers",
                              CKM_MAX_RANK - 1);
    }
    shapes[0].rank = attr->n + 1;
    shapes[0].dims[0] = v->in[0]->shape.dims[0];
    CKM_I_CHECK(ckm_i_op_list(v, "shape", attr->n, 1, INT64_MAX, 1, &shapes[0].dims[1], err));
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_basic[] = {
    {CKM_I_OP(dropout, 1, 3, 2, dropout_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, FIRST), .lower = ckm_i_lower_dropout,
     CKM_I_OP_LEARNS(ckm_i_grad_applies_again)},
    {CKM_I_OP(flatten, 1, 1, 1, flatten_infer, NULL), CKM_I_OP_TRAITS(VIEW, NONE, BUFFER, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, .lower = ckm_i_lower_reshape, CKM_I_OP_LEARNS(ckm_i_grad_of_reshape)},
    {CKM_I_OP(reshape, 1, 2, 1, reshape_infer, NULL), CKM_I_OP_TRAITS(VIEW, NONE, BUFFER, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, .lower = ckm_i_lower_reshape, CKM_I_OP_LEARNS(ckm_i_grad_of_reshape)},
    {CKM_I_OP(identity, 1, 1, 1, ckm_i_op_infer_same, NULL), CKM_I_OP_TRAITS(VIEW, NONE, BUFFER, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, CKM_I_OP_LEARNS(ckm_i_grad_of_identity)},
    {CKM_I_OP(lambda, 1, 1, 1, lambda_infer, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), .lower = ckm_i_lower_lambda,
     CKM_I_OP_REWRITTEN},
    {0},
};
