// SPDX-License-Identifier: Apache-2.0
// Gradients of layers with weights: convolutions, dense layers, biases, operands that broadcasting repeats. Each
// costs what the forward operator does.
#include "base/checked.h"
#include "graph/op_grad_support.h"
#include "graph/op_registry.h"

static ckm_status product(const ckm_i_op_view *v, const ckm_shape *shape, int64_t factor, int64_t *macs, ckm_error *err)
{
    int64_t elements;
    CKM_I_CHECK(ckm_i_op_elements(v, shape, &elements, err));
    return ckm_i_mul(elements, factor, macs)
               ? CKM_OK
               : ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
}

// (dy, x) -> dweight of attribute weight_shape.
static ckm_status conv_weights_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape weight;
    CKM_I_CHECK(ckm_i_grad_shape(v, "weight_shape", &weight, err));
    CKM_I_CHECK(ckm_i_grad_check_forward(v, &v->in[1]->shape, &weight, err));
    shapes[0] = weight;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// Per element of dy, one for every element of one filter: the weight's elements over its output channels.
static ckm_status conv_cost(const ckm_i_op_view *v, const ckm_shape *weight, int64_t *macs, ckm_error *err)
{
    const ckm_shape *dy = &v->in[0]->shape;
    int64_t elements;
    CKM_I_CHECK(ckm_i_op_elements(v, weight, &elements, err));
    return product(v, dy, elements / dy->dims[ckm_i_channel_axis(v->graph, dy->rank)], macs, err);
}

static ckm_status conv_data_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return conv_cost(v, &v->in[1]->shape, macs, err);
}

static ckm_status conv_weights_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return conv_cost(v, &v->graph->tensors[v->op->outputs[0]].shape, macs, err);
}

// As the forward operator: input channels per element of dy.
static ckm_status transpose_data_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    const ckm_shape *dx = &v->graph->tensors[v->op->outputs[0]].shape;
    return product(v, &v->in[0]->shape, dx->dims[ckm_i_channel_axis(v->graph, dx->rank)], macs, err);
}

static ckm_status transpose_weights_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    const ckm_shape *x = &v->in[1]->shape;
    return product(v, &v->in[0]->shape, x->dims[ckm_i_channel_axis(v->graph, x->rank)], macs, err);
}

// (dy, x) -> dweight; both have the same leading axes, which are summed over.
static ckm_status dense_weights_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    int64_t transposed;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "transposed", 0, 1, 0, &transposed, err));
    const ckm_shape *x = &v->in[1]->shape;
    ckm_shape wanted = v->in[0]->shape;
    int64_t units = wanted.dims[wanted.rank - 1];
    int64_t features = x->rank > 0 ? x->dims[x->rank - 1] : 0;
    wanted.dims[wanted.rank - 1] = features;
    CKM_I_CHECK(ckm_i_grad_check(v, 1, &wanted, err));
    shapes[0] = (ckm_shape){2, {transposed ? units : features, transposed ? features : units}};
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

static ckm_status dense_weights_macs(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    const ckm_shape *x = &v->in[1]->shape;
    return product(v, &v->in[0]->shape, x->dims[x->rank - 1], macs, err);
}

// (dy) -> the sum over all axes but one.
static ckm_status bias_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    const ckm_shape *dy = &v->in[0]->shape;
    int64_t axis;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 1, CKM_MAX_RANK, err));
    CKM_I_CHECK(ckm_i_op_int(v, "axis", 0, dy->rank - 1, dy->rank - 1, &axis, err));
    shapes[0] = (ckm_shape){1, {dy->dims[axis]}};
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// (dy) -> attribute shape, which broadcasting repeats to dy's.
static ckm_status sum_to_infer(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err)
{
    ckm_shape shape;
    ckm_shape all;
    CKM_I_CHECK(ckm_i_grad_shape(v, "shape", &shape, err));
    CKM_I_CHECK(ckm_i_op_broadcast(v, &v->in[0]->shape, &shape, &all, err));
    CKM_I_CHECK(ckm_i_grad_check(v, 0, &all, err));
    shapes[0] = shape;
    dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

const ckm_i_op_class ckm_i_ops_grad_conv[] = {
    {CKM_I_OP(conv_backward_data, 2, 2, 1, ckm_i_grad_infer_input_with, conv_data_macs),
     CKM_I_OP_PLAIN(CONVOLUTION, NONE), CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(conv_backward_weights, 2, 2, 1, conv_weights_infer, conv_weights_macs), CKM_I_OP_PLAIN(CONVOLUTION, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(conv_transpose_backward_data, 2, 2, 1, ckm_i_grad_infer_input_with, transpose_data_macs),
     CKM_I_OP_PLAIN(TRANSPOSED, NONE), CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(conv_transpose_backward_weights, 2, 2, 1, conv_weights_infer, transpose_weights_macs),
     CKM_I_OP_PLAIN(TRANSPOSED, NONE), CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(dense_backward_weights, 2, 2, 1, dense_weights_infer, dense_weights_macs), CKM_I_OP_PLAIN(PRODUCT, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(bias_grad, 1, 1, 1, bias_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {CKM_I_OP(sum_to, 1, 1, 1, sum_to_infer, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_BEHIND_LOSS},
    {0},
};
