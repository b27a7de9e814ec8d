// SPDX-License-Identifier: Apache-2.0
#include "graph/op_window.h"

#include <string.h>

// Explicit pads, or the padding named by a word.
static ckm_status read_padding(const ckm_i_op_view *v, ckm_i_window *w, ckm_error *err)
{
    const ckm_i_attr *attr = ckm_i_op_attr(v->op, "padding");
    memset(w->pads, 0, sizeof w->pads);
    w->padding = CKM_I_PAD_EXPLICIT;
    if (attr == NULL) {
        return CKM_OK;
    }
    if (attr->type != CKM_I_ATTR_WORD) {
        return ckm_i_op_list(v, "padding", 2 * w->n, 0, CKM_I_WINDOW_LIMIT, 0, w->pads, err);
    }
    if (strcmp(attr->word, "valid") == 0) {
        return CKM_OK;
    }
    if (strcmp(attr->word, "same") == 0 || strcmp(attr->word, "same_upper") == 0 ||
        strcmp(attr->word, "same_lower") == 0) {
        w->padding = CKM_I_PAD_SAME;
        return CKM_OK;
    }
    return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                          "padding \"%s\" is not known: valid, same, same_upper, same_lower or a list of integers",
                          attr->word);
}

ckm_status ckm_i_window_read(const ckm_i_op_view *v, const int64_t *kernel, ckm_i_window *w, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_op_check_rank(v, 0, 3, CKM_MAX_RANK, err));
    const ckm_shape *x = &v->in[0]->shape;
    w->n = x->rank - 2;
    w->channel_axis = ckm_i_channel_axis(v->graph, x->rank);
    w->spatial_axis = ckm_i_spatial_axis(v->graph);
    w->channels = x->dims[w->channel_axis];
    for (int32_t i = 0; i < x->rank; i++) {
        if (x->dims[i] < 1) {  // constants may be empty
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "input 0 is empty: dimension %d is 0", (int)i);
        }
    }
    if (kernel == NULL && ckm_i_op_attr(v->op, "kernel") == NULL) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "attribute kernel is missing");
    }
    CKM_I_CHECK(ckm_i_op_list(v, "kernel", w->n, 1, CKM_I_WINDOW_LIMIT, 0, w->kernel, err));
    for (int32_t i = 0; kernel != NULL && i < w->n; i++) {
        if (kernel[i] < 1 || kernel[i] > CKM_I_WINDOW_LIMIT || (w->kernel[i] != 0 && w->kernel[i] != kernel[i])) {
            return ckm_i_op_error(v, err, CKM_ERR_FORMAT, "the weight's kernel size is %lld on spatial axis %d%s",
                                  (long long)kernel[i], (int)i,
                                  w->kernel[i] != 0 ? ", attribute kernel says otherwise" : "; it is out of range");
        }
        w->kernel[i] = kernel[i];
    }
    CKM_I_CHECK(ckm_i_op_list(v, "strides", w->n, 1, CKM_I_WINDOW_LIMIT, 1, w->stride, err));
    CKM_I_CHECK(ckm_i_op_list(v, "dilation", w->n, 1, CKM_I_WINDOW_LIMIT, 1, w->dilation, err));
    return read_padding(v, w, err);
}

ckm_status ckm_i_window_output(const ckm_i_op_view *v, const ckm_i_window *w, int32_t i, int64_t size, bool ceiling,
                               int64_t *out, ckm_error *err)
{
    int64_t stride = w->stride[i];
    if (w->padding == CKM_I_PAD_SAME) {
        *out = (size - 1) / stride + 1;
        return CKM_OK;
    }
    if (size > INT64_MAX / 4) {
        return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW, "spatial size %lld is too large", (long long)size);
    }
    // Below 2^60 + 2^31: no step here can overflow.
    int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t padded = size + w->pads[i] + w->pads[w->n + i];
    if (padded < extent) {
        return ckm_i_op_error(v, err, CKM_ERR_FORMAT,
                              "spatial axis %d: %lld elements with padding are fewer than the window's %lld", (int)i,
                              (long long)padded, (long long)extent);
    }
    int64_t steps = (padded - extent) / stride;
    if (ceiling && (padded - extent) % stride != 0 && (steps + 1) * stride < size + w->pads[i]) {
        steps++;
    }
    *out = steps + 1;
    return CKM_OK;
}

ckm_status ckm_i_window_check_elements(const ckm_i_op_view *v, const ckm_i_window *w, ckm_error *err)
{
    int64_t elements = 1;
    for (int32_t i = 0; i < w->n; i++) {
        elements *= w->kernel[i];  // both factors are below 2^30
        if (elements > CKM_I_WINDOW_LIMIT) {
            return ckm_i_op_error(v, err, CKM_ERR_OVERFLOW,
                                  "its window has more than %lld elements; attribute kernel must be smaller",
                                  (long long)CKM_I_WINDOW_LIMIT);
        }
    }
    return CKM_OK;
}

ckm_status ckm_i_window_shape(const ckm_i_op_view *v, const ckm_i_window *w, int64_t channels, bool ceiling,
                              ckm_shape *out, ckm_error *err)
{
    ckm_shape shape = v->in[0]->shape;
    for (int32_t i = 0; i < w->n; i++) {
        int64_t size = shape.dims[w->spatial_axis + i];
        CKM_I_CHECK(ckm_i_window_output(v, w, i, size, ceiling, &shape.dims[w->spatial_axis + i], err));
    }
    shape.dims[w->channel_axis] = channels;
    *out = shape;
    return CKM_OK;
}
