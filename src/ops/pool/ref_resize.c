// SPDX-License-Identifier: Apache-2.0
// Resampling: every output element is a weighted sum of input elements, the weights a product over the axes.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_support.h"

enum { MAX_TAPS = 4 };

// One axis: for each output position the taps it reads.
typedef struct axis_taps {
    int64_t in, out, stride;  // sizes; elements from one input position to the next
    int32_t taps;             // 1: nearest, or an axis that stays; 2: linear; 4: cubic
    int64_t *at;              // out * taps input positions
    float *weight;            // out * taps
} axis_taps;

typedef struct resampling {
    int32_t rank;   // axes before the trailing ones that stay
    int64_t inner;  // elements of those
    axis_taps axes[CKM_MAX_RANK];
} resampling;

// ---- where output positions lie in the input

static double coordinate(const char *mode, int64_t i, int64_t in, int64_t out)
{
    double scale = (double)out / (double)in;
    if (strcmp(mode, "asymmetric") == 0) {
        return (double)i / scale;
    }
    if (strcmp(mode, "align_corners") == 0) {
        return out > 1 ? (double)i * (double)(in - 1) / (double)(out - 1) : 0.0;
    }
    if (strcmp(mode, "pytorch_half_pixel") == 0 && out == 1) {
        return 0.0;
    }
    return ((double)i + 0.5) / scale - 0.5;
}

static double round_as(const char *rounding, double x)
{
    if (strcmp(rounding, "floor") == 0) {
        return floor(x);
    }
    if (strcmp(rounding, "ceil") == 0) {
        return ceil(x);
    }
    return strcmp(rounding, "round_prefer_ceil") == 0 ? floor(x + 0.5) : ceil(x - 0.5);
}

static int64_t clamp(int64_t i, int64_t n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

// Keys' cubic convolution with parameter a, for a distance from 0 to 2.
static double cubic(double distance, double a)
{
    double t = fabs(distance);
    if (t <= 1.0) {
        return ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    }
    return t < 2.0 ? ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a : 0.0;
}

static void fill_axis(const ckm_i_graph_op *op, axis_taps *axis)
{
    const char *mode = ckm_i_op_attr_text(op, "coordinates", "half_pixel");
    const char *rounding = ckm_i_op_attr_text(op, "rounding", "round_prefer_floor");
    double a = ckm_i_op_attr_double(op, "cubic_a", -0.75);
    for (int64_t i = 0; i < axis->out; i++) {
        int64_t *at = axis->at + i * axis->taps;
        float *weight = axis->weight + i * axis->taps;
        double x = coordinate(mode, i, axis->in, axis->out);
        double low = floor(x);
        if (axis->taps == 1) {
            at[0] = axis->in == axis->out ? i : clamp((int64_t)round_as(rounding, x), axis->in);
            weight[0] = 1.0F;
        } else if (axis->taps == 2) {
            at[0] = clamp((int64_t)low, axis->in);
            at[1] = clamp((int64_t)low + 1, axis->in);
            weight[1] = (float)(x - low);
            weight[0] = 1.0F - weight[1];
        } else {
            for (int32_t k = 0; k < MAX_TAPS; k++) {
                at[k] = clamp((int64_t)low + k - 1, axis->in);
                weight[k] = (float)cubic(x - (low + k - 1), a);
            }
        }
    }
}

static int32_t taps_of(const char *mode, const ckm_shape *in, const ckm_shape *out, int32_t i)
{
    if (in->dims[i] == out->dims[i] || strcmp(mode, "nearest") == 0) {
        return 1;
    }
    return strcmp(mode, "cubic") == 0 ? 4 : 2;
}

// Positions and weights of all axes, in bytes.
static int64_t room_for(const ckm_i_graph_op *op, const ckm_shape *in, const ckm_shape *out)
{
    const char *mode = ckm_i_op_attr_text(op, "mode", "nearest");
    int64_t taps = 0;
    for (int32_t i = 0; i < in->rank; i++) {
        taps += out->dims[i] * taps_of(mode, in, out, i);
    }
    return taps * (int64_t)(sizeof(int64_t) + sizeof(float));
}

static resampling open_resampling(const ckm_i_graph_op *op, const ckm_shape *in, const ckm_shape *out, void *workspace)
{
    const char *mode = ckm_i_op_attr_text(op, "mode", "nearest");
    resampling r = {.rank = in->rank, .inner = 1};
    int64_t strides[CKM_MAX_RANK] = {0};
    int64_t *positions = workspace;
    ckm_i_ref_strides(in, strides);
    while (r.rank > 0 && in->dims[r.rank - 1] == out->dims[r.rank - 1]) {
        r.inner *= in->dims[--r.rank];
    }
    for (int32_t i = 0; i < r.rank; i++) {
        r.axes[i] = (axis_taps){.in = in->dims[i],
                                .out = out->dims[i],
                                .stride = strides[i],
                                .taps = taps_of(mode, in, out, i),
                                .at = positions};
        positions += r.axes[i].out * r.axes[i].taps;
    }
    float *weights = (float *)(void *)positions;
    for (int32_t i = 0; i < r.rank; i++) {
        r.axes[i].weight = weights;
        weights += r.axes[i].out * r.axes[i].taps;
        fill_axis(op, &r.axes[i]);
    }
    return r;
}

// ---- going through output positions, and the taps of each

// Offset and weight of combination `tap` of the axes' taps for output position `at`.
static int64_t find_tap(const resampling *r, const int64_t *at, int64_t tap, float *weight)
{
    int64_t offset = 0;
    float product = 1.0F;
    for (int32_t i = r->rank - 1; i >= 0; i--) {
        const axis_taps *axis = &r->axes[i];
        int64_t taps = axis->taps > 1 ? axis->taps : 1;
        int64_t k = at[i] * taps + tap % taps;
        tap /= taps;
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): axes below the rank have their tables
        offset += axis->at[k] * axis->stride;
        product *= axis->weight[k];
    }
    *weight = product;
    return offset;
}

// Forward when `backward` is false: large = taps of small; otherwise small += the same taps of large.
static void resample(const resampling *r, float *small, float *large, bool backward)
{
    int64_t at[CKM_MAX_RANK] = {0};
    int64_t positions = 1;
    int64_t taps = 1;
    for (int32_t i = 0; i < r->rank; i++) {
        positions *= r->axes[i].out;
        taps *= r->axes[i].taps;
    }
    for (int64_t p = 0; p < positions; p++, large += r->inner) {
        if (!backward) {
            memset(large, 0, (size_t)r->inner * sizeof *large);
        }
        for (int64_t tap = 0; tap < taps; tap++) {
            float weight;
            float *other = small + find_tap(r, at, tap, &weight);
            float *to = backward ? other : large;
            const float *from = backward ? large : other;
            for (int64_t j = 0; j < r->inner; j++) {
                to[j] += weight * from[j];
            }
        }
        for (int32_t i = r->rank - 1; i >= 0 && ++at[i] == r->axes[i].out; i--) {
            at[i] = 0;
        }
    }
}

static float *floats_of(const void *pointer)
{
    union {
        const void *given;
        float *floats;  // written only where it is an output
    } u = {.given = pointer};
    return u.floats;
}

static int64_t forward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    return room_for(v->op, &v->in[0]->shape, &step->tensors[v->op->outputs[0]].shape);
}

static int64_t backward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    return room_for(v->op, &step->tensors[v->op->outputs[0]].shape, &v->in[0]->shape);
}

// attributes size, mode, coordinates, rounding, cubic_a
static ckm_status resize(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    resampling s = open_resampling(r.op, &ckm_i_ref_in(&r, 0)->shape, &ckm_i_ref_out(&r, 0)->shape, call->workspace);
    resample(&s, floats_of(ckm_i_ref_input(&r, 0)), ckm_i_ref_output(&r, 0), false);
    return CKM_OK;
}

// input dy
static ckm_status resize_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    const ckm_shape *small = &ckm_i_ref_out(&r, 0)->shape;
    resampling s = open_resampling(r.op, small, &ckm_i_ref_in(&r, 0)->shape, call->workspace);
    float *dx = ckm_i_ref_output(&r, 0);
    memset(dx, 0, (size_t)ckm_i_elements(small) * sizeof *dx);
    resample(&s, dx, floats_of(ckm_i_ref_input(&r, 0)), true);
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_resize[] = {
    {CKM_I_OP_resize, forward_workspace, resize},
    {CKM_I_OP_resize_backward, backward_workspace, resize_backward},
    {0},
};
