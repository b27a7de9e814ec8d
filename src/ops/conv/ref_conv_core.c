// SPDX-License-Identifier: Apache-2.0
// Convolutions as products: the windows of a tile of positions are gathered as the rows of a matrix "patches",
//     y = patches weight,   patches' = dy weight^T (then added up where windows overlap),   dweight = patches^T dy.
// One input channel a group (depthwise) goes without the product.
#include "ops/conv/ref_conv_core.h"

#include <string.h>

#include "run/cpu/ref_gemm.h"

enum { TILE = 64 };

// Everything about one call that the loops need.
typedef struct geometry {
    const ckm_i_ref_window *w;
    int64_t in_group, out_group;  // channels of one group
    int64_t depth;                // in_group * taps
    int64_t *table;               // of the tile at hand
    float *patches;
    double *sums;  // depthwise backward weights: one a weight
} geometry;

ckm_i_ref_conv ckm_i_ref_conv_read(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_shape *x,
                                   const ckm_shape *y, const ckm_shape *weight)
{
    const int64_t *kernel = weight->dims + (graph->layout == CKM_CHANNELS_LAST ? 0 : 2);
    return (ckm_i_ref_conv){.window = ckm_i_ref_window_read(graph, op, x, y, kernel),
                            .groups = ckm_i_op_attr_int(op, "groups", 0, 1)};
}

int64_t ckm_i_ref_conv_workspace(const ckm_i_ref_conv *c)
{
    const ckm_i_ref_window *w = &c->window;
    int64_t table = w->taps * TILE * (int64_t)sizeof(int64_t);
    if (w->in_channels == c->groups) {
        return table + w->taps * w->out_channels * (int64_t)sizeof(double);
    }
    int64_t depth = w->in_channels / c->groups * w->taps;
    return ckm_i_ref_window_is_pointwise(w) ? 0 : table + depth * TILE * (int64_t)sizeof(float);
}

static geometry open_geometry(const ckm_i_ref_conv *c, void *workspace)
{
    const ckm_i_ref_window *w = &c->window;
    geometry g = {.w = w, .in_group = w->in_channels / c->groups, .out_group = w->out_channels / c->groups};
    int64_t *table = workspace;
    g.depth = g.in_group * w->taps;
    g.table = table;
    if (workspace != NULL) {
        void *rest = table + w->taps * TILE;
        g.patches = rest;
        g.sums = rest;
    }
    return g;
}

// ---- the matrices of one group

// patches (position, depth), weight (depth, output channel), y (position, output channel).
static ckm_i_ref_matrix patches_of(const geometry *g, int64_t count)
{
    return g->w->channels_last ? (ckm_i_ref_matrix){g->patches, g->depth, 1} : (ckm_i_ref_matrix){g->patches, 1, count};
}

static ckm_i_ref_matrix pointwise_patches(const geometry *g, const float *x, int64_t group)
{
    return g->w->channels_last ? (ckm_i_ref_matrix){x + group * g->in_group, g->w->in_channels, 1}
                               : (ckm_i_ref_matrix){x + group * g->in_group * g->w->in_size, 1, g->w->in_size};
}

static ckm_i_ref_matrix weight_of(const geometry *g, const float *weight, int64_t group)
{
    return g->w->channels_last ? (ckm_i_ref_matrix){weight + group * g->out_group, g->w->out_channels, 1}
                               : (ckm_i_ref_matrix){weight + group * g->out_group * g->depth, 1, g->depth};
}

static ckm_i_ref_matrix result_of(const geometry *g, const float *y, int64_t group, int64_t first)
{
    int64_t channel = group * g->out_group;
    return g->w->channels_last ? (ckm_i_ref_matrix){y + first * g->w->out_channels + channel, g->w->out_channels, 1}
                               : (ckm_i_ref_matrix){y + channel * g->w->out_size + first, 1, g->w->out_size};
}

static ckm_i_ref_matrix transposed(ckm_i_ref_matrix m)
{
    return (ckm_i_ref_matrix){m.data, m.column, m.row};
}

// c = a b or c += a b, where c is `place` within the writable `base`, its rows or its columns contiguous.
static void multiply(int64_t m, int64_t n, int64_t k, ckm_i_ref_matrix a, ckm_i_ref_matrix b, ckm_i_ref_matrix place,
                     float *base, bool accumulate)
{
    float *c = base + (place.data - base);
    if (place.column == 1) {
        ckm_i_ref_gemm(m, n, k, a, b, c, place.row, accumulate);
    } else {
        ckm_i_ref_gemm(n, m, k, transposed(b), transposed(a), c, place.column, accumulate);
    }
}

// ---- patches

static void gather(const geometry *g, const float *x, int64_t group, int64_t count)
{
    const ckm_i_ref_window *w = g->w;
    int64_t channel = group * g->in_group;
    float *to = g->patches;
    if (w->channels_last) {
        for (int64_t p = 0; p < count; p++) {
            for (int64_t t = 0; t < w->taps; t++, to += g->in_group) {
                int64_t from = g->table[t * count + p];
                if (from < 0) {
                    memset(to, 0, (size_t)g->in_group * sizeof *to);
                } else {
                    memcpy(to, x + from * w->in_channels + channel, (size_t)g->in_group * sizeof *to);
                }
            }
        }
        return;
    }
    for (int64_t i = 0; i < g->in_group; i++) {
        const float *plane = x + (channel + i) * w->in_size;
        for (int64_t j = 0; j < w->taps * count; j++) {
            int64_t from = g->table[j];
            *to++ = from < 0 ? 0.0F : plane[from];
        }
    }
}

static void scatter(const geometry *g, float *dx, int64_t group, int64_t count)
{
    const ckm_i_ref_window *w = g->w;
    int64_t channel = group * g->in_group;
    const float *from = g->patches;
    if (w->channels_last) {
        for (int64_t p = 0; p < count; p++) {
            for (int64_t t = 0; t < w->taps; t++, from += g->in_group) {
                int64_t to = g->table[t * count + p];
                for (int64_t i = 0; to >= 0 && i < g->in_group; i++) {
                    dx[to * w->in_channels + channel + i] += from[i];
                }
            }
        }
        return;
    }
    for (int64_t i = 0; i < g->in_group; i++) {
        float *plane = dx + (channel + i) * w->in_size;
        for (int64_t j = 0; j < w->taps * count; j++, from++) {
            if (g->table[j] >= 0) {
                plane[g->table[j]] += *from;
            }
        }
    }
}

// ---- depthwise: one input channel a group, out_group output channels each

static void depthwise_forward(const geometry *g, const float *x, const float *weight, int64_t first, int64_t count,
                              float *y)
{
    const ckm_i_ref_window *w = g->w;
    int64_t m = g->out_group;
    for (int64_t p = 0; w->channels_last && p < count; p++) {
        float *row = y + (first + p) * w->out_channels;
        memset(row, 0, (size_t)w->out_channels * sizeof *row);
        for (int64_t t = 0; t < w->taps; t++) {
            int64_t from = g->table[t * count + p];
            if (from < 0) {
                continue;
            }
            const float *xs = x + from * w->in_channels;
            const float *ws = weight + t * w->out_channels;
            for (int64_t c = 0; m == 1 && c < w->out_channels; c++) {
                row[c] += xs[c] * ws[c];
            }
            for (int64_t c = 0; m > 1 && c < w->out_channels; c++) {
                row[c] += xs[c / m] * ws[c];
            }
        }
    }
    for (int64_t c = 0; !w->channels_last && c < w->out_channels; c++) {
        const float *plane = x + c / m * w->in_size;
        float *row = y + c * w->out_size + first;
        memset(row, 0, (size_t)count * sizeof *row);
        for (int64_t t = 0; t < w->taps; t++) {
            float factor = weight[c * w->taps + t];
            const int64_t *from = g->table + t * count;
            for (int64_t p = 0; p < count; p++) {
                row[p] += from[p] < 0 ? 0.0F : factor * plane[from[p]];
            }
        }
    }
}

static void depthwise_data(const geometry *g, const float *dy, const float *weight, int64_t first, int64_t count,
                           float *dx)
{
    const ckm_i_ref_window *w = g->w;
    int64_t m = g->out_group;
    for (int64_t p = 0; w->channels_last && p < count; p++) {
        const float *row = dy + (first + p) * w->out_channels;
        for (int64_t t = 0; t < w->taps; t++) {
            int64_t to = g->table[t * count + p];
            if (to < 0) {
                continue;
            }
            float *xs = dx + to * w->in_channels;
            const float *ws = weight + t * w->out_channels;
            for (int64_t c = 0; m == 1 && c < w->out_channels; c++) {
                xs[c] += row[c] * ws[c];
            }
            for (int64_t c = 0; m > 1 && c < w->out_channels; c++) {
                xs[c / m] += row[c] * ws[c];
            }
        }
    }
    for (int64_t c = 0; !w->channels_last && c < w->out_channels; c++) {
        float *plane = dx + c / m * w->in_size;
        const float *row = dy + c * w->out_size + first;
        for (int64_t t = 0; t < w->taps; t++) {
            float factor = weight[c * w->taps + t];
            const int64_t *to = g->table + t * count;
            for (int64_t p = 0; p < count; p++) {
                if (to[p] >= 0) {
                    plane[to[p]] += factor * row[p];
                }
            }
        }
    }
}

static void depthwise_weights(const geometry *g, const float *x, const float *dy, int64_t first, int64_t count)
{
    const ckm_i_ref_window *w = g->w;
    int64_t m = g->out_group;
    for (int64_t p = 0; w->channels_last && p < count; p++) {
        const float *row = dy + (first + p) * w->out_channels;
        for (int64_t t = 0; t < w->taps; t++) {
            int64_t from = g->table[t * count + p];
            if (from < 0) {
                continue;
            }
            const float *xs = x + from * w->in_channels;
            double *sums = g->sums + t * w->out_channels;
            for (int64_t c = 0; m == 1 && c < w->out_channels; c++) {
                sums[c] += (double)(row[c] * xs[c]);
            }
            for (int64_t c = 0; m > 1 && c < w->out_channels; c++) {
                sums[c] += (double)(row[c] * xs[c / m]);
            }
        }
    }
    for (int64_t c = 0; !w->channels_last && c < w->out_channels; c++) {
        const float *plane = x + c / m * w->in_size;
        const float *row = dy + c * w->out_size + first;
        for (int64_t t = 0; t < w->taps; t++) {
            const int64_t *from = g->table + t * count;
            double sum = 0.0;
            for (int64_t p = 0; p < count; p++) {
                sum += from[p] < 0 ? 0.0 : (double)(row[p] * plane[from[p]]);
            }
            g->sums[c * w->taps + t] += sum;
        }
    }
}

// ---- the maps

void ckm_i_ref_conv_forward(const ckm_i_ref_conv *c, const float *x, const float *weight, float *y, void *workspace)
{
    geometry g = open_geometry(c, workspace);
    const ckm_i_ref_window *w = g.w;
    bool depthwise = g.in_group == 1;
    bool pointwise = !depthwise && ckm_i_ref_window_is_pointwise(w);
    int64_t tile = pointwise ? w->out_size : TILE;
    for (int64_t s = 0; s < w->batch; s++, x += w->in_size * w->in_channels, y += w->out_size * w->out_channels) {
        for (int64_t first = 0; first < w->out_size; first += tile) {
            int64_t count = w->out_size - first < tile ? w->out_size - first : tile;
            if (!pointwise) {
                ckm_i_ref_window_table(w, first, count, g.table);
            }
            if (depthwise) {
                depthwise_forward(&g, x, weight, first, count, y);
                continue;
            }
            for (int64_t group = 0; group < c->groups; group++) {
                if (!pointwise) {
                    gather(&g, x, group, count);
                }
                multiply(count, g.out_group, g.depth,
                         pointwise ? pointwise_patches(&g, x, group) : patches_of(&g, count),
                         weight_of(&g, weight, group), result_of(&g, y, group, first), y, false);
            }
        }
    }
}

void ckm_i_ref_conv_data(const ckm_i_ref_conv *c, const float *dy, const float *weight, float *dx, void *workspace)
{
    geometry g = open_geometry(c, workspace);
    const ckm_i_ref_window *w = g.w;
    bool depthwise = g.in_group == 1;
    bool pointwise = !depthwise && ckm_i_ref_window_is_pointwise(w);
    int64_t tile = pointwise ? w->out_size : TILE;
    if (!pointwise) {
        memset(dx, 0, (size_t)(w->batch * w->in_size * w->in_channels) * sizeof *dx);
    }
    for (int64_t s = 0; s < w->batch; s++, dx += w->in_size * w->in_channels, dy += w->out_size * w->out_channels) {
        for (int64_t first = 0; first < w->out_size; first += tile) {
            int64_t count = w->out_size - first < tile ? w->out_size - first : tile;
            if (!pointwise) {
                ckm_i_ref_window_table(w, first, count, g.table);
            }
            if (depthwise) {
                depthwise_data(&g, dy, weight, first, count, dx);
                continue;
            }
            for (int64_t group = 0; group < c->groups; group++) {
                ckm_i_ref_matrix to = pointwise ? pointwise_patches(&g, dx, group) : patches_of(&g, count);
                multiply(count, g.depth, g.out_group, result_of(&g, dy, group, first),
                         transposed(weight_of(&g, weight, group)), to, pointwise ? dx : g.patches, false);
                if (!pointwise) {
                    scatter(&g, dx, group, count);
                }
            }
        }
    }
}

void ckm_i_ref_conv_weights(const ckm_i_ref_conv *c, const float *x, const float *dy, float *dweight, void *workspace)
{
    geometry g = open_geometry(c, workspace);
    const ckm_i_ref_window *w = g.w;
    bool depthwise = g.in_group == 1;
    bool pointwise = !depthwise && ckm_i_ref_window_is_pointwise(w);
    int64_t tile = pointwise ? w->out_size : TILE;
    int64_t weights = g.depth * w->out_channels;
    if (depthwise && g.sums != NULL) {
        memset(g.sums, 0, (size_t)weights * sizeof *g.sums);
    } else {
        memset(dweight, 0, (size_t)weights * sizeof *dweight);
    }
    for (int64_t s = 0; s < w->batch; s++, x += w->in_size * w->in_channels, dy += w->out_size * w->out_channels) {
        for (int64_t first = 0; first < w->out_size; first += tile) {
            int64_t count = w->out_size - first < tile ? w->out_size - first : tile;
            if (!pointwise) {
                ckm_i_ref_window_table(w, first, count, g.table);
            }
            if (depthwise) {
                depthwise_weights(&g, x, dy, first, count);
                continue;
            }
            for (int64_t group = 0; group < c->groups; group++) {
                if (!pointwise) {
                    gather(&g, x, group, count);
                }
                ckm_i_ref_matrix from = pointwise ? pointwise_patches(&g, x, group) : patches_of(&g, count);
                multiply(g.depth, g.out_group, count, transposed(from), result_of(&g, dy, group, first),
                         weight_of(&g, dweight, group), dweight, true);
            }
        }
    }
    for (int64_t i = 0; depthwise && g.sums != NULL && i < weights; i++) {
        dweight[i] = (float)g.sums[i];
    }
}
