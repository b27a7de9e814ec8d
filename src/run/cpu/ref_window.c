// SPDX-License-Identifier: Apache-2.0
#include "run/cpu/ref_window.h"

#include <string.h>

// Padding of one axis when it is given by a word.
static void share_padding(ckm_i_ref_window *w, int32_t i, bool lower)
{
    int64_t extent = (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t total = (w->out[i] - 1) * w->stride[i] + extent - w->in[i];
    total = total > 0 ? total : 0;
    w->begin[i] = lower ? total - total / 2 : total / 2;
    w->end[i] = total - w->begin[i];
}

static void read_padding(const ckm_i_graph_op *op, ckm_i_ref_window *w)
{
    const ckm_i_attr *attr = ckm_i_op_attr(op, "padding");
    for (int32_t i = 0; i < w->n; i++) {
        if (attr != NULL && attr->type == CKM_I_ATTR_WORD && strncmp(attr->word, "same", 4) == 0) {
            share_padding(w, i, strcmp(attr->word, "same_lower") == 0);
        } else if (attr != NULL && attr->type == CKM_I_ATTR_INTS) {
            w->begin[i] = attr->ints[i];
            w->end[i] = attr->ints[w->n + i];
        }
    }
}

ckm_i_ref_window ckm_i_ref_window_read(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_shape *x,
                                       const ckm_shape *y, const int64_t *kernel)
{
    ckm_i_ref_window w = {.n = x->rank - 2, .channels_last = graph->layout == CKM_CHANNELS_LAST};
    int32_t spatial = w.channels_last ? 1 : 2;
    int32_t channel = w.channels_last ? x->rank - 1 : 1;
    w.batch = x->dims[0];
    w.in_channels = x->dims[channel];
    w.out_channels = y->dims[channel];
    w.in_size = 1;
    w.out_size = 1;
    w.taps = 1;
    for (int32_t i = 0; i < w.n; i++) {
        w.in[i] = x->dims[spatial + i];
        w.out[i] = y->dims[spatial + i];
        w.kernel[i] = kernel != NULL ? kernel[i] : ckm_i_op_attr_int(op, "kernel", i, 1);
        w.stride[i] = ckm_i_op_attr_int(op, "strides", i, 1);
        w.dilation[i] = ckm_i_op_attr_int(op, "dilation", i, 1);
        w.in_size *= w.in[i];
        w.out_size *= w.out[i];
        w.taps *= w.kernel[i];
    }
    read_padding(op, &w);
    return w;
}

bool ckm_i_ref_window_is_pointwise(const ckm_i_ref_window *w)
{
    for (int32_t i = 0; i < w->n; i++) {
        if (w->kernel[i] != 1 || w->stride[i] != 1 || w->begin[i] != 0 || w->in[i] != w->out[i]) {
            return false;
        }
    }
    return true;
}

// Position that `tap` (one index an axis) reads for the window `at`, or -1.
static int64_t position(const ckm_i_ref_window *w, const int64_t *at, const int64_t *tap)
{
    int64_t result = 0;
    for (int32_t i = 0; i < w->n; i++) {
        int64_t x = at[i] * w->stride[i] + tap[i] * w->dilation[i] - w->begin[i];
        if (x < 0 || x >= w->in[i]) {
            return -1;
        }
        result = result * w->in[i] + x;
    }
    return result;
}

static void advance(int64_t *at, const int64_t *size, int32_t n)
{
    for (int32_t i = n - 1; i >= 0 && ++at[i] == size[i]; i--) {
        at[i] = 0;
    }
}

static void unravel(const ckm_i_ref_window *w, int64_t position, int64_t *at)
{
    for (int32_t i = w->n - 1; i >= 0; i--) {
        at[i] = position % w->out[i];
        position /= w->out[i];
    }
}

void ckm_i_ref_window_table(const ckm_i_ref_window *w, int64_t first, int64_t count, int64_t *table)
{
    int64_t start[CKM_I_REF_MAX_SPATIAL] = {0};
    int64_t tap[CKM_I_REF_MAX_SPATIAL] = {0};
    unravel(w, first, start);
    for (int64_t t = 0; t < w->taps; t++) {
        int64_t at[CKM_I_REF_MAX_SPATIAL];
        memcpy(at, start, sizeof at);
        for (int64_t p = 0; p < count; p++) {
            *table++ = position(w, at, tap);
            advance(at, w->out, w->n);
        }
        advance(tap, w->kernel, w->n);
    }
}

void ckm_i_ref_window_sizes(const ckm_i_ref_window *w, int64_t first, int64_t count, bool padded, int64_t *sizes)
{
    int64_t at[CKM_I_REF_MAX_SPATIAL] = {0};
    unravel(w, first, at);
    for (int64_t p = 0; p < count; p++) {
        int64_t size = 1;
        for (int32_t i = 0; i < w->n; i++) {
            int64_t low = padded ? -w->begin[i] : 0;
            int64_t high = w->in[i] + (padded ? w->end[i] : 0);
            int64_t inside = 0;
            for (int64_t t = 0; t < w->kernel[i]; t++) {
                int64_t x = at[i] * w->stride[i] + t * w->dilation[i] - w->begin[i];
                inside += x >= low && x < high;
            }
            size *= inside;
        }
        sizes[p] = size;
        advance(at, w->out, w->n);
    }
}
