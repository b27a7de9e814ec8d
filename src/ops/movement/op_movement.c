// SPDX-License-Identifier: Apache-2.0
// Operators that move elements and compute nothing: transpose, slice, split, pad, expand, tile, gather and
// the exchange of depth for space. All are free of multiply-accumulates.
#include "base/checked.h"
#include "autodiff/lower.h"
#include "graph/op_registry.h"
#include "graph/op_support.h"
#include "ops/gradients.h"

static ckm_status as_input(const ckm_i_op_view *v, const ckm_shape *shape, ckm_shape *out_shapes, ckm_dtype *out_dtypes)
{
    out_shapes[0] = *shape;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

// Attribute: `perm` (absent: reversed).
static ckm_status infer_transpose(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *in = &v->in[0]->shape;
    int64_t perm[CKM_MAX_RANK];
    for (int32_t i = 0; i < in->rank; i++) {
        perm[i] = in->rank - 1 - i;
    }
    if (ckm_i_op_attr(v->op, "perm") != NULL) {
        CKM_I_CHECK(ckm_i_op_list(v, "perm", in->rank, 0, in->rank - 1, 0, perm, err));
    }
    ckm_shape out = {.rank = in->rank};
    unsigned seen = 0;
    for (int32_t i = 0; i < in->rank; i++) {
        if ((seen >> perm[i] & 1U) != 0) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "perm lists axis %lld twice", (long long)perm[i]);
        }
        seen |= 1U << perm[i];
        out.dims[i] = in->dims[perm[i]];
    }
    return as_input(v, &out, out_shapes, out_dtypes);
}

// Attributes: `starts`, `steps`, `sizes`, one per axis: output i of an axis is input starts + i * steps.
static ckm_status infer_slice(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *in = &v->in[0]->shape;
    int64_t starts[CKM_I_ATTR_MAX];
    int64_t steps[CKM_I_ATTR_MAX];
    int64_t sizes[CKM_I_ATTR_MAX];
    CKM_I_CHECK(ckm_i_op_list(v, "starts", in->rank, 0, INT64_MAX, 0, starts, err));
    CKM_I_CHECK(ckm_i_op_list(v, "steps", in->rank, INT64_MIN + 1, INT64_MAX, 1, steps, err));
    CKM_I_CHECK(ckm_i_op_list(v, "sizes", in->rank, 0, INT64_MAX, 1, sizes, err));
    ckm_shape out = {.rank = in->rank};
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t last;
        bool fits = sizes[i] == 0 || (ckm_i_mul(sizes[i] - 1, steps[i], &last) && ckm_i_add(last, starts[i], &last) &&
                                      last >= 0 && last < in->dims[i] && starts[i] < in->dims[i]);
        if (!fits || steps[i] == 0) {
            return ckm_i_op_error(
                v, err, CKM_ERR_FORMAT, "%lld elements from %lld in steps of %lld do not exist on axis %d of size %lld",
                (long long)sizes[i], (long long)starts[i], (long long)steps[i], (int)i, (long long)in->dims[i]);
        }
        out.dims[i] = sizes[i];
    }
    return as_input(v, &out, out_shapes, out_dtypes);
}

// Attributes: `axis` (0), `sizes` (one per output; absent: equal parts, the last one smaller).
static ckm_status infer_split(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *in = &v->in[0]->shape;
    int32_t n = v->op->n_outputs;
    const ckm_i_attr *sizes = ckm_i_op_attr(v->op, "sizes");
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, 0), in->rank, &axis, err));
    if (sizes != NULL && sizes->n != n) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "%d sizes for %d outputs", (int)sizes->n, (int)n);
    }
    int64_t left = in->dims[axis];
    int64_t part = left / n + (left % n != 0);
    for (int32_t i = 0; i < n; i++) {
        int64_t size = sizes != NULL ? sizes->ints[i] : (left < part ? left : part);
        if (size < 0 || size > left) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its parts do not add up to %lld, the size of axis %d",
                                  (long long)in->dims[axis], (int)axis);
        }
        left -= size;
        out_shapes[i] = *in;
        out_shapes[i].dims[axis] = size;
        out_dtypes[i] = v->in[0]->dtype;
    }
    if (left != 0) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its parts do not add up to %lld, the size of axis %d",
                              (long long)in->dims[axis], (int)axis);
    }
    return CKM_OK;
}

// Attributes: `pads` (begin of every axis, then end of every axis; negative ones cut off), `mode`.
static ckm_status infer_pad(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *in = &v->in[0]->shape;
    int64_t pads[2 * CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_op_list(v, "pads", 2 * in->rank, -INT32_MAX, INT32_MAX, 0, pads, err));
    ckm_shape out = {.rank = in->rank};
    for (int32_t i = 0; i < in->rank; i++) {
        if (!ckm_i_add(in->dims[i], pads[i] + pads[i + in->rank], &out.dims[i])) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "the padded size of axis %d does not fit 63 bits", (int)i);
        }
    }
    return as_input(v, &out, out_shapes, out_dtypes);
}

// Attribute: `shape`, broadcast both ways with the input's.
static ckm_status infer_expand(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_i_attr *target = ckm_i_op_attr(v->op, "shape");
    ckm_shape shape = {0};
    if (target == NULL || target->n > CKM_MAX_RANK) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute shape must be up to %d integers", CKM_MAX_RANK);
    }
    for (int32_t i = 0; i < target->n; i++) {
        shape.dims[shape.rank++] = target->ints[i];
    }
    CKM_I_CHECK(ckm_i_op_broadcast(v, &v->in[0]->shape, &shape, &shape, err));
    return as_input(v, &shape, out_shapes, out_dtypes);
}

// Attribute: `repeats`, one per axis.
static ckm_status infer_tile(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    ckm_shape shape = v->in[0]->shape;
    int64_t repeats[CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_op_list(v, "repeats", shape.rank, 0, INT64_MAX, 1, repeats, err));
    for (int32_t i = 0; i < shape.rank; i++) {
        if (!ckm_i_mul(shape.dims[i], repeats[i], &shape.dims[i])) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "the size of axis %d does not fit 63 bits", (int)i);
        }
    }
    return as_input(v, &shape, out_shapes, out_dtypes);
}

// Inputs: data, positions. Attribute: `axis` (0), which the shape of the positions replaces.
static ckm_status infer_gather(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    const ckm_shape *data = &v->in[0]->shape;
    const ckm_shape *at = &v->in[1]->shape;
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, 0), data->rank, &axis, err));
    if (data->rank - 1 + at->rank > CKM_MAX_RANK) {
        return ckm_i_op_error(v, err, CKM_ERR_UNSUPPORTED, "its output has more than %d dimensions", CKM_MAX_RANK);
    }
    ckm_shape out = {0};
    for (int32_t i = 0; i < axis; i++) {
        out.dims[out.rank++] = data->dims[i];
    }
    for (int32_t i = 0; i < at->rank; i++) {
        out.dims[out.rank++] = at->dims[i];
    }
    for (int32_t i = axis + 1; i < data->rank; i++) {
        out.dims[out.rank++] = data->dims[i];
    }
    return as_input(v, &out, out_shapes, out_dtypes);
}

// Positions of as many dimensions as the data: on every axis but the one they are positions on they stay within it.
static ckm_status check_element_positions(const ckm_i_op_view *v, ckm_error *err)
{
    const ckm_shape *data = &v->in[0]->shape;
    const ckm_shape *at = &v->in[1]->shape;
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 1, data->rank, data->rank, err));
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, 0), data->rank, &axis, err));
    for (int32_t i = 0; i < data->rank; i++) {
        if (i != axis && at->dims[i] > data->dims[i]) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                                  "axis %d has %lld elements in its positions, %lld in its data", (int)i,
                                  (long long)at->dims[i], (long long)data->dims[i]);
        }
    }
    return CKM_OK;
}

// Updates of this shape, and of the data's type.
static ckm_status check_updates(const ckm_i_op_view *v, const ckm_shape *wanted, ckm_error *err)
{
    if (v->in[2]->dtype != v->in[0]->dtype) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its updates and its data differ in element type");
    }
    if (!ckm_i_shapes_equal(&v->in[2]->shape, wanted)) {
        char have[256];
        char want[256];
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its updates have shape %s; its positions ask for %s",
                              ckm_i_shape_text(&v->in[2]->shape, have, sizeof have),
                              ckm_i_shape_text(wanted, want, sizeof want));
    }
    return CKM_OK;
}

// Inputs: data, positions. The output is as the positions.
static ckm_status infer_gather_elements(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                                        ckm_error *err)
{
    CKM_I_CHECK(check_element_positions(v, err));
    return as_input(v, &v->in[1]->shape, out_shapes, out_dtypes);
}

// Inputs: data, positions, updates of the positions' shape. The output is as the data.
static ckm_status infer_scatter_elements(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                                         ckm_error *err)
{
    CKM_I_CHECK(check_element_positions(v, err));
    CKM_I_CHECK(check_updates(v, &v->in[1]->shape, err));
    return ckm_i_op_infer_same(v, out_shapes, out_dtypes, err);
}

// Positions whose last axis indexes axes of the data, behind the first `batch_dims`, which both have. Gives the shape of
// what stands at them.
static ckm_status shape_at_tuples(const ckm_i_op_view *v, int64_t batch_dims, ckm_shape *out, ckm_error *err)
{
    const ckm_shape *data = &v->in[0]->shape;
    const ckm_shape *at = &v->in[1]->shape;
    int64_t depth = at->rank > 0 ? at->dims[at->rank - 1] : 0;
    bool fits = at->rank > batch_dims && depth >= 1 && depth <= data->rank - batch_dims;
    for (int32_t i = 0; fits && i < batch_dims; i++) {
        fits = at->dims[i] == data->dims[i];
    }
    if (!fits) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its positions do not fit its data");
    }
    int32_t used = (int32_t)(batch_dims + depth);
    if (at->rank - 1 + data->rank - used > CKM_MAX_RANK) {
        return ckm_i_op_error(v, err, CKM_ERR_UNSUPPORTED, "its output has more than %d dimensions", CKM_MAX_RANK);
    }
    ckm_shape shape = {0};
    for (int32_t i = 0; i < at->rank - 1; i++) {
        shape.dims[shape.rank++] = at->dims[i];
    }
    for (int32_t i = used; i < data->rank; i++) {
        shape.dims[shape.rank++] = data->dims[i];
    }
    *out = shape;
    return CKM_OK;
}

// Inputs: data, positions.
static ckm_status infer_gather_nd(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    int64_t batch_dims;
    ckm_shape out;
    CKM_I_CHECK(ckm_i_op_int(v, "batch_dims", 0, v->in[0]->shape.rank, 0, &batch_dims, err));
    CKM_I_CHECK(shape_at_tuples(v, batch_dims, &out, err));
    return as_input(v, &out, out_shapes, out_dtypes);
}

// Inputs: data, positions, updates. The output is as the data.
static ckm_status infer_scatter_nd(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    ckm_shape wanted;
    CKM_I_CHECK(shape_at_tuples(v, 0, &wanted, err));
    CKM_I_CHECK(check_updates(v, &wanted, err));
    return ckm_i_op_infer_same(v, out_shapes, out_dtypes, err);
}

// Of the last two axes.
static ckm_status infer_triangle(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 2, CKM_MAX_RANK, err));
    return ckm_i_op_infer_same(v, out_shapes, out_dtypes, err);
}

// Attribute: `axis` (0).
static ckm_status infer_cumulative(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    int32_t axis;
    CKM_I_CHECK(ckm_i_op_axis(v, ckm_i_op_attr_int(v->op, "axis", 0, 0), v->in[0]->shape.rank, &axis, err));
    return ckm_i_op_infer_same(v, out_shapes, out_dtypes, err);
}

// Attribute: `block`; N,C*block*block,H,W and N,C,H*block,W*block.
static ckm_status infer_blocks(const ckm_i_op_view *v, bool to_space, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                               ckm_error *err)
{
    int64_t block;
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 4, 4, err));
    CKM_I_CHECK(ckm_i_op_int(v, "block", 1, 65536, 1, &block, err));
    ckm_shape shape = v->in[0]->shape;
    int32_t channel = ckm_i_channel_axis(v->graph, 4);
    int32_t space = ckm_i_spatial_axis(v->graph);
    int64_t *c = &shape.dims[channel];
    int64_t *h = &shape.dims[space];
    int64_t *w = &shape.dims[space + 1];
    bool fits = to_space ? *c % (block * block) == 0 : *h % block == 0 && *w % block == 0;
    if (!fits) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "its input does not divide into blocks of %lld",
                              (long long)block);
    }
    int64_t area = block * block;
    if (to_space) {
        *c /= area;
        fits = ckm_i_mul(*h, block, h) && ckm_i_mul(*w, block, w);
    } else {
        *h /= block;
        *w /= block;
        fits = ckm_i_mul(*c, area, c);
    }
    if (!fits) {
        return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its size does not fit 63 bits");
    }
    return as_input(v, &shape, out_shapes, out_dtypes);
}

static ckm_status infer_depth_to_space(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                                       ckm_error *err)
{
    return infer_blocks(v, true, out_shapes, out_dtypes, err);
}

static ckm_status infer_space_to_depth(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes,
                                       ckm_error *err)
{
    return infer_blocks(v, false, out_shapes, out_dtypes, err);
}

const ckm_i_op_class ckm_i_ops_movement[] = {
    {CKM_I_OP(transpose, 1, 1, 1, infer_transpose, NULL), CKM_I_OP_TRAITS(ELEMENTS, NONE, ELEMENTS, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, .lower = ckm_i_lower_transpose, CKM_I_OP_LEARNS(ckm_i_grad_of_transpose)},
    {CKM_I_OP(slice, 1, 1, 1, infer_slice, NULL), CKM_I_OP_TRAITS(PARTIAL, NONE, ELEMENTS, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, CKM_I_OP_LEARNS(ckm_i_grad_of_slice)},
    {CKM_I_OP(split, 1, 1, -1, infer_split, NULL), CKM_I_OP_PLAIN(PARTIAL, NONE), .lower = ckm_i_lower_first_axis,
     CKM_I_OP_LEARNS(ckm_i_grad_of_split), .learns_by_any_output = true},
    {CKM_I_OP(pad, 1, 1, 1, infer_pad, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), .lower = ckm_i_lower_pad,
     CKM_I_OP_LEARNS(ckm_i_grad_of_pad)},
    {CKM_I_OP(expand, 1, 1, 1, infer_expand, NULL), CKM_I_OP_TRAITS(ELEMENTS, NONE, ELEMENTS, NONE, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_NONE}, CKM_I_OP_LEARNS(ckm_i_grad_of_identity)},
    {CKM_I_OP(tile, 1, 1, 1, infer_tile, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE), CKM_I_OP_LEARNS(ckm_i_grad_of_tile)},
    {CKM_I_OP(gather, 2, 2, 1, infer_gather, NULL), CKM_I_OP_TRAITS(PARTIAL, NONE, NOTHING, FIRST_AXIS, ALLOWED),
     .init = {.weight = CKM_I_WEIGHT_PLAIN, .of[0] = CKM_I_INIT_SMALL}, .lower = ckm_i_lower_first_axis,
     CKM_I_OP_LEARNS(ckm_i_grad_of_gather)},
    {CKM_I_OP(gather_elements, 2, 2, 1, infer_gather_elements, NULL), CKM_I_OP_PLAIN(PARTIAL, NONE),
     .lower = ckm_i_lower_first_axis, CKM_I_OP_LEARNS(ckm_i_grad_of_gather_elements)},
    {CKM_I_OP(gather_nd, 2, 2, 1, infer_gather_nd, NULL), CKM_I_OP_PLAIN(PARTIAL, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_of_gather_nd)},
    {CKM_I_OP(scatter_nd, 3, 3, 1, infer_scatter_nd, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_of_scatter_nd)},
    {CKM_I_OP(scatter_elements, 3, 3, 1, infer_scatter_elements, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_first_axis, CKM_I_OP_LEARNS(ckm_i_grad_of_scatter_elements)},
    {CKM_I_OP(depth_to_space, 1, 1, 1, infer_depth_to_space, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_blocks, CKM_I_OP_LEARNS(ckm_i_grad_of_depth_to_space)},
    {CKM_I_OP(space_to_depth, 1, 1, 1, infer_space_to_depth, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     .lower = ckm_i_lower_blocks, CKM_I_OP_LEARNS(ckm_i_grad_of_space_to_depth)},
    // The upper or lower triangle; what is outside becomes zero.
    {CKM_I_OP(triangle, 1, 1, 1, infer_triangle, NULL), CKM_I_OP_PLAIN(ELEMENTS, NONE),
     CKM_I_OP_LEARNS(ckm_i_grad_applies_again)},
    {CKM_I_OP(cumulative_sum, 1, 1, 1, infer_cumulative, ckm_i_op_macs_one_per_input), CKM_I_OP_PLAIN(ELEMENTS, FIRST),
     .lower = ckm_i_lower_cumulative_sum, CKM_I_OP_LEARNS(ckm_i_grad_of_cumulative_sum)},
    {0},
};
