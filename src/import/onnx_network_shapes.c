// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, as nodes of an ONNX model. The batch stays open: no shape holds it.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "import/onnx_network.h"

enum { MOST_PARTS = 64 };

static const ckm_i_graph_tensor *operand(const ckm_i_onnx_network *n, int32_t i)
{
    return &n->graph->tensors[n->op->inputs[i]];
}

static ckm_i_onnx_form form_of_all(const ckm_i_onnx_network *n)
{
    for (int32_t i = 0; i < n->op->n_inputs; i++) {
        if (ckm_i_onnx_form_of(n, i) == CKM_I_ONNX_FIRST) {
            return CKM_I_ONNX_FIRST;
        }
    }
    return CKM_I_ONNX_PLAIN;
}

ckm_status ckm_i_onnx_put_concat(ckm_i_onnx_network *n, ckm_error *err)
{
    const char *inputs[MOST_PARTS + 1];
    int32_t rank = ckm_i_onnx_in_shape(n, 0)->rank;
    int64_t axis = ckm_i_op_attr_int(n->op, "axis", 0, rank >= 2 ? rank - 1 : 0);
    axis = axis < 0 ? axis + rank : axis;
    bool maps = rank == 4 && axis == 3 && form_of_all(n) == CKM_I_ONNX_FIRST;
    ckm_i_onnx_form form = maps ? CKM_I_ONNX_FIRST : CKM_I_ONNX_PLAIN;
    if (n->op->n_inputs > MOST_PARTS) {
        return ckm_i_onnx_refuse(n, "it joins too many tensors", err);
    }
    for (int32_t i = 0; i < n->op->n_inputs; i++) {
        inputs[i] = ckm_i_onnx_in(n, i, form);
    }
    inputs[n->op->n_inputs] = NULL;
    ckm_i_onnx_put_begin(n->put, "Concat", inputs, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_int(n->put, "axis", maps ? 1 : axis);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, form, n->name);
    return CKM_OK;
}

// x[starts : ends] along the axes, in steps of 1.
static const char *put_slice(ckm_i_onnx_network *n, const char *x, const char *part, const int64_t *starts,
                             const int64_t *ends, const int64_t *axes, int32_t count, const char *out)
{
    const char *lists[3];
    const int64_t *values[3] = {starts, ends, axes};
    static const char *const names[3] = {"starts", "ends", "axes"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s%s", part, names[i]);
        lists[i] = ckm_i_onnx_long_list(n, name, values[i], count);
    }
    ckm_i_onnx_put_begin(n->put, "Slice", (const char *[]){x, lists[0], lists[1], lists[2], NULL},
                         (const char *[]){out, NULL});
    ckm_i_onnx_put_end(n->put);
    return out;
}

// An operator that passes its operand on: the result has the operand's names in the model.
static ckm_status alias(ckm_i_onnx_network *n)
{
    ckm_i_onnx_form form = ckm_i_onnx_form_of(n, 0);
    ckm_i_onnx_in(n, 0, form);
    n->places[n->op->outputs[0]] = n->places[n->op->inputs[0]];
    return CKM_OK;
}

// Zeros around the map, or what is cut off.
ckm_status ckm_i_onnx_put_border(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    bool cuts = n->op->op_class->id == CKM_I_OP_cropping;
    int64_t pads[4];
    bool any = false;
    if (shape->rank != 4) {
        return ckm_i_onnx_refuse(n, "it works on other than four axes", err);
    }
    for (int32_t i = 0; i < 4; i++) {
        pads[i] = ckm_i_op_attr_int(n->op, "pads", i, 0);
        any = any || pads[i] != 0;
    }
    if (!any) {
        return alias(n);
    }
    ckm_i_onnx_form form = ckm_i_onnx_form_of(n, 0);
    int64_t axis = form == CKM_I_ONNX_FIRST ? 2 : 1;
    const char *x = ckm_i_onnx_in(n, 0, form);
    if (cuts) {
        const int64_t ends[2] = {shape->dims[1] - pads[2], shape->dims[2] - pads[3]};
        put_slice(n, x, "", pads, ends, (const int64_t[]){axis, axis + 1}, 2, n->name);
    } else {
        int64_t all[8] = {0};
        for (int i = 0; i < 4; i++) {
            all[(i / 2) * 4 + axis + i % 2] = pads[i];
        }
        ckm_i_onnx_one(n, "Pad", x, ckm_i_onnx_long_list(n, "pads", all, 8), n->name);
    }
    ckm_i_onnx_out(n, 0, form, n->name);
    return CKM_OK;
}

static ckm_status put_resize(ckm_i_onnx_network *n, const char *mode, const char *coordinates, ckm_error *err)
{
    const ckm_shape *in = ckm_i_onnx_in_shape(n, 0);
    const ckm_shape *out = ckm_i_onnx_out_shape(n, 0);
    if (in->rank != 4) {
        return ckm_i_onnx_refuse(n, "it works on other than four axes", err);
    }
    if (ckm_i_shapes_equal(in, out)) {
        return alias(n);
    }
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_FIRST);
    const char *sizes = ckm_i_onnx_long_list(n, "sizes", out->dims + 1, 2);
    ckm_i_onnx_put_begin(n->put, "Resize", (const char *[]){x, "", "", sizes, NULL}, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_word(n->put, "mode", mode);
    ckm_i_onnx_put_word(n->put, "coordinate_transformation_mode", coordinates);
    ckm_i_onnx_put_word(n->put, "nearest_mode", "floor");
    ckm_i_onnx_put_ints(n->put, "axes", (const int64_t[]){2, 3}, 2);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_FIRST, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_up_sampling(ckm_i_onnx_network *n, ckm_error *err)
{
    bool nearest = strcmp(ckm_i_op_attr_text(n->op, "mode", "nearest"), "nearest") == 0;
    return put_resize(n, nearest ? "nearest" : "linear", "asymmetric", err);
}

ckm_status ckm_i_onnx_put_interp(ckm_i_onnx_network *n, ckm_error *err)
{
    return put_resize(n, "linear", "align_corners", err);
}

// Functions that the zoo's networks give by name.
ckm_status ckm_i_onnx_put_lambda(ckm_i_onnx_network *n, ckm_error *err)
{
    const char *text = ckm_i_op_attr_text(n->op, "text", "");
    if (strncmp(text, "resize_images(", 14) == 0) {
        return put_resize(n, strstr(text, "bilinear") != NULL ? "linear" : "nearest", "asymmetric", err);
    }
    if (strcmp(text, "slice") != 0 || ckm_i_onnx_in_shape(n, 0)->rank != 4) {
        return ckm_i_onnx_refuse(n, "it is unknown what it does", err);
    }
    // The beginning of every axis.
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    put_slice(n, x, "", (const int64_t[]){0, 0, 0}, ckm_i_onnx_out_shape(n, 0)->dims + 1, (const int64_t[]){1, 2, 3}, 3,
              n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// Does nothing when predicting.
ckm_status ckm_i_onnx_put_dropout(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    return alias(n);
}

ckm_status ckm_i_onnx_put_flatten(ckm_i_onnx_network *n, ckm_error *err)
{
    if (ckm_i_op_attr_int(n->op, "axis", 0, 1) != 1) {
        return ckm_i_onnx_refuse(n, "it joins the batch with other axes", err);
    }
    ckm_i_onnx_one(n, "Flatten", ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN), NULL, n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// All dimensions but the first are known; the first is what is left for it, so that the batch may be any.
ckm_status ckm_i_onnx_put_reshape(ckm_i_onnx_network *n, ckm_error *err)
{
    int64_t dims[CKM_MAX_RANK];
    const ckm_shape *out = ckm_i_onnx_out_shape(n, 0);
    if (out->rank < 1 || operand(n, 0)->producer < 0) {
        return ckm_i_onnx_refuse(n, "its result has no batch", err);
    }
    for (int32_t i = 0; i < out->rank; i++) {
        dims[i] = i == 0 ? -1 : out->dims[i];
    }
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    ckm_i_onnx_one(n, "Reshape", x, ckm_i_onnx_long_list(n, "shape", dims, out->rank), n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// To as many samples as the first input has.
ckm_status ckm_i_onnx_put_expand(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *out = ckm_i_onnx_out_shape(n, 0);
    const char *input = NULL;
    for (int32_t i = 0; i < n->graph->n_tensors && input == NULL; i++) {
        input = n->graph->tensors[i].role == CKM_ROLE_INPUT ? n->graph->tensors[i].name : NULL;
    }
    if (out->rank < 1 || out->dims[0] != n->graph->batch || input == NULL) {
        return ckm_i_onnx_refuse(n, "it spreads other than samples", err);
    }
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *batch = ckm_i_onnx_part(n, "batch");
    const char *shape = ckm_i_onnx_part(n, "shape");
    ckm_i_onnx_put_begin(n->put, "Shape", (const char *[]){input, NULL}, (const char *[]){batch, NULL});
    ckm_i_onnx_put_int(n->put, "start", 0);
    ckm_i_onnx_put_int(n->put, "end", 1);
    ckm_i_onnx_put_end(n->put);
    const char *rest = ckm_i_onnx_long_list(n, "rest", out->dims + 1, out->rank - 1);
    ckm_i_onnx_put_begin(n->put, "Concat", (const char *[]){batch, rest, NULL}, (const char *[]){shape, NULL});
    ckm_i_onnx_put_int(n->put, "axis", 0);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_one(n, "Expand", x, shape, n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_slice(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *in = ckm_i_onnx_in_shape(n, 0);
    int64_t starts[CKM_MAX_RANK];
    int64_t ends[CKM_MAX_RANK];
    int64_t axes[CKM_MAX_RANK];
    int32_t count = 0;
    for (int32_t i = 0; i < in->rank; i++) {
        int64_t start = ckm_i_op_attr_int(n->op, "starts", i, 0);
        int64_t size = ckm_i_op_attr_int(n->op, "sizes", i, in->dims[i]);
        if (start == 0 && size == in->dims[i]) {
            continue;
        }
        if (ckm_i_op_attr_int(n->op, "steps", i, 1) != 1 || (i == 0 && operand(n, 0)->role == CKM_ROLE_ACTIVATION)) {
            return ckm_i_onnx_refuse(n, "it takes some of the samples, or goes in steps", err);
        }
        starts[count] = start;
        ends[count] = start + size;
        axes[count++] = i;
    }
    if (count == 0) {
        return alias(n);
    }
    put_slice(n, ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN), "", starts, ends, axes, count, n->name);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_split(ckm_i_onnx_network *n, ckm_error *err)
{
    const char *outputs[MOST_PARTS + 1];
    int64_t sizes[MOST_PARTS];
    int32_t rank = ckm_i_onnx_in_shape(n, 0)->rank;
    int64_t axis = ckm_i_op_attr_int(n->op, "axis", 0, 0);
    axis = axis < 0 ? axis + rank : axis;
    if (axis == 0 || n->op->n_outputs > MOST_PARTS) {
        return ckm_i_onnx_refuse(n, "it divides the samples, or into too many parts", err);
    }
    for (int32_t i = 0; i < n->op->n_outputs; i++) {
        sizes[i] = ckm_i_onnx_out_shape(n, i)->dims[axis];
        outputs[i] = ckm_i_onnx_put_name(n->put, "%s/%d", n->name, (int)i);
        ckm_i_onnx_out(n, i, CKM_I_ONNX_PLAIN, outputs[i]);
    }
    outputs[n->op->n_outputs] = NULL;
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *list = ckm_i_onnx_long_list(n, "sizes", sizes, n->op->n_outputs);
    ckm_i_onnx_put_begin(n->put, "Split", (const char *[]){x, list, NULL}, outputs);
    ckm_i_onnx_put_int(n->put, "axis", axis);
    ckm_i_onnx_put_end(n->put);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_gather(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    const char *data = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    const char *positions = ckm_i_onnx_in(n, 1, CKM_I_ONNX_PLAIN);
    ckm_i_onnx_put_begin(n->put, "Gather", (const char *[]){data, positions, NULL}, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_int(n->put, "axis", ckm_i_op_attr_int(n->op, "axis", 0, 0));
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

ckm_status ckm_i_onnx_put_transpose(ckm_i_onnx_network *n, ckm_error *err)
{
    (void)err;
    int32_t rank = ckm_i_onnx_in_shape(n, 0)->rank;
    int64_t perm[CKM_MAX_RANK];
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = ckm_i_op_attr_int(n->op, "perm", i, rank - 1 - i);
    }
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    ckm_i_onnx_put_begin(n->put, "Transpose", (const char *[]){x, NULL}, (const char *[]){n->name, NULL});
    ckm_i_onnx_put_ints(n->put, "perm", perm, rank);
    ckm_i_onnx_put_end(n->put);
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, n->name);
    return CKM_OK;
}

// Axis by axis: the end, then the beginning.
ckm_status ckm_i_onnx_put_roll(ckm_i_onnx_network *n, ckm_error *err)
{
    const ckm_shape *shape = ckm_i_onnx_in_shape(n, 0);
    const char *x = ckm_i_onnx_in(n, 0, CKM_I_ONNX_PLAIN);
    for (int64_t i = 0; i < shape->rank; i++) {
        char part[32];
        int64_t size = shape->dims[i];
        int64_t shift = (ckm_i_op_attr_int(n->op, "shifts", (int32_t)i, 0) % size + size) % size;
        if (shift == 0) {
            continue;
        }
        if (i == 0) {
            return ckm_i_onnx_refuse(n, "it moves samples", err);
        }
        snprintf(part, sizeof part, "%d/end_", (int)i);
        const char *end = ckm_i_onnx_put_name(n->put, "%s/%d/end", n->name, (int)i);
        put_slice(n, x, part, &(const int64_t){size - shift}, &size, &i, 1, end);
        snprintf(part, sizeof part, "%d/begin_", (int)i);
        const char *begin = ckm_i_onnx_put_name(n->put, "%s/%d/begin", n->name, (int)i);
        put_slice(n, x, part, &(const int64_t){0}, &(const int64_t){size - shift}, &i, 1, begin);
        x = ckm_i_onnx_put_name(n->put, "%s/%d", n->name, (int)i);
        ckm_i_onnx_put_begin(n->put, "Concat", (const char *[]){end, begin, NULL}, (const char *[]){x, NULL});
        ckm_i_onnx_put_int(n->put, "axis", i);
        ckm_i_onnx_put_end(n->put);
    }
    ckm_i_onnx_out(n, 0, CKM_I_ONNX_PLAIN, x);
    return CKM_OK;
}
