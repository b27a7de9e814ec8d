// SPDX-License-Identifier: Apache-2.0
// Normalizations that keep no running statistics: over the last axes, over groups of channels, over one
// channel of one sample, over neighbouring channels.
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

enum { NORM_COST = 4 };  // as batch_norm: per element, the paper's count

// Mean and inverse deviation, when asked for, have one element per normalized slice.
static ckm_status infer_layer_norm(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *in = &v->in[0]->shape;
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, -1), in->rank, &axis, err));
    ckm_shape slices = *in;
    for (int32_t i = axis; i < in->rank; i++) {
        slices.dims[i] = 1;
    }
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        ckm_shape fitted;
        if (v->in[i] == NULL) {
            continue;
        }
        CKM_I_CHECK(ckm_i_op_broadcast(v, in, &v->in[i]->shape, &fitted, err));
        if (!ckm_i_shapes_equal(&fitted, in)) {
            char text[256];
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "scale or bias of shape %s is larger than the input",
                                  ckm_i_shape_text(&v->in[i]->shape, text, sizeof text));
        }
    }
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        out_shapes[i] = i == 0 ? *in : slices;
        out_dtypes[i] = i == 0 ? v->in[0]->dtype : CKM_F32;
    }
    return CKM_OK;
}

// Scale and bias are one number per channel (group_norm up to opset 20: per group). Mean and inverse deviation, when
// asked for, have one element per group of a sample.
static ckm_status infer_channel_norm(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                                     ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    const ckm_shape *in = &v->in[0]->shape;
    int64_t channels = in->dims[ckm_i_channel_axis(v->graph, in->rank)];
    int64_t groups;
    CKM_I_CHECK(ckm_i_op_int(v, "groups", 1, channels, channels, &groups, err));
    if (channels % groups != 0) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%lld channels do not divide into %lld groups",
                              (long long)channels, (long long)groups);
    }
    for (int32_t i = 1; i < v->op->n_inputs; i++) {
        if (v->in[i] == NULL) {
            continue;
        }
        const ckm_shape *s = &v->in[i]->shape;
        if (s->rank != 1 || (s->dims[0] != channels && s->dims[0] != groups)) {
            char text[256];
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input %d is %s; the data has %lld channels", (int)i,
                                  ckm_i_shape_text(s, text, sizeof text), (long long)channels);
        }
    }
    for (int32_t i = 0; i < v->op->n_outputs; i++) {
        out_shapes[i] = i == 0 ? *in : (ckm_shape){2, {in->dims[0], groups}};
        out_dtypes[i] = v->in[0]->dtype;
    }
    return CKM_OK;
}

// The norm is that of p = 1 or 2, along one axis.
static ckm_status infer_lp_norm(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    int32_t axis;
    int64_t p;
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, -1), v->in[0]->shape.rank, &axis, err));
    CKM_I_CHECK(ckm_i_op_int(v, "p", 1, 2, 2, &p, err));
    return ckm_i_op_infer_same(v, out_shapes, out_dtypes, err);
}

// Over neighbouring channels.
static ckm_status infer_response_norm(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                                      ckm_error *err)
{
    int64_t size;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "size", 1, INT32_MAX, 5, &size, err));
    return ckm_i_op_infer_same(v, out_shapes, out_dtypes, err);
}

static ckm_status count_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, NORM_COST, macs, err);
}

const ckm_i_op_class ckm_i_ops_layer_norm[] = {
    {CKM_I_OP(layer_norm, 1, 3, 3, infer_layer_norm, count_macs),
     CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_ONE}, .lower = ckm_i_lower_layer_norm,
     CKM_I_OP_LEARNS(ckm_i_grad_of_layer_norm)},
    {CKM_I_OP(group_norm, 1, 3, 3, infer_channel_norm, count_macs),
     CKM_I_OP_TRAITS(ELEMENTS, NONE, NOTHING, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[1] = CKM_I_INIT_ONE}, .lower = ckm_i_lower_group_norm,
     CKM_I_OP_LEARNS(ckm_i_grad_of_group_norm)},
    {CKM_I_OP(instance_norm, 1, 3, 1, infer_channel_norm, count_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_group_norm, CKM_I_OP_REWRITTEN},
    {CKM_I_OP(local_response_norm, 1, 1, 1, infer_response_norm, count_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_of_local_response_norm)},
    {CKM_I_OP(lp_norm, 1, 1, 1, infer_lp_norm, count_macs), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_last_axis, CKM_I_OP_LEARNS(ckm_i_grad_of_lp_norm)},
    {0},
};
