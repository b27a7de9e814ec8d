// SPDX-License-Identifier: Apache-2.0
// Choosing among values, limiting them, and changing their type: where, clip, prelu, cast.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

// inputs condition, a, b
static ckm_status where(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    int64_t size = ckm_i_dtype_bytes(ckm_i_ref_out(&r, 0)->dtype);
    const uint8_t *condition = ckm_i_ref_input(&r, 0);
    const char *a = ckm_i_ref_input(&r, 1);
    const char *b = ckm_i_ref_input(&r, 2);
    char *y = ckm_i_ref_output(&r, 0);
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&ckm_i_ref_out(&r, 0)->shape);
    for (int32_t i = 0; i < 3; i++) {
        ckm_i_ref_walk_add(&w, &ckm_i_ref_in(&r, i)->shape);
    }
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++, y += size) {
            bool holds = condition[w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0)] != 0;
            int32_t from = holds ? 1 : 2;
            // y may be a or b: the same element then.
            memmove(y, (holds ? a : b) + (w.offsets[from] + j * ckm_i_ref_row_stride(&w, from)) * size, (size_t)size);
        }
    }
    return CKM_OK;
}

// inputs dy, condition; attribute value
static ckm_status select_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    const float *dy = ckm_i_ref_input(&r, 0);
    const uint8_t *condition = ckm_i_ref_input(&r, 1);
    float *out = ckm_i_ref_output(&r, 0);
    bool value = ckm_i_op_attr_int(r.op, "value", 0, 1) != 0;
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&ckm_i_ref_out(&r, 0)->shape);
    for (int32_t i = 0; i < 2; i++) {
        ckm_i_ref_walk_add(&w, &ckm_i_ref_in(&r, i)->shape);
    }
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            bool holds = condition[w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1)] != 0;
            *out++ = holds == value ? dy[w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0)] : 0.0F;
        }
    }
    return CKM_OK;
}

// ---- clip

// The limit: an attribute, else input `i`, else none.
static float limit_of(const ckm_i_ref_op *r, const char *key, int32_t i, double fallback)
{
    const void *given = ckm_i_ref_input(r, i);
    if (ckm_i_op_attr(r->op, key) == NULL && given != NULL) {
        fallback = ckm_i_ref_load(given, ckm_i_ref_in(r, i)->dtype, 0);
    }
    return (float)ckm_i_op_attr_double(r->op, key, fallback);
}

// inputs x, [min], [max]
static ckm_status clip(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    float low = limit_of(&r, "min", 1, (double)-INFINITY);
    float high = limit_of(&r, "max", 2, (double)INFINITY);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    if (ckm_i_ref_in(&r, 0)->dtype != CKM_F32) {
        return ckm_i_ref_error(&r, err, CKM_ERR_UNSUPPORTED, "only single precision (float32) is supported");
    }
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] < low ? low : x[i];
        y[i] = v > high ? high : v;
    }
    return CKM_OK;
}

// inputs dy, y, [min], [max]
static ckm_status clip_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    float low = limit_of(&r, "min", 2, (double)-INFINITY);
    float high = limit_of(&r, "max", 3, (double)INFINITY);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *y = ckm_i_ref_input(&r, 1);
    float *dx = ckm_i_ref_output(&r, 0);
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    for (int64_t i = 0; i < n; i++) {
        dx[i] = y[i] > low && y[i] < high ? dy[i] : 0.0F;
    }
    return CKM_OK;
}

// ---- prelu

// The slope's shape as numpy aligns it with x: one of rank 1 with an element a channel goes to the channels.
static ckm_shape aligned_slope(const ckm_i_ref_op *r, const ckm_shape *x, const ckm_shape *slope)
{
    int32_t channel = ckm_i_channel_axis(r->graph, x->rank);
    if (slope->rank != 1 || x->rank < 2 || slope->dims[0] != x->dims[channel]) {
        return *slope;
    }
    ckm_shape aligned = {.rank = x->rank};
    for (int32_t i = 0; i < x->rank; i++) {
        aligned.dims[i] = i == channel ? slope->dims[0] : 1;
    }
    return aligned;
}

// inputs x, slope
static ckm_status prelu(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 0)->shape;
    ckm_shape aligned = aligned_slope(&r, shape, &ckm_i_ref_in(&r, 1)->shape);
    const float *x = ckm_i_ref_input(&r, 0);
    const float *slope = ckm_i_ref_input(&r, 1);
    float *y = ckm_i_ref_output(&r, 0);
    ckm_i_ref_walk w = ckm_i_ref_walk_over(&ckm_i_ref_out(&r, 0)->shape);
    ckm_i_ref_walk_add(&w, shape);
    ckm_i_ref_walk_add(&w, &aligned);
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            float v = x[w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0)];
            *y++ = v < 0.0F ? v * slope[w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1)] : v;
        }
    }
    return CKM_OK;
}

// inputs dy, x, slope
static ckm_status prelu_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 1)->shape;
    ckm_shape aligned = aligned_slope(&r, shape, &ckm_i_ref_in(&r, 2)->shape);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *slope = ckm_i_ref_input(&r, 2);
    float *dx = ckm_i_ref_output(&r, 0);
    ckm_i_ref_walk w = ckm_i_ref_walk_over(shape);
    ckm_i_ref_walk_add(&w, shape);
    ckm_i_ref_walk_add(&w, &aligned);
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            int64_t i = w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0);
            dx[i] = x[i] < 0.0F ? dy[i] * slope[w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1)] : dy[i];
        }
    }
    return CKM_OK;
}

// One double for every element of the slope.
static int64_t slope_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    return ckm_i_elements(&step->tensors[v->op->outputs[0]].shape) * (int64_t)sizeof(double);
}

// inputs dy, x
static ckm_status prelu_backward_slope(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *shape = &ckm_i_ref_in(&r, 1)->shape;
    const ckm_shape *out = &ckm_i_ref_out(&r, 0)->shape;
    ckm_shape aligned = aligned_slope(&r, shape, out);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    float *dslope = ckm_i_ref_output(&r, 0);
    double *sums = call->workspace;
    int64_t n = ckm_i_elements(out);
    memset(sums, 0, (size_t)n * sizeof *sums);
    ckm_i_ref_walk w = ckm_i_ref_walk_over(shape);
    ckm_i_ref_walk_add(&w, shape);
    ckm_i_ref_walk_add(&w, &aligned);
    for (bool more = ckm_i_ref_walk_start(&w); more; more = ckm_i_ref_walk_next(&w)) {
        for (int64_t j = 0; j < ckm_i_ref_row_length(&w); j++) {
            int64_t i = w.offsets[0] + j * ckm_i_ref_row_stride(&w, 0);
            double *sum = &sums[w.offsets[1] + j * ckm_i_ref_row_stride(&w, 1)];
            *sum += x[i] < 0.0F ? (double)x[i] * (double)dy[i] : 0.0;
        }
    }
    for (int64_t i = 0; i < n; i++) {
        dslope[i] = (float)sums[i];
    }
    return CKM_OK;
}

// ---- cast

static bool is_real(ckm_dtype dtype)
{
    return dtype == CKM_F32 || dtype == CKM_F64;
}

static ckm_status cast(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    ckm_dtype from = ckm_i_ref_in(&r, 0)->dtype;
    ckm_dtype to = ckm_i_ref_out(&r, 0)->dtype;
    if (from == CKM_F16 || from == CKM_BF16 || to == CKM_F16 || to == CKM_BF16) {
        return ckm_i_ref_error(&r, err, CKM_ERR_UNSUPPORTED, "half precision is not supported");
    }
    int64_t n = ckm_i_elements(&ckm_i_ref_in(&r, 0)->shape);
    for (int64_t i = 0; i < n; i++) {
        double value = ckm_i_ref_load(ckm_i_ref_input(&r, 0), from, i);
        bool truncates = is_real(from) && !is_real(to) && to != CKM_BOOL;
        ckm_i_ref_store(ckm_i_ref_output(&r, 0), to, i, truncates ? trunc(value) : value);
    }
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_select[] = {
    {CKM_I_OP_where, NULL, where},
    {CKM_I_OP_select_backward, NULL, select_backward},
    {CKM_I_OP_clip, NULL, clip},
    {CKM_I_OP_clip_backward, NULL, clip_backward},
    {CKM_I_OP_prelu, NULL, prelu},
    {CKM_I_OP_prelu_backward, NULL, prelu_backward},
    {CKM_I_OP_prelu_backward_slope, slope_workspace, prelu_backward_slope},
    {CKM_I_OP_cast, NULL, cast},
    {0},
};
