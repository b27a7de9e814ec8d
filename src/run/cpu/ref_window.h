// SPDX-License-Identifier: Apache-2.0
// Sliding windows of the reference kernels: which input position every window position and tap reads.
#ifndef CKM_SRC_RUN_CPU_REF_WINDOW_H
#define CKM_SRC_RUN_CPU_REF_WINDOW_H

#include "run/cpu/ref_support.h"

#define CKM_I_REF_MAX_SPATIAL (CKM_MAX_RANK - 2)

typedef struct ckm_i_ref_window {
    int32_t n;  // spatial axes
    bool channels_last;
    int64_t batch;
    int64_t in_channels, out_channels;
    int64_t in[CKM_I_REF_MAX_SPATIAL], out[CKM_I_REF_MAX_SPATIAL];  // spatial sizes
    int64_t kernel[CKM_I_REF_MAX_SPATIAL], stride[CKM_I_REF_MAX_SPATIAL], dilation[CKM_I_REF_MAX_SPATIAL];
    int64_t begin[CKM_I_REF_MAX_SPATIAL];  // padding before the first element
    int64_t end[CKM_I_REF_MAX_SPATIAL];    // and after the last
    int64_t in_size, out_size, taps;       // products of in, out and kernel
} ckm_i_ref_window;

// Reads attributes strides, dilation and padding. `x` is what windows slide over and `y` has one position a
// window, whichever way the operator computes. `kernel` holds the sizes, or is NULL: attribute `kernel`.
ckm_i_ref_window ckm_i_ref_window_read(const ckm_graph *graph, const ckm_i_graph_op *op, const ckm_shape *x,
                                       const ckm_shape *y, const int64_t *kernel);

// For window positions [first, first + count) of one sample: table[tap * count + p] is the position in the
// sample that tap reads for window first + p, or -1 in the padding.
void ckm_i_ref_window_table(const ckm_i_ref_window *w, int64_t first, int64_t count, int64_t *table);

// Elements of every window that lie in the input or, `padded`, in the input and its padding.
void ckm_i_ref_window_sizes(const ckm_i_ref_window *w, int64_t first, int64_t count, bool padded, int64_t *sizes);

// Every window is one element, at the same position: strides of 1, no padding.
bool ckm_i_ref_window_is_pointwise(const ckm_i_ref_window *w);

#endif
