// SPDX-License-Identifier: Apache-2.0
#include "graph/op_support.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"
#include "base/error.h"

// In parentheses: the function, not the macro around it.
ckm_status(ckm_i_op_error)(const ckm_i_op_view *v, ckm_error *err, ckm_status code, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return ckm_i_error(err, code, "operator \"%.200s\" (%s): %s", v->op->name, v->op->op_class->kind, message);
}

ckm_status ckm_i_op_check_rank(const ckm_i_op_view *v, int32_t i, int32_t min_rank, int32_t max_rank, ckm_error *err)
{
    const ckm_i_graph_tensor *t = v->in[i];
    if (t == NULL) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input %d is missing", (int)i);
    }
    if (t->shape.rank < min_rank || t->shape.rank > max_rank) {
        char text[256];
        ckm_i_shape_text(&t->shape, text, sizeof text);
        if (min_rank == max_rank) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input %d is %s; it must have %d dimensions", (int)i, text,
                                  (int)min_rank);
        }
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input %d is %s; it must have %d to %d dimensions", (int)i, text,
                              (int)min_rank, (int)max_rank);
    }
    return CKM_OK;
}

ckm_status ckm_i_op_axis(const ckm_i_op_view *v, int64_t axis, int32_t rank, int32_t *out, ckm_error *err)
{
    if (axis < -(int64_t)rank || axis >= rank) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "axis %lld does not exist in %d dimensions", (long long)axis,
                              (int)rank);
    }
    *out = (int32_t)(axis < 0 ? axis + rank : axis);
    return CKM_OK;
}

ckm_status ckm_i_op_list(const ckm_i_op_view *v, const char *key, int32_t n, int64_t min, int64_t max, int64_t fallback,
                         int64_t *out, ckm_error *err)
{
    const ckm_i_attr *attr = ckm_i_op_attr(v->op, key);
    if (attr != NULL && (attr->type != CKM_I_ATTR_INTS || attr->n != n)) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute %s must be %d integers", key, (int)n);
    }
    for (int32_t i = 0; attr != NULL && i < n; i++) {
        if (attr->ints[i] < min || attr->ints[i] > max) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute %s holds %lld; it must be from %lld to %lld", key,
                                  (long long)attr->ints[i], (long long)min, (long long)max);
        }
    }
    for (int32_t i = 0; i < n; i++) {
        out[i] = attr != NULL ? attr->ints[i] : fallback;
    }
    return CKM_OK;
}

ckm_status ckm_i_op_int(const ckm_i_op_view *v, const char *key, int64_t min, int64_t max, int64_t fallback,
                        int64_t *out, ckm_error *err)
{
    return ckm_i_op_list(v, key, 1, min, max, fallback, out, err);
}

ckm_status ckm_i_op_broadcast(const ckm_i_op_view *v, const ckm_shape *a, const ckm_shape *b, ckm_shape *out,
                              ckm_error *err)
{
    ckm_shape result = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int32_t i = 1; i <= result.rank; i++) {
        int64_t da = i <= a->rank ? a->dims[a->rank - i] : 1;
        int64_t db = i <= b->rank ? b->dims[b->rank - i] : 1;
        if (da != db && da != 1 && db != 1) {
            char ta[256];
            char tb[256];
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "operands of shape %s and %s do not fit together",
                                  ckm_i_shape_text(a, ta, sizeof ta), ckm_i_shape_text(b, tb, sizeof tb));
        }
        result.dims[result.rank - i] = da == 1 ? db : da;
    }
    *out = result;
    return CKM_OK;
}

ckm_status ckm_i_op_infer_same(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err)
{
    (void)err;
    out_shapes[0] = v->in[0]->shape;
    out_dtypes[0] = v->in[0]->dtype;
    return CKM_OK;
}

ckm_status ckm_i_op_elements(const ckm_i_op_view *v, const ckm_shape *shape, int64_t *elements, ckm_error *err)
{
    if (ckm_i_shape_elements(shape, elements, NULL) != CKM_OK) {
        char text[256];
        return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "the elements of shape %s do not fit 63 bits",
                              ckm_i_shape_text(shape, text, sizeof text));
    }
    return CKM_OK;
}

static ckm_status macs_per_element(const ckm_i_op_view *v, const ckm_shape *shape, int64_t factor, int64_t *macs,
                                   ckm_error *err)
{
    int64_t elements;
    CKM_I_CHECK(ckm_i_op_elements(v, shape, &elements, err));
    int64_t result;
    if (!ckm_i_mul(elements, factor, &result)) {
        return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "its cost does not fit 63 bits");
    }
    *macs = result;
    return CKM_OK;
}

ckm_status ckm_i_op_macs_per_output(const ckm_i_op_view *v, int64_t factor, int64_t *macs, ckm_error *err)
{
    return macs_per_element(v, &v->graph->tensors[v->op->outputs[0]].shape, factor, macs, err);
}

ckm_status ckm_i_op_macs_per_input(const ckm_i_op_view *v, int64_t factor, int64_t *macs, ckm_error *err)
{
    return macs_per_element(v, &v->in[0]->shape, factor, macs, err);
}

ckm_status ckm_i_op_macs_one_per_input(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_input(v, 1, macs, err);
}

ckm_status ckm_i_op_macs_one_per_output(const ckm_i_op_view *v, int64_t *macs, ckm_error *err)
{
    return ckm_i_op_macs_per_output(v, 1, macs, err);
}
