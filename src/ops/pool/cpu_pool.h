// SPDX-License-Identifier: Apache-2.0
// What pooling of maxima and of means share: the geometry of windows over one or two spatial axes.
#ifndef CKM_SRC_OPS_POOL_CPU_POOL_H
#define CKM_SRC_OPS_POOL_CPU_POOL_H

#include "run/cpu/cpu_support.h"
#include "run/cpu/ref_window.h"

// Height first; one spatial axis is a height of 1.
typedef struct ckm_i_cpu_windows {
    bool channels_last;
    int64_t batch, channels;
    int64_t in[2], out[2], kernel[2], stride[2], dilation[2], begin[2], end[2];
} ckm_i_cpu_windows;

// Of an operator that pools x into y, or of its gradient. False when the shape is not for these loops.
static inline bool ckm_i_cpu_windows_read(const ckm_i_op_view *v, const ckm_i_graph_tensor *x,
                                          const ckm_i_graph_tensor *y, ckm_i_cpu_windows *out)
{
    int32_t n = x->shape.rank - 2;
    if (x->dtype != CKM_F32 || n < 1 || n > 2 || ckm_i_elements(&x->shape) == 0) {
        return false;
    }
    ckm_i_ref_window w = ckm_i_ref_window_read(v->graph, v->op, &x->shape, &y->shape, NULL);
    *out = (ckm_i_cpu_windows){.channels_last = w.channels_last, .batch = w.batch, .channels = w.in_channels};
    for (int i = 0; i < 2; i++) {
        int from = i - (2 - n);
        bool real = from >= 0;
        out->in[i] = real ? w.in[from] : 1;
        out->out[i] = real ? w.out[from] : 1;
        out->kernel[i] = real ? w.kernel[from] : 1;
        out->stride[i] = real ? w.stride[from] : 1;
        out->dilation[i] = real ? w.dilation[from] : 1;
        out->begin[i] = real ? w.begin[from] : 0;
        out->end[i] = real ? w.end[from] : 0;
    }
    return true;
}

// The window along axis i that reads input position `at` with tap `tap`, or -1.
static inline int64_t ckm_i_cpu_window_of(const ckm_i_cpu_windows *w, int i, int64_t at, int64_t tap)
{
    int64_t start = at + w->begin[i] - tap * w->dilation[i];
    if (start < 0 || start % w->stride[i] != 0) {
        return -1;
    }
    int64_t window = start / w->stride[i];
    return window < w->out[i] ? window : -1;
}

#endif
