// SPDX-License-Identifier: Apache-2.0
// Normalizations in training: the form of batch normalization that keeps the batch's statistics for the backward
// pass, and gradients. One operator gives the gradients of data, scale and bias: they come from the same sums.
#include <string.h>

#include "graph/op_grad_support.h"
#include "graph/op_registry.h"
#include "ops/gradients.h"

enum { NORM_COST = 4, NORM_BACKWARD_COST = 8 };  // per element; forward as the paper counts

static ckm_status check_per_channel(const ckm_i_op_view *v, int32_t first, const ckm_shape *per_channel, ckm_error *err)
{
    for (int32_t i = first; i < v->op->n_inputs; i++) {
        if (v->in[i] != NULL) {
            CKM_I_CHECK(ckm_i_grad_check(v, i, per_channel, err));
        }
    }
    return CKM_OK;
}

static ckm_status channels_of(const ckm_i_op_view *v, ckm_shape *per_channel, ckm_error *err)
{
    const ckm_shape *x = &v->in[0]->shape;
    int64_t axis;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "axis", 0, x->rank - 1, ckm_i_channel_axis(v->graph, x->rank), &axis, err));
    *per_channel = (ckm_shape){1, {x->dims[axis]}};
    return CKM_OK;
}

static void fill_outputs(const ckm_i_op_view *v, const ckm_shape *rest, ckm_shape *shapes, ckm_dtype *dtypes)
{
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        shapes[i] = i == 0 ? v->in[0]->shape : *rest;
        dtypes[i] = v->in[0]->dtype;
    }
}

// x, [gamma], [beta], [mean], [variance] -> y, mean and inverse deviation of the batch.
static ckm_status batch_train_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape per_channel;
    CKM_I_CHECK(channels_of(v, &per_channel, err));
    CKM_I_CHECK(check_per_channel(v, 1, &per_channel, err));
    fill_outputs(v, &per_channel, shapes, dtypes);
    return CKM_OK;
}

// x, [gamma], [beta], mean, variance -> y.
static ckm_status batch_apply_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape per_channel;
    CKM_I_CHECK(channels_of(v, &per_channel, err));
    CKM_I_CHECK(check_per_channel(v, 1, &per_channel, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 3, &per_channel, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 4, &per_channel, err));
    shapes[0] = v->in[0]->shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// dy, x, [gamma], mean, inverse deviation -> dx, dgamma, dbeta.
static ckm_status batch_backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape per_channel;
    CKM_I_CHECK(channels_of(v, &per_channel, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &v->in[0]->shape, err));
    CKM_I_CHECK(check_per_channel(v, 2, &per_channel, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 3, &per_channel, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 4, &per_channel, err));
    fill_outputs(v, &per_channel, shapes, dtypes);
    return CKM_OK;
}

// Input i, if it is there, repeats over the normalized axes; it may have axes of 1 before them.
static ckm_status check_row(const ckm_i_op_view *v, int32_t i, const ckm_shape *normalized, ckm_error *err)
{
    ckm_shape all;
    ckm_shape wanted = *normalized;
    if (i >= v->op->n_inputs || v->in[i] == NULL) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_op_broadcast(v, normalized, &v->in[i]->shape, &all, err));
    for (int32_t k = 0; k < all.rank - normalized->rank; k++) {
        wanted.dims[k] = 1;
    }
    memcpy(wanted.dims + all.rank - normalized->rank, normalized->dims, (size_t)normalized->rank * sizeof *wanted.dims);
    wanted.rank = all.rank;
    if (!ckm_i_shapes_equal(&all, &wanted)) {
        char text[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "a scale of shape %s is more than one row",
                              ckm_i_shape_text(&v->in[i]->shape, text, sizeof text));
    }
    return CKM_OK;
}

// dy, x, [scale], mean, inverse deviation -> dx, dscale, dbias of the normalized axes.
static ckm_status layer_backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    const ckm_shape *x = &v->in[0]->shape;
    int64_t axis;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 1, x, err));
    CKM_I_CHECK(ckm_i_op_int(v, "axis", 0, x->rank - 1, x->rank - 1, &axis, err));
    ckm_shape normalized = {.rank = x->rank - (int32_t)axis};
    ckm_shape slices = *x;
    for (int32_t i = (int32_t)axis; i < x->rank; i++) {
        normalized.dims[i - axis] = x->dims[i];
        slices.dims[i] = 1;
    }
    CKM_I_CHECK(check_row(v, 2, &normalized, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 3, &slices, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 4, &slices, err));
    fill_outputs(v, &normalized, shapes, dtypes);
    return CKM_OK;
}

// dy, x, [scale], mean, inverse deviation -> dx, dscale, dbias per channel.
static ckm_status group_backward_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    const ckm_shape *x = &v->in[0]->shape;
    int64_t groups;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 1, x, err));
    ckm_shape channels = {1, {x->dims[ckm_i_channel_axis(v->graph, x->rank)]}};
    CKM_I_CHECK(ckm_i_op_int(v, "groups", 1, channels.dims[0], channels.dims[0], &groups, err));
    ckm_shape statistics = {2, {x->dims[0], groups}};
    CKM_I_CHECK(ckm_i_grad_check(v, 3, &statistics, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 4, &statistics, err));
    fill_outputs(v, &channels, shapes, dtypes);
    return CKM_OK;
}

// dy, x -> dx.
static ckm_status forward_checked_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_grad_check_forward(v, &v->in[0]->shape, NULL, err));
    return ckm_i_grad_infer_same(v, shapes, dtypes, err);
}

static ckm_status forward_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, NORM_COST, macs, err);
}

static ckm_status backward_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, NORM_BACKWARD_COST, macs, err);
}

const ckm_i_op_class ckm_i_ops_grad_norm[] = {
    {CKM_I_OP(batch_norm_train, 1, 5, 3, batch_train_infer, forward_macs),
     CKM_I_OP_TRAITS(TWO_PASSES, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_ONE, .of[4] = CKM_I_INIT_ONE},
     CKM_I_OP_LEARNS(ckm_i_grad_of_batch_norm)},
    {CKM_I_OP(batch_norm_apply, 1, 5, 1, batch_apply_infer, forward_macs),
     CKM_I_OP_TRAITS(ELEMENTS, FIRST, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_ONE, .of[4] = CKM_I_INIT_ONE}, CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(batch_norm_backward, 2, 5, 3, batch_backward_infer, backward_macs), CKM_I_OP_PLAIN(TWO_PASSES, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(layer_norm_backward, 2, 5, 3, layer_backward_infer, backward_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(group_norm_backward, 2, 5, 3, group_backward_infer, backward_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(local_response_norm_backward, 2, 2, 1, forward_checked_infer, backward_macs),
     CKM_I_OP_PLAIN(ELEMENTS, NONE), CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(lp_norm_backward, 2, 2, 1, forward_checked_infer, backward_macs), CKM_I_OP_PLAIN(ELEMENTS, BOTH),
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
