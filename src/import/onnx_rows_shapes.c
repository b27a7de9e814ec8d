// SPDX-License-Identifier: Apache-2.0
// Conversion of what rearranges, selects, pads and resamples.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/onnx_geometry.h"

static bool is_data(const ckm_i_onnx_value *value)
{
    return value->role == CKM_ROLE_ACTIVATION || value->role == CKM_ROLE_INPUT;
}

static ckm_status convert_identity(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                   ckm_error *err)
{
    ckm_i_onnx_value *in;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    return is_data(in) ? ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}}, err)
                       : ckm_i_onnx_forward(c, node, err);
}

// Reshape, Flatten, Squeeze, Unsqueeze: a reshape to the inferred shape.
static ckm_status convert_reshape(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                  ckm_error *err)
{
    ckm_i_onnx_value *in;
    ckm_shape shape;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_reshaped(c, node, &in->shape, is_data(in), &shape, err));
    ckm_i_attr attr = ckm_i_attr_ints("shape", shape.dims, shape.rank);
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {&attr, 1}},
                           err);
}

static ckm_status convert_flatten(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                  ckm_error *err)
{
    int64_t axis = ckm_i_onnx_attr_int(node, "axis", 1);
    ckm_i_attr attr = ckm_i_attr_ints("axis", &axis, 1);
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {&attr, 1}}, err);
}

static ckm_status convert_expand(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 ckm_error *err)
{
    ckm_i_onnx_value *in;
    ckm_shape shape;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_expanded(c, node, &in->shape, in->role != CKM_ROLE_CONSTANT, &shape, err));
    ckm_i_attr attr = ckm_i_attr_ints("shape", shape.dims, shape.rank);
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {&attr, 1}},
                           err);
}

// The transpose of a weight that goes into products is a way to read the weight, not an operator.
static ckm_status convert_transpose(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                    ckm_error *err)
{
    ckm_i_onnx_value *in;
    int64_t perm[CKM_MAX_RANK];
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_permutation(node, in->shape.rank, perm, err));
    if (in->role == CKM_ROLE_PARAMETER && in->transposed_of < 0 && in->shape.rank == 2 && perm[0] == 1 &&
        node->n_out > 0 && node->out[0] >= 0 && !c->model->values[node->out[0]].used_otherwise) {
        ckm_i_onnx_value *out = &c->model->values[node->out[0]];
        out->role = CKM_ROLE_PARAMETER;
        out->typed = true;
        out->dtype = in->dtype;
        out->shape = (ckm_shape){2, {in->shape.dims[1], in->shape.dims[0]}};
        out->transposed_of = node->in[0];
        return CKM_OK;
    }
    ckm_i_attr attr = ckm_i_attr_ints("perm", perm, in->shape.rank);
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {&attr, 1}},
                           err);
}

static ckm_status convert_slice(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                ckm_error *err)
{
    ckm_i_onnx_value *in;
    ckm_i_onnx_slice slice;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_slice_plan(c, node, &in->shape, &slice, err));
    int32_t rank = in->shape.rank;
    ckm_i_attr attrs[3] = {ckm_i_attr_ints("starts", slice.starts, rank), ckm_i_attr_ints("steps", slice.steps, rank),
                           ckm_i_attr_ints("sizes", slice.sizes, rank)};
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {attrs, 3}},
                           err);
}

static ckm_status convert_split(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                ckm_error *err)
{
    ckm_i_onnx_value *in;
    int32_t axis;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    ckm_status status = CKM_OK;
    int64_t *sizes = ckm_i_calloc((size_t)node->n_out, sizeof *sizes);
    if (sizes == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_i_attr attrs[2];
    int64_t wide;
    bool equal = true;
    CKM_I_TRY(ckm_i_onnx_split_plan(c, node, &in->shape, &axis, sizes, err));
    for (int32_t i = 1; i < node->n_out; i++) {
        equal = equal && sizes[i] == sizes[0];
    }
    if (!equal && node->n_out > CKM_I_ATTR_MAX) {
        status = ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "more than %d parts of different size",
                                       CKM_I_ATTR_MAX);
        goto cleanup;
    }
    wide = axis;
    attrs[0] = ckm_i_attr_ints("axis", &wide, 1);
    if (!equal) {
        attrs[1] = ckm_i_attr_ints("sizes", sizes, node->n_out);
    }
    status = ckm_i_onnx_emit(
        c, node,
        &(ckm_i_onnx_op){
            .kind = row->kind, .inputs = {node->in, 1}, .attrs = {attrs, equal ? 1 : 2}, .max_outputs = -node->n_out},
        err);
cleanup:
    free(sizes);
    return status;
}

// A list of tensors is none itself: what takes one of it has a slice of what was split.
static ckm_status convert_sequence(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                   ckm_error *err)
{
    (void)row;
    for (int32_t i = 0; i < c->model->n_outputs; i++) {
        if (node->n_out > 0 && c->model->outputs[i] == node->out[0]) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "a sequence cannot be an output of the model");
        }
    }
    return CKM_OK;
}

// Where the parts of a sequence begin and end on its axis: that of number `at`, negative from the end.
static ckm_status find_part(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *split, int64_t size, int64_t at,
                            int64_t *start, int64_t *length, ckm_error *err)
{
    const ckm_i_onnx_value *given = ckm_i_onnx_input(c, split, 1);
    bool listed = given != NULL && given->typed && given->shape.rank == 1;
    if (given != NULL && (given->data == NULL || ckm_i_onnx_dtype_is_real(given->dtype) || given->shape.rank > 1)) {
        return ckm_i_onnx_node_error(split, err, CKM_ERR_UNSUPPORTED,
                                     "its split \"%.200s\" must be a constant of integers", given->name);
    }
    int64_t each = given == NULL ? 1 : listed ? 0 : given->data[0].i;
    if (!listed && each < 1) {
        return ckm_i_onnx_node_error(split, err, CKM_ERR_FORMAT, "parts of %lld elements", (long long)each);
    }
    int64_t n = listed ? given->shape.dims[0] : size / each + (size % each != 0);
    int64_t part = at < 0 ? at + n : at;
    int64_t left = size;
    *start = listed ? 0 : part * each;
    *length = listed ? 0 : size - *start < each ? size - *start : each;
    for (int64_t i = 0; listed && i < n; i++) {
        int64_t next = given->data[i].i;
        left = next < 0 || next > left ? -1 : left - next;
        if (left < 0) {
            break;
        }
        *start += i < part ? next : 0;
        *length = i == part ? next : *length;
    }
    if (listed && left != 0) {
        return ckm_i_onnx_node_error(split, err, CKM_ERR_FORMAT, "its parts do not add up to %lld", (long long)size);
    }
    if (part < 0 || part >= n) {
        return ckm_i_onnx_node_error(split, err, CKM_ERR_FORMAT, "part %lld is read of %lld", (long long)at,
                                     (long long)n);
    }
    return CKM_OK;
}

static ckm_status convert_sequence_at(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                      ckm_error *err)
{
    const ckm_i_onnx_value *sequence = ckm_i_onnx_input(c, node, 0);
    const ckm_i_onnx_node *split = sequence != NULL && sequence->node >= 0 ? &c->model->nodes[sequence->node] : NULL;
    ckm_i_onnx_value *in;
    ckm_i_onnx_slice slice = {{0}, {0}, {0}};
    int64_t at[CKM_I_ATTR_MAX] = {0};
    int32_t n;
    int32_t axis;
    if (split == NULL || !split->standard || strcmp(split->op_type, "SplitToSequence") != 0) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                     "its sequence must come from SplitToSequence without a detour");
    }
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "position", 1, at, &n, err));
    if (n != 1) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "its position must be one number");
    }
    CKM_I_CHECK(ckm_i_onnx_operand(c, split, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_axis(split, ckm_i_onnx_attr_int(split, "axis", 0), in->shape.rank, &axis, err));
    if (ckm_i_onnx_input(c, split, 1) == NULL && ckm_i_onnx_attr_int(split, "keepdims", 1) == 0) {
        return ckm_i_onnx_node_error(split, err, CKM_ERR_UNSUPPORTED,
                                     "its attribute keepdims is supported only where it is 1");
    }
    int32_t rank = in->shape.rank;
    for (int32_t i = 0; i < rank; i++) {
        slice.steps[i] = 1;
        slice.sizes[i] = in->shape.dims[i];
    }
    CKM_I_CHECK(find_part(c, split, in->shape.dims[axis], at[0], &slice.starts[axis], &slice.sizes[axis], err));
    ckm_i_attr attrs[3] = {ckm_i_attr_ints("starts", slice.starts, rank), ckm_i_attr_ints("steps", slice.steps, rank),
                           ckm_i_attr_ints("sizes", slice.sizes, rank)};
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {split->in, 1}, .attrs = {attrs, 3}},
                           err);
}

// Operators with one axis and all their inputs.
static ckm_status convert_axis(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    int64_t axis = ckm_i_onnx_attr_int(node, "axis", 0);
    ckm_i_attr attr = ckm_i_attr_ints("axis", &axis, 1);
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, node->n_in}, .attrs = {&attr, 1}}, err);
}

static ckm_status convert_gather_nd(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                    ckm_error *err)
{
    int64_t dims = ckm_i_onnx_attr_int(node, "batch_dims", 0);
    ckm_i_attr attr = ckm_i_attr_ints("batch_dims", &dims, 1);
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, node->n_in}, .attrs = {&attr, 1}}, err);
}

static ckm_status convert_tile(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                               ckm_error *err)
{
    ckm_i_onnx_value *in;
    int64_t repeats[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "repeats", 1, repeats, &n, err));
    ckm_i_attr attr = ckm_i_attr_ints("repeats", repeats, n < 0 ? 0 : n);
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {&attr, 1}},
                           err);
}

// Pads come as an attribute up to opset 10, then as an input, from opset 18 for some axes only.
static ckm_status convert_pad(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                              ckm_error *err)
{
    ckm_i_onnx_value *in;
    int64_t given[CKM_I_ATTR_MAX];
    int64_t axes[CKM_I_ATTR_MAX];
    int64_t pads[2 * CKM_MAX_RANK] = {0};
    int32_t n;
    int32_t n_axes;
    char mode[32];
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "pads", 1, given, &n, err));
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axes", 3, axes, &n_axes, err));
    int32_t rank = in->shape.rank;
    int32_t padded = n_axes >= 0 ? n_axes : rank;
    if (n != 2 * padded || padded > rank) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "%d pads for %d axes; it takes two an axis", (int)n,
                                     (int)padded);
    }
    for (int32_t i = 0; i < padded; i++) {
        int32_t axis;
        CKM_I_CHECK(ckm_i_onnx_axis(node, n_axes >= 0 ? axes[i] : i, rank, &axis, err));
        pads[axis] = given[i];
        pads[axis + rank] = given[i + padded];
    }
    double value[CKM_I_ATTR_MAX] = {0.0};
    const ckm_i_onnx_value *given_value = ckm_i_onnx_input(c, node, 2);
    if (ckm_i_onnx_attr(node, "value") != NULL) {
        value[0] = ckm_i_onnx_attr_real(node, "value", 0.0);
    } else if (given_value != NULL && !ckm_i_onnx_dtype_is_real(given_value->dtype)) {
        CKM_I_CHECK(ckm_i_onnx_ints(c, node, "constant_value", 2, given, &n, err));
        value[0] = n == 1 ? (double)given[0] : 0.0;
    } else if (given_value != NULL) {
        CKM_I_CHECK(ckm_i_onnx_reals(c, node, "constant_value", 2, value, &n, err));
    }
    ckm_i_attr attrs[3] = {ckm_i_attr_ints("pads", pads, 2 * rank),
                           ckm_i_attr_word("mode", ckm_i_onnx_attr_text(node, "mode", "constant", mode, sizeof mode)),
                           ckm_i_attr_real("value", value[0])};
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {attrs, 3}},
                           err);
}

static ckm_status convert_blocks(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 ckm_error *err)
{
    char mode[8];
    bool crd = strcmp(ckm_i_onnx_attr_text(node, "mode", "DCR", mode, sizeof mode), "CRD") == 0;
    int64_t block = ckm_i_onnx_attr_int(node, "blocksize", 0);
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("block", &block, 1), ckm_i_attr_word("mode", crd ? "crd" : "dcr")};
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {attrs, 2}}, err);
}

static ckm_status convert_triangle(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                   ckm_error *err)
{
    int64_t upper = ckm_i_onnx_attr_int(node, "upper", 1);
    int64_t k[CKM_I_ATTR_MAX] = {0};
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "k", 1, k, &n, err));
    ckm_i_attr attrs[2] = {ckm_i_attr_ints("upper", &upper, 1), ckm_i_attr_ints("k", k, 1)};
    return ckm_i_onnx_emit(
        c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = ckm_i_onnx_inputs(node, 1), .attrs = {attrs, 2}}, err);
}

// Where a resampling says its output: factors or sizes, of all axes or of those listed.
typedef struct resampling {
    double scales[CKM_I_ATTR_MAX];
    int64_t sizes[CKM_I_ATTR_MAX], axes[CKM_I_ATTR_MAX];
    int32_t n_scales, n_sizes, n_axes;
} resampling;

static ckm_status read_resampling(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, resampling *r,
                                  ckm_error *err)
{
    // Upsample and the first Resize have the factors as input 1, later ones as input 2.
    bool late = strcmp(node->op_type, "Resize") == 0 && c->model->opset >= 11;
    const ckm_i_onnx_value *sizes = late ? ckm_i_onnx_input(c, node, 3) : NULL;
    r->n_scales = -1;
    r->n_sizes = -1;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axes", -1, r->axes, &r->n_axes, err));
    if (sizes != NULL) {
        CKM_I_CHECK(ckm_i_onnx_ints(c, node, "sizes", 3, r->sizes, &r->n_sizes, err));
    }
    if (r->n_sizes < 0) {
        CKM_I_CHECK(ckm_i_onnx_reals(c, node, "scales", late ? 2 : 1, r->scales, &r->n_scales, err));
    }
    return CKM_OK;
}

static ckm_status resampled_size(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const resampling *r,
                                 int32_t i, int32_t axis, const ckm_shape *in, int64_t *out, ckm_error *err)
{
    if (r->n_sizes >= 0) {
        // A size written down for the file's batch follows the batch.
        bool batch = axis == 0 && c->file_batch > 0 && r->sizes[i] == c->file_batch && in->dims[0] == c->batch;
        *out = batch ? c->batch : r->sizes[i];
        return CKM_OK;
    }
    // Scales are single precision, and so is what exporters and runtimes multiply.
    double exact = (double)in->dims[axis] * r->scales[i];
    double size = floor((double)((float)in->dims[axis] * (float)r->scales[i]));
    if (!(size >= 1.0 && size < 1e15)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "a scale of %g gives axis %d no size", r->scales[i],
                                     (int)axis);
    }
    // Positions between pixels follow the scale, and kernels know the sizes alone.
    if (fabs(exact - size) > 1e-6 * exact) {
        return ckm_i_onnx_node_error(
            node, err, CKM_ERR_UNSUPPORTED,
            "a scale of %g gives axis %d a size that is not whole (%g), which is not supported: "
            "export it with sizes",
            r->scales[i], (int)axis, exact);
    }
    *out = (int64_t)size;
    return CKM_OK;
}

static ckm_status convert_resize(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_row *row,
                                 ckm_error *err)
{
    ckm_i_onnx_value *in;
    resampling r;
    char mode[32];
    char word[64];
    CKM_I_CHECK(ckm_i_onnx_operand(c, node, 0, &in, err));
    CKM_I_CHECK(read_resampling(c, node, &r, err));
    int32_t rank = in->shape.rank;
    int32_t n = r.n_axes >= 0 ? r.n_axes : rank;
    if ((r.n_sizes >= 0 ? r.n_sizes : r.n_scales) != n) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT,
                                     "it has neither one scale nor one size for each of %d axes", (int)n);
    }
    if (strcmp(ckm_i_onnx_attr_text(node, "coordinate_transformation_mode", "", word, sizeof word),
               "tf_crop_and_resize") == 0) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "cropping is not supported");
    }
    ckm_shape out = in->shape;
    for (int32_t i = 0; i < n; i++) {
        int32_t axis;
        CKM_I_CHECK(ckm_i_onnx_axis(node, r.n_axes >= 0 ? r.axes[i] : i, rank, &axis, err));
        CKM_I_CHECK(resampled_size(c, node, &r, i, axis, &in->shape, &out.dims[axis], err));
    }
    // Upsample and the first Resize: positions from the corner, the nearest one before.
    bool early = strcmp(node->op_type, "Upsample") == 0 || c->model->opset < 11;
    char rounding[32];
    ckm_i_onnx_attr_text(node, "coordinate_transformation_mode", early ? "asymmetric" : "half_pixel", word,
                         sizeof word);
    ckm_i_onnx_attr_text(node, "nearest_mode", early ? "floor" : "round_prefer_floor", rounding, sizeof rounding);
    ckm_i_attr attrs[5] = {ckm_i_attr_ints("size", out.dims, rank),
                           ckm_i_attr_word("mode", ckm_i_onnx_attr_text(node, "mode", "nearest", mode, sizeof mode)),
                           ckm_i_attr_word("coordinates", word), ckm_i_attr_word("rounding", rounding),
                           ckm_i_attr_real("cubic_a", ckm_i_onnx_attr_real(node, "cubic_coeff_a", -0.75))};
    return ckm_i_onnx_emit(c, node, &(ckm_i_onnx_op){.kind = row->kind, .inputs = {node->in, 1}, .attrs = {attrs, 5}},
                           err);
}

const ckm_i_onnx_row ckm_i_onnx_rows_shapes[] = {
    {"Identity", "identity", convert_identity},
    {"Reshape", "reshape", convert_reshape},
    {"Squeeze", "reshape", convert_reshape},
    {"Unsqueeze", "reshape", convert_reshape},
    {"Flatten", "flatten", convert_flatten},
    {"Expand", "expand", convert_expand},
    {"Transpose", "transpose", convert_transpose},
    {"Slice", "slice", convert_slice},
    {"Split", "split", convert_split},
    {"SplitToSequence", NULL, convert_sequence},
    {"SequenceAt", "slice", convert_sequence_at},
    {"Concat", "concat", convert_axis},
    {"Gather", "gather", convert_axis},
    {"GatherElements", "gather_elements", convert_axis},
    {"GatherND", "gather_nd", convert_gather_nd},
    {"ScatterND", "scatter_nd", convert_axis},
    {"ScatterElements", "scatter_elements", convert_axis},
    {"Tile", "tile", convert_tile},
    {"Pad", "pad", convert_pad},
    {"DepthToSpace", "depth_to_space", convert_blocks},
    {"SpaceToDepth", "space_to_depth", convert_blocks},
    {"Trilu", "triangle", convert_triangle},
    {"Resize", "resize", convert_resize},
    {"Upsample", "resize", convert_resize},
    {NULL, NULL, NULL},
};
