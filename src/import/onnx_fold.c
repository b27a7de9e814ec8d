// SPDX-License-Identifier: Apache-2.0
// Folding of shape arithmetic: asking for shapes, constants, and rearranging constants. Arithmetic on
// elements is in onnx_fold_math.c.
#include "import/onnx_fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "import/onnx_geometry.h"

int64_t ckm_i_onnx_fold_count(const ckm_shape *shape)
{
    int64_t elements;
    int32_t n_wide = 0;
    for (int32_t i = 0; i < shape->rank; i++) {
        n_wide += shape->dims[i] > 1;
    }
    int64_t most = n_wide > 1 ? CKM_I_ONNX_FOLD_LIMIT : CKM_I_ONNX_FOLD_LIMIT_ROW;
    return ckm_i_shape_elements(shape, &elements, NULL) == CKM_OK && elements <= most ? elements : -1;
}

ckm_status ckm_i_onnx_fold_room(ckm_i_onnx_folded *out, ckm_error *err)
{
    int64_t elements = ckm_i_onnx_fold_count(&out->shape);
    if (elements >= 0) {
        out->data = ckm_i_calloc((size_t)elements, sizeof *out->data);
        if (out->data == NULL) {
            return ckm_i_error_memory(err);
        }
    }
    return CKM_OK;
}

// Elements between neighbours on each axis.
static void strides_of(const ckm_shape *shape, int64_t *strides)
{
    int64_t step = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        strides[i] = step;
        step = (int64_t)((uint64_t)step * (uint64_t)shape->dims[i]);  // may wrap only where another dimension is 0
    }
}

// Copies what lies at offset + Σ index·stride for every index of out->shape.
static ckm_status copy_view(const ckm_i_onnx_value *in, int64_t offset, const int64_t *strides, ckm_i_onnx_folded *out,
                            ckm_error *err)
{
    out->dtype = in->dtype;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    if (out->data == NULL) {
        return CKM_OK;
    }
    int64_t elements = ckm_i_onnx_fold_count(&out->shape);
    int64_t index[CKM_MAX_RANK] = {0};
    for (int64_t e = 0; e < elements; e++) {
        int64_t at = offset;
        for (int32_t d = 0; d < out->shape.rank; d++) {
            at += index[d] * strides[d];
        }
        out->data[e] = in->data[at];
        for (int32_t d = out->shape.rank - 1; d >= 0 && ++index[d] == out->shape.dims[d]; d--) {
            index[d] = 0;
        }
    }
    return CKM_OK;
}

static ckm_status fold_reshape(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                               ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    int64_t strides[CKM_MAX_RANK];
    if (strcmp(node->op_type, "Identity") == 0) {
        out->shape = in->shape;
    } else {
        CKM_I_CHECK(ckm_i_onnx_reshaped(c, node, &in->shape, false, &out->shape, err));
    }
    strides_of(&out->shape, strides);
    return copy_view(in, 0, strides, out, err);
}

static ckm_status fold_transpose(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                                 ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    int64_t perm[CKM_MAX_RANK];
    int64_t from[CKM_MAX_RANK];
    int64_t strides[CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_onnx_permutation(node, in->shape.rank, perm, err));
    strides_of(&in->shape, from);
    out->shape.rank = in->shape.rank;
    for (int32_t i = 0; i < in->shape.rank; i++) {
        out->shape.dims[i] = in->shape.dims[perm[i]];
        strides[i] = from[perm[i]];
    }
    return copy_view(in, 0, strides, out, err);
}

static ckm_status fold_slice(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                             ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    ckm_i_onnx_slice slice;
    int64_t strides[CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_onnx_slice_plan(c, node, &in->shape, &slice, err));
    strides_of(&in->shape, strides);
    int64_t offset = 0;
    out->shape.rank = in->shape.rank;
    for (int32_t i = 0; i < in->shape.rank; i++) {
        out->shape.dims[i] = slice.sizes[i];
        offset += slice.starts[i] * strides[i];
        strides[i] *= slice.steps[i];
    }
    return copy_view(in, offset, strides, out, err);
}

static ckm_status fold_expand(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                              ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    int64_t from[CKM_MAX_RANK];
    int64_t strides[CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_onnx_expanded(c, node, &in->shape, false, &out->shape, err));
    strides_of(&in->shape, from);
    for (int32_t i = 0; i < out->shape.rank; i++) {
        int32_t axis = i - (out->shape.rank - in->shape.rank);
        strides[i] = axis < 0 || in->shape.dims[axis] == 1 ? 0 : from[axis];
    }
    return copy_view(in, 0, strides, out, err);
}

static ckm_status fold_gather(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                              ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    const ckm_i_onnx_value *at = ckm_i_onnx_input(c, node, 1);
    int32_t axis;
    if (at == NULL || in->shape.rank + at->shape.rank > CKM_MAX_RANK || ckm_i_onnx_dtype_is_real(at->dtype)) {
        out->declined = true;
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_onnx_axis(node, ckm_i_onnx_attr_int(node, "axis", 0), in->shape.rank, &axis, err));
    int64_t outer = 1;
    int64_t inner = 1;
    for (int32_t i = 0; i < in->shape.rank; i++) {
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : in->shape.dims[i];
        if (i != axis) {
            out->shape.dims[out->shape.rank++] = in->shape.dims[i];
        }
        for (int32_t k = 0; i == axis && k < at->shape.rank; k++) {
            out->shape.dims[out->shape.rank++] = at->shape.dims[k];
        }
    }
    out->dtype = in->dtype;
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    if (out->data == NULL) {
        return CKM_OK;
    }
    int64_t size = in->shape.dims[axis];
    int64_t positions = ckm_i_onnx_fold_count(&at->shape);
    for (int64_t p = 0; p < positions; p++) {
        int64_t from = at->data[p].i < 0 ? at->data[p].i + size : at->data[p].i;
        if (from < 0 || from >= size) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT,
                                         "position %lld does not exist on an axis of size %lld",
                                         (long long)at->data[p].i, (long long)size);
        }
        for (int64_t o = 0; o < outer; o++) {
            memcpy(out->data + (o * positions + p) * inner, in->data + (o * size + from) * inner,
                   (size_t)inner * sizeof *out->data);
        }
    }
    return CKM_OK;
}

static ckm_status fold_concat(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                              ckm_error *err)
{
    const ckm_i_onnx_value *first = ckm_i_onnx_input(c, node, 0);
    int32_t axis;
    CKM_I_CHECK(ckm_i_onnx_axis(node, ckm_i_onnx_attr_int(node, "axis", 0), first->shape.rank, &axis, err));
    out->dtype = first->dtype;
    out->shape = first->shape;
    out->shape.dims[axis] = 0;
    for (int32_t k = 0; k < node->n_in; k++) {
        const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, k);
        bool fits = in != NULL && in->shape.rank == first->shape.rank;
        for (int32_t i = 0; fits && i < first->shape.rank; i++) {
            fits = i == axis || in->shape.dims[i] == first->shape.dims[i];
        }
        if (!fits || !ckm_i_add(out->shape.dims[axis], in->shape.dims[axis], &out->shape.dims[axis])) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "input %d does not fit input 0", (int)k);
        }
    }
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    if (out->data == NULL) {
        return CKM_OK;
    }
    int64_t outer = 1;
    int64_t inner = 1;
    for (int32_t i = 0; i < first->shape.rank; i++) {
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : first->shape.dims[i];
    }
    ckm_i_onnx_scalar *to = out->data;
    for (int64_t o = 0; o < outer; o++) {
        for (int32_t k = 0; k < node->n_in; k++) {
            const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, k);
            int64_t run = in->shape.dims[axis] * inner;
            memcpy(to, in->data + o * run, (size_t)run * sizeof *to);
            to += run;
        }
    }
    return CKM_OK;
}

enum { MOST_COUNTED = 1000000000 };

// How many numbers from bounds[0] to below bounds[1] by bounds[2]; false when there are too many or none can be told.
static bool count_reals(const double *bounds, int64_t *whole)
{
    double count = (bounds[1] - bounds[0]) / bounds[2];
    if (!(count < (double)MOST_COUNTED)) {
        return false;
    }
    *whole = count <= 0.0 ? 0 : (int64_t)count;
    *whole += count > 0.0 && (double)*whole < count;
    return true;
}

// The same for integers, which may lie too far apart for doubles to tell them.
static bool count_ints(const ckm_i_onnx_value *const *in, int64_t *whole)
{
    int64_t start = in[0]->data[0].i;
    int64_t limit = in[1]->data[0].i;
    int64_t step = in[2]->data[0].i;
    bool forward = step > 0;
    if (step == 0) {
        return false;
    }
    if (forward ? start >= limit : start <= limit) {
        *whole = 0;
        return true;
    }
    uint64_t span = forward ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
    uint64_t stride = forward ? (uint64_t)step : 0 - (uint64_t)step;
    uint64_t count = (span - 1) / stride + 1;
    *whole = (int64_t)count;
    return count < MOST_COUNTED;
}

static ckm_status fold_range(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                             ckm_error *err)
{
    const ckm_i_onnx_value *in[3];
    for (int32_t i = 0; i < 3; i++) {
        in[i] = ckm_i_onnx_input(c, node, i);
        if (in[i] == NULL || ckm_i_onnx_fold_count(&in[i]->shape) != 1 || in[i]->dtype != in[0]->dtype) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "it needs three numbers of one type");
        }
    }
    bool real = ckm_i_onnx_dtype_is_real(in[0]->dtype);
    double bounds[3];
    for (int32_t i = 0; i < 3; i++) {
        bounds[i] = real ? in[i]->data[0].r : 0.0;
    }
    int64_t whole;
    if (!(real ? count_reals(bounds, &whole) : count_ints(in, &whole))) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "it counts too far");
    }
    out->dtype = in[0]->dtype;
    out->shape = (ckm_shape){1, {whole}};
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    for (int64_t i = 0; out->data != NULL && i < whole; i++) {
        if (real) {
            out->data[i].r = bounds[0] + (double)i * bounds[2];
        } else {
            // Below the limit, which is a number too; the product alone need not be one.
            uint64_t at = (uint64_t)in[0]->data[0].i + (uint64_t)i * (uint64_t)in[2]->data[0].i;
            out->data[i].i = (int64_t)at;
        }
    }
    return CKM_OK;
}

static ckm_status fold_constant_of_shape(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node,
                                         ckm_i_onnx_folded *out, ckm_error *err)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, "value");
    ckm_i_onnx_scalar *fill = NULL;
    int64_t dims[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "shape", 0, dims, &n, err));
    ckm_status status = CKM_OK;
    if (n > CKM_MAX_RANK) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "its output has more than %d dimensions",
                                     CKM_MAX_RANK);
    }
    for (int32_t i = 0; i < n; i++) {
        if (dims[i] < 0) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "dimension %d is negative", (int)i);
        }
        out->shape.dims[out->shape.rank++] = dims[i];
    }
    out->dtype = CKM_F32;
    if (attr != NULL && attr->t != NULL) {
        ckm_shape shape;
        CKM_I_TRY(ckm_i_onnx_tensor_type(attr->t, node->label, &out->dtype, &shape, err));
        CKM_I_TRY(ckm_i_onnx_tensor_data(attr->t, node->label, &fill, err));
        if (fill == NULL || ckm_i_onnx_fold_count(&shape) != 1) {
            status = ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "its value must be one element");
            goto cleanup;
        }
    }
    CKM_I_TRY(ckm_i_onnx_fold_room(out, err));
    for (int64_t i = 0; fill != NULL && out->data != NULL && i < ckm_i_onnx_fold_count(&out->shape); i++) {
        out->data[i] = fill[0];
    }
cleanup:
    free(fill);
    return status;
}

// Positions of what is not zero: how exporters count before there was Range.
static ckm_status fold_non_zero(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_i_onnx_folded *out,
                                ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    bool real = ckm_i_onnx_dtype_is_real(in->dtype);
    int64_t strides[CKM_MAX_RANK];
    int64_t elements = ckm_i_onnx_fold_count(&in->shape);
    int64_t found = 0;
    for (int64_t i = 0; i < elements; i++) {
        found += real ? in->data[i].r < 0.0 || in->data[i].r > 0.0 : in->data[i].i != 0;
    }
    out->dtype = CKM_I64;
    out->shape = (ckm_shape){2, {in->shape.rank, found}};
    CKM_I_CHECK(ckm_i_onnx_fold_room(out, err));
    strides_of(&in->shape, strides);
    int64_t column = 0;
    for (int64_t i = 0; out->data != NULL && i < elements; i++) {
        if (real ? in->data[i].r < 0.0 || in->data[i].r > 0.0 : in->data[i].i != 0) {
            for (int32_t d = 0; d < in->shape.rank; d++) {
                out->data[d * found + column].i = i / strides[d] % in->shape.dims[d];
            }
            column++;
        }
    }
    return CKM_OK;
}

static const ckm_i_onnx_fold_row rearranging[] = {
    {"Identity", fold_reshape}, {"Reshape", fold_reshape},
    {"Squeeze", fold_reshape},  {"Unsqueeze", fold_reshape},
    {"Flatten", fold_reshape},  {"Transpose", fold_transpose},
    {"Slice", fold_slice},      {"Expand", fold_expand},
    {"Gather", fold_gather},    {"Concat", fold_concat},
    {"Range", fold_range},      {"ConstantOfShape", fold_constant_of_shape},
    {"NonZero", fold_non_zero}, {NULL, NULL},
};

static ckm_i_onnx_folder find_folder(const char *op_type)
{
    const ckm_i_onnx_fold_row *const tables[] = {rearranging, ckm_i_onnx_fold_math};
    for (size_t t = 0; t < 2; t++) {
        for (const ckm_i_onnx_fold_row *row = tables[t]; row->op_type != NULL; row++) {
            if (strcmp(row->op_type, op_type) == 0) {
                return row->fold;
            }
        }
    }
    return NULL;
}

bool ckm_i_onnx_can_fold(const char *op_type)
{
    return strcmp(op_type, "Constant") == 0 || strcmp(op_type, "Shape") == 0 || strcmp(op_type, "Size") == 0 ||
           strcmp(op_type, "Split") == 0 || find_folder(op_type) != NULL;
}

// Shape (with the range of axes that opset 15 brought) and Size: known as soon as the operand's shape is.
static ckm_status fold_shape(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err)
{
    ckm_i_onnx_value *in;
    ckm_i_onnx_folded out = {.dtype = CKM_I64};
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    int64_t rank = in->shape.rank;
    bool size = strcmp(node->op_type, "Size") == 0;
    int64_t start = size ? 0 : ckm_i_onnx_attr_int(node, "start", 0);
    int64_t end = size ? rank : ckm_i_onnx_attr_int(node, "end", rank);
    start = start < -rank ? 0 : start < 0 ? start + rank : start > rank ? rank : start;
    end = end < -rank ? 0 : end < 0 ? end + rank : end > rank ? rank : end;
    out.shape = size ? (ckm_shape){0} : (ckm_shape){1, {end > start ? end - start : 0}};
    CKM_I_CHECK(ckm_i_onnx_fold_room(&out, err));
    if (out.data == NULL) {  // a shape is always small enough to hold
        return CKM_OK;
    }
    ckm_status status = CKM_OK;
    if (size) {
        status = ckm_i_shape_elements(&in->shape, &out.data[0].i, err);
    }
    for (int64_t i = start; !size && i < end; i++) {
        out.data[i - start].i = in->shape.dims[i];
    }
    ckm_i_onnx_set_constant(c, node, out.dtype, &out.shape, out.data);
    return status;
}

// A Constant: its tensor was typed with the roles; here its elements, or one of the short forms.
static ckm_status fold_constant(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err)
{
    ckm_i_onnx_folded out = {.dtype = CKM_I64};
    ckm_i_onnx_value *value = node->n_out > 0 && node->out[0] >= 0 ? &c->model->values[node->out[0]] : NULL;
    if (node->proto->n_attribute < 1 || value == NULL) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "it has no value");
    }
    const CkmOnnx__Attribute *attr = node->proto->attribute[0];
    if (strcmp(attr->name, "value") == 0 && attr->t != NULL) {
        return CKM_OK;
    }
    bool one = strcmp(attr->name, "value_int") == 0 || strcmp(attr->name, "value_float") == 0;
    bool real = strcmp(attr->name, "value_float") == 0 || strcmp(attr->name, "value_floats") == 0;
    if (!one && !real && strcmp(attr->name, "value_ints") != 0) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "a constant given as \"%.60s\" is not supported",
                                     attr->name);
    }
    out.dtype = real ? CKM_F32 : CKM_I64;
    out.shape = one ? (ckm_shape){0} : (ckm_shape){1, {(int64_t)(real ? attr->n_floats : attr->n_ints)}};
    CKM_I_CHECK(ckm_i_onnx_fold_room(&out, err));
    for (int64_t i = 0; out.data != NULL && i < ckm_i_onnx_fold_count(&out.shape); i++) {
        if (real) {
            out.data[i].r = (double)(one ? attr->f : attr->floats[i]);
        } else {
            out.data[i].i = one ? attr->i : attr->ints[i];
        }
    }
    ckm_i_onnx_set_constant(c, node, out.dtype, &out.shape, out.data);
    return CKM_OK;
}

// Split of a constant gives several: a slice each.
static ckm_status fold_split(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err)
{
    const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, 0);
    int64_t strides[CKM_MAX_RANK];
    int64_t offset = 0;
    int32_t axis;
    int64_t *sizes = ckm_i_calloc((size_t)node->n_out, sizeof *sizes);
    if (sizes == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_onnx_split_plan(c, node, &in->shape, &axis, sizes, err));
    strides_of(&in->shape, strides);
    for (int32_t k = 0; k < node->n_out; k++) {
        ckm_i_onnx_folded out = {.shape = in->shape};
        out.shape.dims[axis] = sizes[k];
        CKM_I_TRY(copy_view(in, offset * strides[axis], strides, &out, err));
        offset += sizes[k];
        if (node->out[k] >= 0) {
            ckm_i_onnx_node part = *node;
            part.out = &node->out[k];
            ckm_i_onnx_set_constant(c, &part, out.dtype, &out.shape, out.data);
        } else {
            free(out.data);
        }
    }
cleanup:
    free(sizes);
    return status;
}

ckm_status ckm_i_onnx_fold(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, bool *done, ckm_error *err)
{
    *done = true;
    if (c->folded > CKM_I_ONNX_FOLD_LIMIT_ALL) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                     "the constants that the model computes have more than %d elements in all",
                                     CKM_I_ONNX_FOLD_LIMIT_ALL);
    }
    if (strcmp(node->op_type, "Constant") == 0) {
        return fold_constant(c, node, err);
    }
    if (strcmp(node->op_type, "Shape") == 0 || strcmp(node->op_type, "Size") == 0) {
        return fold_shape(c, node, err);
    }
    *done = ckm_i_onnx_input(c, node, 0) != NULL && node->n_out > 0;
    for (int32_t i = 0; *done && i < node->n_in; i++) {
        const ckm_i_onnx_value *in = ckm_i_onnx_input(c, node, i);
        *done = in == NULL || (in->typed && in->role == CKM_ROLE_CONSTANT && in->data != NULL &&
                               (in->shape.rank <= 1 || ckm_i_onnx_fold_count(&in->shape) > 0));
    }
    if (!*done) {
        return CKM_OK;
    }
    if (strcmp(node->op_type, "Split") == 0) {
        return fold_split(c, node, err);
    }
    ckm_i_onnx_folded out = {0};
    ckm_status status = find_folder(node->op_type)(c, node, &out, err);
    if (status != CKM_OK || out.declined) {
        free(out.data);
        *done = false;
        return status;
    }
    ckm_i_onnx_set_constant(c, node, out.dtype, &out.shape, out.data);
    return CKM_OK;
}
