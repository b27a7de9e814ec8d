// SPDX-License-Identifier: Apache-2.0
// Operators that move elements: transpose, slice, pad, expand, tile, the exchange of depth for space, views.
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

static int64_t size_of(const ckm_i_ref_op *r)
{
    return ckm_i_dtype_bytes(ckm_i_ref_out(r, 0)->dtype);
}

static void clear(const ckm_i_ref_op *r)
{
    memset(ckm_i_ref_output(r, 0), 0, (size_t)(ckm_i_elements(&ckm_i_ref_out(r, 0)->shape) * size_of(r)));
}

// reshape, flatten, identity: views, which usually have their input's buffer.
static ckm_status view(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const void *from = ckm_i_ref_input(&r, 0);
    void *to = ckm_i_ref_output(&r, 0);
    if (from != to) {
        memmove(to, from, (size_t)(ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape) * size_of(&r)));
    }
    return CKM_OK;
}

// attribute perm (absent: reversed)
static ckm_status transpose(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_shape *in = &ckm_i_ref_in(&r, 0)->shape;
    const ckm_shape *out = &ckm_i_ref_out(&r, 0)->shape;
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t permuted[CKM_MAX_RANK] = {0};
    ckm_i_ref_strides(in, strides);
    for (int32_t i = 0; i < in->rank; i++) {
        permuted[i] = strides[ckm_i_op_attr_int(r.op, "perm", i, in->rank - 1 - i)];
    }
    ckm_i_ref_walk w = ckm_i_ref_walk_over(out);
    ckm_i_ref_walk_add(&w, out);
    ckm_i_ref_walk_add_strides(&w, permuted, 0);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(&r, 0), ckm_i_ref_input(&r, 0), size_of(&r));
    return CKM_OK;
}

// Adds the part of a tensor of shape `whole` that attributes starts and steps name.
static void add_part(const ckm_i_ref_op *r, ckm_i_ref_walk *w, const ckm_shape *whole)
{
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t first = 0;
    ckm_i_ref_strides(whole, strides);
    for (int32_t i = 0; i < whole->rank; i++) {
        first += ckm_i_op_attr_int(r->op, "starts", i, 0) * strides[i];
        strides[i] *= ckm_i_op_attr_int(r->op, "steps", i, 1);
    }
    ckm_i_ref_walk_add_strides(w, strides, first);
}

static ckm_status slice(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_shape *out = &ckm_i_ref_out(&r, 0)->shape;
    ckm_i_ref_walk w = ckm_i_ref_walk_over(out);
    ckm_i_ref_walk_add(&w, out);
    add_part(&r, &w, &ckm_i_ref_in(&r, 0)->shape);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(&r, 0), ckm_i_ref_input(&r, 0), size_of(&r));
    return CKM_OK;
}

// input dy; zeros but for what was read
static ckm_status slice_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_shape *dy = &ckm_i_ref_in(&r, 0)->shape;
    clear(&r);
    ckm_i_ref_walk w = ckm_i_ref_walk_over(dy);
    add_part(&r, &w, &ckm_i_ref_out(&r, 0)->shape);
    ckm_i_ref_walk_add(&w, dy);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(&r, 0), ckm_i_ref_input(&r, 0), size_of(&r));
    return CKM_OK;
}

static ckm_status expand(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_shape *out = &ckm_i_ref_out(&r, 0)->shape;
    ckm_i_ref_walk w = ckm_i_ref_walk_over(out);
    ckm_i_ref_walk_add(&w, out);
    ckm_i_ref_walk_add(&w, &ckm_i_ref_in(&r, 0)->shape);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(&r, 0), ckm_i_ref_input(&r, 0), size_of(&r));
    return CKM_OK;
}

// ---- borders and repeats

typedef enum border { BORDER_REFLECT, BORDER_EDGE, BORDER_WRAP } border;

// Where position i, which may lie outside, of an axis of n elements comes from.
static int64_t source(border mode, int64_t i, int64_t n)
{
    if (mode == BORDER_EDGE || n == 1) {
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    }
    int64_t period = mode == BORDER_WRAP ? n : 2 * (n - 1);
    i %= period;
    i = i < 0 ? i + period : i;
    return i < n ? i : period - i;
}

// Element of the small tensor that element `i` of the large one comes from; `begin` is the border before it.
static int64_t origin(const ckm_shape *large, const ckm_shape *small, const int64_t *begin, border mode, int64_t i)
{
    int64_t result = 0;
    int64_t stride = 1;
    for (int32_t axis = large->rank - 1; axis >= 0; axis--) {
        result += source(mode, i % large->dims[axis] - begin[axis], small->dims[axis]) * stride;
        i /= large->dims[axis];
        stride *= small->dims[axis];
    }
    return result;
}

static ckm_status repeat(const ckm_i_ref_op *r, const int64_t *begin, border mode)
{
    const ckm_shape *in = &ckm_i_ref_in(r, 0)->shape;
    const ckm_shape *out = &ckm_i_ref_out(r, 0)->shape;
    const char *x = ckm_i_ref_input(r, 0);
    char *y = ckm_i_ref_output(r, 0);
    int64_t size = size_of(r);
    int64_t n = ckm_i_elements(out);
    for (int64_t i = 0; i < n; i++) {
        memcpy(y + i * size, x + origin(out, in, begin, mode, i) * size, (size_t)size);
    }
    return CKM_OK;
}

static ckm_status repeat_backward(const ckm_i_ref_op *r, const int64_t *begin, border mode, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_ref_check_floats(r, err));
    const ckm_shape *large = &ckm_i_ref_in(r, 0)->shape;
    const ckm_shape *small = &ckm_i_ref_out(r, 0)->shape;
    const float *dy = ckm_i_ref_input(r, 0);
    float *dx = ckm_i_ref_output(r, 0);
    int64_t n = ckm_i_elements(large);
    clear(r);
    for (int64_t i = 0; i < n; i++) {
        dx[origin(large, small, begin, mode, i)] += dy[i];
    }
    return CKM_OK;
}

static border read_mode(const ckm_i_ref_op *r)
{
    const char *mode = ckm_i_op_attr_text(r->op, "mode", "constant");
    return strcmp(mode, "reflect") == 0 ? BORDER_REFLECT : strcmp(mode, "wrap") == 0 ? BORDER_WRAP : BORDER_EDGE;
}

static void pad_with_value(const ckm_i_ref_op *r, const int64_t *pads)
{
    const ckm_shape *in = &ckm_i_ref_in(r, 0)->shape;
    const ckm_shape *out = &ckm_i_ref_out(r, 0)->shape;
    double value = ckm_i_op_attr_double(r->op, "value", 0.0);
    int64_t n = ckm_i_elements(out);
    clear(r);
    for (int64_t i = 0; value != 0.0 && i < n; i++) {
        ckm_i_ref_store(ckm_i_ref_output(r, 0), ckm_i_ref_out(r, 0)->dtype, i, value);
    }
    ckm_shape common = *in;
    int64_t from_strides[CKM_MAX_RANK] = {0};
    int64_t to_strides[CKM_MAX_RANK] = {0};
    int64_t from = 0;
    int64_t to = 0;
    ckm_i_ref_strides(in, from_strides);
    ckm_i_ref_strides(out, to_strides);
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t skipped = pads[i] < 0 ? -pads[i] : 0;
        int64_t moved = pads[i] > 0 ? pads[i] : 0;
        int64_t room = out->dims[i] - moved;
        int64_t left = in->dims[i] - skipped;
        common.dims[i] = left < room ? left : room;
        if (common.dims[i] <= 0) {
            return;
        }
        from += skipped * from_strides[i];
        to += moved * to_strides[i];
    }
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&common);
    ckm_i_ref_walk_add_strides(&w, to_strides, to);
    ckm_i_ref_walk_add_strides(&w, from_strides, from);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(r, 0), ckm_i_ref_input(r, 0), size_of(r));
}

static void read_pads(const ckm_i_ref_op *r, int64_t *pads)
{
    for (int32_t i = 0; i < ckm_i_ref_in(r, 0)->shape.rank; i++) {
        pads[i] = ckm_i_op_attr_int(r->op, "pads", i, 0);
    }
}

// attributes pads, mode, value
static ckm_status pad(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    int64_t pads[CKM_MAX_RANK] = {0};
    read_pads(&r, pads);
    if (strcmp(ckm_i_op_attr_text(r.op, "mode", "constant"), "constant") != 0) {
        return repeat(&r, pads, read_mode(&r));
    }
    pad_with_value(&r, pads);
    return CKM_OK;
}

// input dy
static ckm_status pad_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    int64_t pads[CKM_MAX_RANK] = {0};
    read_pads(&r, pads);
    return repeat_backward(&r, pads, read_mode(&r), err);
}

static ckm_status tile(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    return repeat(&r, (const int64_t[CKM_MAX_RANK]){0}, BORDER_WRAP);
}

// input dy
static ckm_status tile_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    return repeat_backward(&r, (const int64_t[CKM_MAX_RANK]){0}, BORDER_WRAP, err);
}

// ---- depth and space

// Adds the tensor with depth, then the one with space, to a walk over n, h, i, w, j, c, where (i, j) is the place
// in a block and c a channel of the one with space.
static ckm_i_ref_walk walk_blocks(const ckm_i_ref_op *r, const ckm_shape *deep, const ckm_shape *wide, bool deep_first)
{
    bool last = r->graph->layout == CKM_CHANNELS_LAST;
    int32_t channel = last ? 3 : 1;
    int32_t space = last ? 1 : 2;
    int64_t block = ckm_i_op_attr_int(r->op, "block", 0, 1);
    int64_t channels = wide->dims[channel];
    bool crd = strcmp(ckm_i_op_attr_text(r->op, "mode", "dcr"), "crd") == 0;
    int64_t d[CKM_MAX_RANK] = {0};
    int64_t s[CKM_MAX_RANK] = {0};
    ckm_i_ref_strides(deep, d);
    ckm_i_ref_strides(wide, s);
    int64_t of_channel = crd ? block * block : 1;
    int64_t of_j = crd ? 1 : channels;
    int64_t unit = d[channel];
    const ckm_shape all = {6, {deep->dims[0], deep->dims[space], block, deep->dims[space + 1], block, channels}};
    const int64_t in_deep[6] = {d[0], d[space], block * of_j * unit, d[space + 1], of_j * unit, of_channel * unit};
    const int64_t in_wide[6] = {s[0], block * s[space], s[space], block * s[space + 1], s[space + 1], s[channel]};
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&all);
    ckm_i_ref_walk_add_strides(&w, deep_first ? in_deep : in_wide, 0);
    ckm_i_ref_walk_add_strides(&w, deep_first ? in_wide : in_deep, 0);
    return w;
}

static ckm_status depth_to_space(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    ckm_i_ref_walk w = walk_blocks(&r, &ckm_i_ref_in(&r, 0)->shape, &ckm_i_ref_out(&r, 0)->shape, false);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(&r, 0), ckm_i_ref_input(&r, 0), size_of(&r));
    return CKM_OK;
}

static ckm_status space_to_depth(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    ckm_i_ref_walk w = walk_blocks(&r, &ckm_i_ref_out(&r, 0)->shape, &ckm_i_ref_in(&r, 0)->shape, true);
    ckm_i_ref_walk_copy(&w, ckm_i_ref_output(&r, 0), ckm_i_ref_input(&r, 0), size_of(&r));
    return CKM_OK;
}

// attributes upper, k (0: the diagonal stays)
static ckm_status triangle(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    int64_t size = size_of(&r);
    int64_t columns = shape->dims[shape->rank - 1];
    int64_t lines = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    bool upper = ckm_i_op_attr_int(r.op, "upper", 0, 1) != 0;
    int64_t k = ckm_i_op_attr_int(r.op, "k", 0, 0);
    const char *x = ckm_i_ref_input(&r, 0);
    char *y = ckm_i_ref_output(&r, 0);
    int64_t n = ckm_i_elements(shape);
    for (int64_t i = 0; i < n; i++) {
        int64_t diagonal = i % columns - i / columns % lines;
        bool stays = upper ? diagonal >= k : diagonal <= k;
        if (stays) {
            memmove(y + i * size, x + i * size, (size_t)size);
        } else {
            memset(y + i * size, 0, (size_t)size);
        }
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_movement[] = {
    {CKM_I_OP_reshape, NULL, view},
    {CKM_I_OP_flatten, NULL, view},
    {CKM_I_OP_identity, NULL, view},
    {CKM_I_OP_transpose, NULL, transpose},
    {CKM_I_OP_slice, NULL, slice},
    {CKM_I_OP_slice_backward, NULL, slice_backward},
    {CKM_I_OP_expand, NULL, expand},
    {CKM_I_OP_pad, NULL, pad},
    {CKM_I_OP_pad_backward, NULL, pad_backward},
    {CKM_I_OP_tile, NULL, tile},
    {CKM_I_OP_tile_backward, NULL, tile_backward},
    {CKM_I_OP_depth_to_space, NULL, depth_to_space},
    {CKM_I_OP_space_to_depth, NULL, space_to_depth},
    {CKM_I_OP_triangle, NULL, triangle},
    {0},
};
