// SPDX-License-Identifier: Apache-2.0
// Several inputs into one: add, concat.
#include "base/checked.h"
#include "base/error.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status check_operands(const ckm_i_op_view *v, ckm_error *err)
{
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        const ckm_i_graph_tensor *t = ckm_i_op_view_input(v, i);
        if (t == NULL) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "operand %d is missing", (int)i);
        }
        if (t->dtype != v->in[0]->dtype) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "operands 0 and %d differ in element type", (int)i);
        }
    }
    return CKM_OK;
}

static ckm_status add_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(check_operands(v, err));
    ckm_shape out = v->in[0]->shape;
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        CKM_I_CHECK(ckm_i_op_broadcast(v, &out, &ckm_i_op_view_input(v, i)->shape, &out, err));
    }
    shapes[0] = out;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status add_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    int64_t total = 0;
    for (int32_t i = 0; i < v->op->n_inputs; i++) {
        int64_t elements;
        CKM_I_CHECK(ckm_i_op_elements(v, &ckm_i_op_view_input(v, i)->shape, &elements, err));
        if (!ckm_i_add(total, elements, &total)) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
        }
    }
    *macs = total;
    return CKM_OK;
}

static ckm_status concat_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(check_operands(v, err));
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    ckm_shape out = v->in[0]->shape;
    int64_t wanted;
    int32_t axis;
    int64_t fallback = out.rank >= 2 ? ckm_i_channel_axis(v->graph, out.rank) : 0;
    CKM_I_CHECK(ckm_i_op_int(v, "axis", -CKM_MAX_RANK, CKM_MAX_RANK, fallback, &wanted, err));
    CKM_I_CHECK(ckm_i_op_axis(v, wanted, out.rank, &axis, err));
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        const ckm_shape *shape = &ckm_i_op_view_input(v, i)->shape;
        bool fits = shape->rank == out.rank;
        for (int32_t d = 0; fits && d < out.rank; d++) {
            fits = d == axis || shape->dims[d] == out.dims[d];
        }
        if (!fits) {
            char first[256];
            char other[256];
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                                  "operands 0 and %d of shape %s and %s cannot be joined at axis %d", (int)i,
                                  ckm_i_shape_text(&v->in[0]->shape, first, sizeof first),
                                  ckm_i_shape_text(shape, other, sizeof other), (int)axis);
        }
        if (!ckm_i_add(out.dims[axis], shape->dims[axis], &out.dims[axis])) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "axis %d of its output does not fit 63 bits", (int)axis);
        }
    }
    shapes[0] = out;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_merge[] = {
    {CKM_I_OP(add, 2, -1, 1, add_infer, add_macs), CKM_I_OP_TRAITS(ELEMENTS, EVERY, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .every = CKM_I_INIT_POSITIONS}, .lower = ckm_i_lower_wide,
     CKM_I_OP_LEARNS(ckm_i_grad_of_add)},
    {CKM_I_OP(concat, 1, -1, 1, concat_infer, NULL), CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .every = CKM_I_INIT_POSITIONS}, .lower = ckm_i_lower_concat,
     CKM_I_OP_LEARNS(ckm_i_grad_of_concat)},
    {0},
};
