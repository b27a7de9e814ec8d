// SPDX-License-Identifier: Apache-2.0
#include "import/onnx_geometry.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"

ckm_status ckm_i_onnx_axis(const ckm_i_onnx_node *node, int64_t axis, int32_t rank, int32_t *out, ckm_error *err)
{
    if (axis < -(int64_t)rank || axis >= rank) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "axis %lld does not exist in %d dimensions",
                                     (long long)axis, (int)rank);
    }
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return CKM_OK;
}

// Elements of the dimensions, those of -1 left out; -1 when they do not fit.
static int64_t product(const int64_t *dims, int32_t n)
{
    int64_t total = 1;
    for (int32_t i = 0; i < n; i++) {
        if (dims[i] >= 0 && !ckm_i_mul(total, dims[i], &total)) {
            return -1;
        }
    }
    return total;
}

static int32_t find_inferred(const int64_t *dims, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (dims[i] == -1) {
            return i;
        }
    }
    return -1;
}

// How a target dimension can hold the batch of the input's axis, best guess first.
typedef enum {
    HOLDS_ALONE,      // it is the batch itself, anywhere within what the axis covers
    HOLDS_INNERMOST,  // of two dimensions, the rows: all that stood before the batch, and the batch
    HOLDS_OUTERMOST,  // it starts at the axis's stride: the batch and what follows (batch times heads)
    HOLDS_SOMEHOW,    // the axis is merged into it
    HOLDS_END
} batch_place;

// Does the target dimension of size `dim`, with `passed` elements before it and `inner` behind, hold it so?
static bool holds_batch(const ckm_i_onnx_convert *c, const ckm_shape *in, int32_t axis, batch_place place, int32_t n,
                        int64_t passed, int64_t dim, int64_t inner)
{
    int64_t before = product(in->dims, axis);
    int64_t covered = in->dims[axis] / c->batch;  // elements of the axis per batch element
    switch (place) {
    case HOLDS_ALONE:
        return dim == c->file_batch && passed >= before && passed / covered <= before;
    case HOLDS_INNERMOST:
        return n == 2 && covered == 1 && inner == product(in->dims + axis + 1, in->rank - axis - 1);
    case HOLDS_OUTERMOST:
        return passed == before;
    default:
        return passed <= before && passed >= before / (dim / c->file_batch);
    }
}

static bool scale_target(const ckm_i_onnx_convert *c, const ckm_shape *in, int32_t axis, int64_t *dims, int32_t n)
{
    for (int place = HOLDS_ALONE; place < HOLDS_END; place++) {
        int64_t passed = 1;
        for (int32_t j = 0; j < n && dims[j] > 0; j++) {
            int64_t scaled;
            if (dims[j] % c->file_batch == 0 && ckm_i_mul(dims[j] / c->file_batch, c->batch, &scaled) &&
                holds_batch(c, in, axis, (batch_place)place, n, passed, dims[j], product(dims + j + 1, n - j - 1))) {
                dims[j] = scaled;
                return true;
            }
            if (!ckm_i_mul(passed, dims[j], &passed)) {
                return false;
            }
        }
    }
    return false;
}

// A model exported with a fixed batch has it written into the targets of its reshapes. When another batch
// is asked for and the target does not fit any more, the dimension that holds the batch is scaled. The
// batch axis of the input is one of the batch's size, or else one it is merged into (batch times heads).
static void follow_batch(const ckm_i_onnx_convert *c, const ckm_shape *in, int64_t *dims, int32_t n)
{
    if (c->file_batch == 0 || c->batch == c->file_batch) {
        return;
    }
    bool open = find_inferred(dims, n) >= 0;
    if (!open && product(dims, n) == product(in->dims, in->rank)) {
        return;
    }
    for (int32_t i = 0; i < in->rank; i++) {
        if (in->dims[i] == c->batch) {
            (void)scale_target(c, in, i, dims, n);
            return;
        }
    }
    for (int32_t i = 0; i < in->rank && !open; i++) {
        if (in->dims[i] % c->batch == 0 && scale_target(c, in, i, dims, n)) {
            return;
        }
    }
}

static ckm_status reshape(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in, bool adapt,
                          ckm_shape *out, ckm_error *err)
{
    int64_t dims[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "shape", 1, dims, &n, err));
    if (n > CKM_MAX_RANK) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "its shape has more than %d dimensions",
                                     CKM_MAX_RANK);
    }
    n = n < 0 ? 0 : n;  // an empty list: a scalar
    bool copies = ckm_i_onnx_attr_int(node, "allowzero", 0) == 0;
    for (int32_t i = 0; i < n; i++) {
        if (dims[i] == 0 && copies && i < in->rank) {
            dims[i] = in->dims[i];
        } else if (dims[i] < -1) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "its shape holds %lld", (long long)dims[i]);
        }
    }
    if (adapt) {
        follow_batch(c, in, dims, n);
    }
    int64_t have = product(in->dims, in->rank);
    int64_t want = product(dims, n);
    int32_t inferred = find_inferred(dims, n);
    if (inferred >= 0 && want > 0 && have >= 0 && have % want == 0) {
        dims[inferred] = have / want;
        want = have;
    }
    ckm_shape result = {.rank = n};
    memcpy(result.dims, dims, (size_t)n * sizeof *dims);
    if (have != want || have < 0 || find_inferred(dims, n) >= 0) {
        char from[256];
        char to[256];
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "%s cannot be reshaped to %s",
                                     ckm_i_shape_text(in, from, sizeof from), ckm_i_shape_text(&result, to, sizeof to));
    }
    *out = result;
    return CKM_OK;
}

static ckm_status squeeze(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in, ckm_shape *out,
                          ckm_error *err)
{
    int64_t axes[CKM_I_ATTR_MAX];
    int32_t n;
    bool removed[CKM_MAX_RANK] = {false};
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axes", 1, axes, &n, err));
    for (int32_t i = 0; n < 0 && i < in->rank; i++) {
        removed[i] = in->dims[i] == 1;
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t axis;
        CKM_I_CHECK(ckm_i_onnx_axis(node, axes[i], in->rank, &axis, err));
        if (in->dims[axis] != 1) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "axis %d has size %lld and cannot be squeezed",
                                         (int)axis, (long long)in->dims[axis]);
        }
        removed[axis] = true;
    }
    ckm_shape result = {0};
    for (int32_t i = 0; i < in->rank; i++) {
        if (!removed[i]) {
            result.dims[result.rank++] = in->dims[i];
        }
    }
    *out = result;
    return CKM_OK;
}

static ckm_status unsqueeze(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                            ckm_shape *out, ckm_error *err)
{
    int64_t axes[CKM_I_ATTR_MAX];
    int32_t n;
    bool added[CKM_MAX_RANK] = {false};
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axes", 1, axes, &n, err));
    if (n < 0) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "it has no axes");
    }
    if (in->rank + n > CKM_MAX_RANK) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "its output has more than %d dimensions",
                                     CKM_MAX_RANK);
    }
    ckm_shape result = {.rank = in->rank + n};
    for (int32_t i = 0; i < n; i++) {
        int32_t axis;
        CKM_I_CHECK(ckm_i_onnx_axis(node, axes[i], result.rank, &axis, err));
        if (added[axis]) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "axis %d is listed twice", (int)axis);
        }
        added[axis] = true;
    }
    int32_t from = 0;
    for (int32_t i = 0; i < result.rank; i++) {
        result.dims[i] = added[i] ? 1 : in->dims[from++];
    }
    *out = result;
    return CKM_OK;
}

static ckm_status flatten(const ckm_i_onnx_node *node, const ckm_shape *in, ckm_shape *out, ckm_error *err)
{
    int64_t axis = ckm_i_onnx_attr_int(node, "axis", 1);
    if (axis < -(int64_t)in->rank || axis > in->rank) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "axis %lld does not exist in %d dimensions",
                                     (long long)axis, (int)in->rank);
    }
    int32_t at = (int32_t)(axis < 0 ? axis + in->rank : axis);
    *out = (ckm_shape){2, {product(in->dims, at), product(in->dims + at, in->rank - at)}};
    return CKM_OK;
}

ckm_status ckm_i_onnx_reshaped(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                               bool adapt, ckm_shape *out, ckm_error *err)
{
    if (strcmp(node->op_type, "Squeeze") == 0) {
        return squeeze(c, node, in, out, err);
    }
    if (strcmp(node->op_type, "Unsqueeze") == 0) {
        return unsqueeze(c, node, in, out, err);
    }
    if (strcmp(node->op_type, "Flatten") == 0) {
        return flatten(node, in, out, err);
    }
    return reshape(c, node, in, adapt, out, err);
}

ckm_status ckm_i_onnx_expanded(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                               bool adapt, ckm_shape *out, ckm_error *err)
{
    int64_t dims[CKM_I_ATTR_MAX];
    int32_t n;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "shape", 1, dims, &n, err));
    if (n > CKM_MAX_RANK) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED, "its shape has more than %d dimensions",
                                     CKM_MAX_RANK);
    }
    n = n < 0 ? 0 : n;
    if (adapt && c->file_batch > 0 && c->batch != c->file_batch && n > 1 && dims[0] == c->file_batch &&
        (in->rank < n || in->dims[0] == 1 || in->dims[0] == c->batch)) {
        dims[0] = c->batch;
    }
    ckm_shape result = {.rank = n > in->rank ? n : in->rank};
    for (int32_t i = 1; i <= result.rank; i++) {
        int64_t a = i <= in->rank ? in->dims[in->rank - i] : 1;
        int64_t b = i <= n ? dims[n - i] : 1;
        if (b < 0 || (a != b && a != 1 && b != 1)) {
            char text[256];
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "%s cannot be expanded: %lld asked for on axis %d",
                                         ckm_i_shape_text(in, text, sizeof text), (long long)b, (int)(result.rank - i));
        }
        result.dims[result.rank - i] = a == 1 ? b : a;
    }
    *out = result;
    return CKM_OK;
}

// Elements from start towards end (exclusive) on an axis of `size`, numpy's rule: both are clamped.
static void slice_axis(int64_t size, int64_t start, int64_t end, int64_t step, int64_t *first, int64_t *count)
{
    start = start < 0 && start > INT64_MIN + size ? start + size : start;
    end = end < 0 && end > INT64_MIN + size ? end + size : end;
    int64_t low = step > 0 ? 0 : -1;
    int64_t high = step > 0 ? size : size - 1;
    start = start < (step > 0 ? low : 0) ? (step > 0 ? low : 0) : start > high ? high : start;
    end = end < low ? low : end > high ? high : end;
    int64_t span = step > 0 ? end - start : start - end;
    // The magnitude of a step beyond the axis is the axis.
    int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
    *count = span <= 0 || size == 0 ? 0 : (span - 1) / stride + 1;
    *first = *count > 0 ? start : 0;
}

ckm_status ckm_i_onnx_slice_plan(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                                 ckm_i_onnx_slice *out, ckm_error *err)
{
    int64_t starts[CKM_I_ATTR_MAX];
    int64_t ends[CKM_I_ATTR_MAX];
    int64_t axes[CKM_I_ATTR_MAX];
    int64_t steps[CKM_I_ATTR_MAX];
    int32_t n;
    int32_t n_ends;
    int32_t n_axes;
    int32_t n_steps;
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "starts", 1, starts, &n, err));
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "ends", 2, ends, &n_ends, err));
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axes", 3, axes, &n_axes, err));
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "steps", 4, steps, &n_steps, err));
    if (n < 0 || n_ends != n || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n) ||
        (n_axes < 0 && n > in->rank)) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "its starts, ends, axes and steps do not fit together");
    }
    for (int32_t i = 0; i < in->rank; i++) {
        out->starts[i] = 0;
        out->steps[i] = 1;
        out->sizes[i] = in->dims[i];
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t axis;
        int64_t step = n_steps >= 0 ? steps[i] : 1;
        CKM_I_CHECK(ckm_i_onnx_axis(node, n_axes >= 0 ? axes[i] : i, in->rank, &axis, err));
        if (step == 0) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "a step is 0");
        }
        slice_axis(in->dims[axis], starts[i], ends[i], step, &out->starts[axis], &out->sizes[axis]);
        out->steps[axis] = out->sizes[axis] > 1 ? step : 1;
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_split_plan(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                                 int32_t *axis, int64_t *sizes, ckm_error *err)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, "split");
    const ckm_i_onnx_value *given = ckm_i_onnx_input(c, node, 1);
    CKM_I_CHECK(ckm_i_onnx_axis(node, ckm_i_onnx_attr_int(node, "axis", 0), in->rank, axis, err));
    int64_t size = in->dims[*axis];
    if (attr != NULL || given != NULL) {
        int64_t n = attr != NULL                             ? (int64_t)attr->n_ints
                    : given->typed && given->shape.rank == 1 ? given->shape.dims[0]
                                                             : -1;
        if (attr == NULL && (given->data == NULL || ckm_i_onnx_dtype_is_real(given->dtype))) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_UNSUPPORTED,
                                         "its split \"%.200s\" must be a constant of integers", given->name);
        }
        if (n != node->n_out) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "%lld sizes for %d outputs", (long long)n,
                                         (int)node->n_out);
        }
        int64_t left = size;
        for (int32_t i = 0; i < node->n_out; i++) {
            sizes[i] = attr != NULL ? attr->ints[i] : given->data[i].i;
            left = sizes[i] < 0 || sizes[i] > left ? -1 : left - sizes[i];
            if (left < 0) {
                break;
            }
        }
        if (left != 0) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT,
                                         "its parts do not add up to %lld, the size of axis %d", (long long)size,
                                         (int)*axis);
        }
        return CKM_OK;
    }
    int64_t part = size / node->n_out + (size % node->n_out != 0);
    for (int32_t i = 0; i < node->n_out; i++) {
        sizes[i] = size < part ? size : part;
        size -= sizes[i];
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_permutation(const ckm_i_onnx_node *node, int32_t rank, int64_t *perm, ckm_error *err)
{
    const CkmOnnx__Attribute *attr = ckm_i_onnx_attr(node, "perm");
    unsigned seen = 0;
    if (attr != NULL && attr->n_ints != (size_t)rank) {
        return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "perm has %zu entries for %d dimensions", attr->n_ints,
                                     (int)rank);
    }
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = attr != NULL ? attr->ints[i] : rank - 1 - i;
        if (perm[i] < 0 || perm[i] >= rank || (seen >> perm[i] & 1U) != 0) {
            return ckm_i_onnx_node_error(node, err, CKM_ERR_FORMAT, "perm is not a permutation of its %d axes",
                                         (int)rank);
        }
        seen |= 1U << perm[i];
    }
    return CKM_OK;
}

ckm_status ckm_i_onnx_reduced(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t rank, int64_t *axes,
                              int32_t *n, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_onnx_ints(c, node, "axes", 1, axes, n, err));
    if (*n <= 0 && ckm_i_onnx_attr_int(node, "noop_with_empty_axes", 0) != 0) {
        *n = 0;
    } else if (*n == 0) {
        *n = -1;
    }
    for (int32_t i = 0; i < *n; i++) {
        int32_t axis;
        CKM_I_CHECK(ckm_i_onnx_axis(node, axes[i], rank, &axis, err));
        axes[i] = axis;
    }
    return CKM_OK;
}
