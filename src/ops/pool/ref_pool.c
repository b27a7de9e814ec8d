// SPDX-License-Identifier: Apache-2.0
// Pooling over windows.
#include <math.h>
#include <string.h>

#include "run/cpu/ref_registry.h"
#include "run/cpu/ref_window.h"

enum { TILE = 64 };

// The window of an operator: x is tensor `x`, y has a position a window.
static ckm_i_ref_window window_of(const ckm_graph *graph, const ckm_i_graph_op *op, int32_t x, int32_t y)
{
    return ckm_i_ref_window_read(graph, op, &graph->tensors[x].shape, &graph->tensors[y].shape, NULL);
}

static int64_t workspace_of(const ckm_i_ref_window *w)
{
    return (w->taps + 1) * TILE * (int64_t)sizeof(int64_t);
}

static int64_t forward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_window w = window_of(step, v->op, v->op->inputs[0], v->op->outputs[0]);
    return workspace_of(&w);
}

static int64_t backward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_window w = window_of(step, v->op, v->op->outputs[0], v->op->inputs[0]);
    return workspace_of(&w);
}

// Tiles of the window positions of all samples, one after the other. Element (position p, channel c) of x is at
// x_at + p * x_step + c * channel steps; the same for y, p counted from the tile's first window.
typedef struct tile {
    const ckm_i_ref_window *w;
    int64_t *table, *sizes;
    int64_t sample, first, count;
    int64_t x_at, y_at;                            // of the sample; of the tile
    int64_t x_step, y_step, x_channel, y_channel;  // from position to position, from channel to channel
} tile;

static void place_tile(tile *t)
{
    const ckm_i_ref_window *w = t->w;
    t->count = w->out_size - t->first < TILE ? w->out_size - t->first : TILE;
    t->x_at = t->sample * w->in_size * w->in_channels;
    t->y_at = t->sample * w->out_size * w->in_channels + t->first * t->y_step;
    ckm_i_ref_window_table(w, t->first, t->count, t->table);
}

static tile first_tile(const ckm_i_ref_window *w, void *workspace)
{
    int64_t *table = workspace;
    tile t = {.w = w, .table = table, .sizes = table + w->taps * TILE};
    t.x_step = w->channels_last ? w->in_channels : 1;
    t.y_step = t.x_step;
    t.x_channel = w->channels_last ? 1 : w->in_size;
    t.y_channel = w->channels_last ? 1 : w->out_size;
    place_tile(&t);
    return t;
}

static bool next_tile(tile *t)
{
    t->first += t->count;
    if (t->first == t->w->out_size) {
        t->first = 0;
        t->sample++;
    }
    if (t->sample == t->w->batch) {
        return false;
    }
    place_tile(t);
    return true;
}

// ---- maximum

static int64_t load_offset(const void *offsets, bool wide, int64_t i)
{
    return wide ? ((const int32_t *)offsets)[i] : ((const uint8_t *)offsets)[i];
}

static void store_offset(void *offsets, bool wide, int64_t i, int64_t value)
{
    if (wide) {
        ((int32_t *)offsets)[i] = (int32_t)value;
    } else {
        ((uint8_t *)offsets)[i] = (uint8_t)value;
    }
}

// One window: the largest element of every channel. A NaN counts as largest. `best` is the tap it came from.
static void maximum_of_window(const tile *t, int64_t p, const float *x, float *y, void *offsets, bool wide)
{
    bool found = false;
    for (int64_t tap = 0; tap < t->w->taps; tap++) {
        int64_t from = t->table[tap * t->count + p];
        if (from < 0) {
            continue;
        }
        const float *xs = x + t->x_at + from * t->x_step;
        for (int64_t c = 0; c < t->w->in_channels; c++) {
            float value = xs[c * t->x_channel];
            int64_t to = t->y_at + p * t->y_step + c * t->y_channel;
            if (!found || value > y[to] || value != value) {
                y[to] = value;
                if (offsets != NULL) {
                    store_offset(offsets, wide, to, tap);
                }
            }
        }
        found = true;
    }
}

// input x; outputs y, offsets
static ckm_status max_pool_train(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    if (ckm_i_ref_in(&r, 0)->dtype != CKM_F32 || ckm_i_ref_output(&r, 0) == NULL) {
        return ckm_i_ref_error(&r, err, CKM_ERR_UNSUPPORTED, "only single precision (float32) is supported");
    }
    ckm_i_ref_window w = window_of(step, r.op, r.op->inputs[0], r.op->outputs[0]);
    bool wide = ckm_i_ref_out(&r, 1) != NULL && ckm_i_ref_out(&r, 1)->dtype == CKM_I32;
    tile t = first_tile(&w, call->workspace);
    do {
        for (int64_t p = 0; p < t.count; p++) {
            maximum_of_window(&t, p, ckm_i_ref_input(&r, 0), ckm_i_ref_output(&r, 0), ckm_i_ref_output(&r, 1), wide);
        }
    } while (next_tile(&t));
    return CKM_OK;
}

// inputs dy, offsets
static ckm_status max_pool_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    (void)err;
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    ckm_i_ref_window w = window_of(step, r.op, r.op->outputs[0], r.op->inputs[0]);
    const float *dy = ckm_i_ref_input(&r, 0);
    const void *offsets = ckm_i_ref_input(&r, 1);
    bool wide = ckm_i_ref_in(&r, 1)->dtype == CKM_I32;
    float *dx = ckm_i_ref_output(&r, 0);
    memset(dx, 0, (size_t)(w.batch * w.in_size * w.in_channels) * sizeof *dx);
    tile t = first_tile(&w, call->workspace);
    do {
        for (int64_t p = 0; p < t.count; p++) {
            for (int64_t c = 0; c < w.in_channels; c++) {
                int64_t from = t.y_at + p * t.y_step + c * t.y_channel;
                int64_t to = t.table[load_offset(offsets, wide, from) * t.count + p];
                dx[t.x_at + to * t.x_step + c * t.x_channel] += dy[from];
            }
        }
    } while (next_tile(&t));
    return CKM_OK;
}

// ---- average

static ckm_status average_pool(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_window w = window_of(step, r.op, r.op->inputs[0], r.op->outputs[0]);
    bool padded = ckm_i_op_attr_int(r.op, "count_include_pad", 0, 0) != 0;
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    tile t = first_tile(&w, call->workspace);
    do {
        ckm_i_ref_window_sizes(&w, t.first, t.count, padded, t.sizes);
        for (int64_t p = 0; p < t.count; p++) {
            float *ys = y + t.y_at + p * t.y_step;
            for (int64_t c = 0; c < w.in_channels; c++) {
                ys[c * t.y_channel] = 0.0F;
            }
            for (int64_t tap = 0; tap < w.taps; tap++) {
                int64_t from = t.table[tap * t.count + p];
                for (int64_t c = 0; from >= 0 && c < w.in_channels; c++) {
                    ys[c * t.y_channel] += x[t.x_at + from * t.x_step + c * t.x_channel];
                }
            }
            float factor = 1.0F / (float)t.sizes[p];
            for (int64_t c = 0; c < w.in_channels; c++) {
                ys[c * t.y_channel] *= factor;
            }
        }
    } while (next_tile(&t));
    return CKM_OK;
}

// input dy
static ckm_status average_pool_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call,
                                        ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_window w = window_of(step, r.op, r.op->outputs[0], r.op->inputs[0]);
    bool padded = ckm_i_op_attr_int(r.op, "count_include_pad", 0, 0) != 0;
    const float *dy = ckm_i_ref_input(&r, 0);
    float *dx = ckm_i_ref_output(&r, 0);
    memset(dx, 0, (size_t)(w.batch * w.in_size * w.in_channels) * sizeof *dx);
    tile t = first_tile(&w, call->workspace);
    do {
        ckm_i_ref_window_sizes(&w, t.first, t.count, padded, t.sizes);
        for (int64_t p = 0; p < t.count; p++) {
            const float *gradient = dy + t.y_at + p * t.y_step;
            float factor = 1.0F / (float)t.sizes[p];
            for (int64_t tap = 0; tap < w.taps; tap++) {
                int64_t to = t.table[tap * t.count + p];
                for (int64_t c = 0; to >= 0 && c < w.in_channels; c++) {
                    dx[t.x_at + to * t.x_step + c * t.x_channel] += factor * gradient[c * t.y_channel];
                }
            }
        }
    } while (next_tile(&t));
    return CKM_OK;
}

// ---- p-norm of a window; attribute p (2)

static ckm_status lp_pool(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_window w = window_of(step, r.op, r.op->inputs[0], r.op->outputs[0]);
    double power = (double)ckm_i_op_attr_int(r.op, "p", 0, 2);
    const float *x = ckm_i_ref_input(&r, 0);
    float *y = ckm_i_ref_output(&r, 0);
    tile t = first_tile(&w, call->workspace);
    do {
        for (int64_t i = 0; i < t.count * w.in_channels; i++) {
            int64_t p = i / w.in_channels;
            int64_t c = i % w.in_channels;
            double sum = 0.0;
            for (int64_t tap = 0; tap < w.taps; tap++) {
                int64_t from = t.table[tap * t.count + p];
                if (from >= 0) {
                    sum += pow(fabs((double)x[t.x_at + from * t.x_step + c * t.x_channel]), power);
                }
            }
            y[t.y_at + p * t.y_step + c * t.y_channel] = (float)pow(sum, 1.0 / power);
        }
    } while (next_tile(&t));
    return CKM_OK;
}

// The slope of (sum of |x|^p)^(1/p): sign x (|x|/y)^(p-1), nowhere larger than 1. 0 where all of the window is.
static double slope_of_norm(double x, double y, double power)
{
    double size = y > 0.0 ? pow(fabs(x) / y, power - 1.0) : 0.0;
    return x > 0.0 ? size : x < 0.0 ? -size : 0.0;
}

static int64_t norm_backward_workspace(const ckm_i_op_view *v, const ckm_graph *step)
{
    ckm_i_ref_window w = window_of(step, v->op, v->op->inputs[1], v->op->inputs[0]);
    return workspace_of(&w);
}

// inputs dy, x, y
static ckm_status lp_pool_backward(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err)
{
    ckm_i_ref_op r = ckm_i_ref_open(step, op, call);
    CKM_I_CHECK(ckm_i_ref_check_floats(&r, err));
    ckm_i_ref_window w = window_of(step, r.op, r.op->inputs[1], r.op->inputs[0]);
    double power = (double)ckm_i_op_attr_int(r.op, "p", 0, 2);
    const float *dy = ckm_i_ref_input(&r, 0);
    const float *x = ckm_i_ref_input(&r, 1);
    const float *y = ckm_i_ref_input(&r, 2);
    float *dx = ckm_i_ref_output(&r, 0);
    memset(dx, 0, (size_t)(w.batch * w.in_size * w.in_channels) * sizeof *dx);
    tile t = first_tile(&w, call->workspace);
    do {
        for (int64_t i = 0; i < t.count * w.in_channels; i++) {
            int64_t p = i / w.in_channels;
            int64_t c = i % w.in_channels;
            int64_t from = t.y_at + p * t.y_step + c * t.y_channel;
            for (int64_t tap = 0; tap < w.taps; tap++) {
                int64_t position = t.table[tap * t.count + p];
                int64_t to = t.x_at + position * t.x_step + c * t.x_channel;
                if (position >= 0) {
                    dx[to] += (float)((double)dy[from] * slope_of_norm((double)x[to], (double)y[from], power));
                }
            }
        }
    } while (next_tile(&t));
    return CKM_OK;
}

const ckm_i_reference_kernel ckm_i_ref_kernels_pool[] = {
    {CKM_I_OP_max_pool_train, forward_workspace, max_pool_train},
    {CKM_I_OP_max_pool_backward, backward_workspace, max_pool_backward},
    {CKM_I_OP_average_pool, forward_workspace, average_pool},
    {CKM_I_OP_average_pool_backward, backward_workspace, average_pool_backward},
    {CKM_I_OP_lp_pool, forward_workspace, lp_pool},
    {CKM_I_OP_lp_pool_backward, norm_backward_workspace, lp_pool_backward},
    {0},
};
