// SPDX-License-Identifier: Apache-2.0
// Sliding windows: what convolutions and pooling have in common.
#ifndef CKM_SRC_GRAPH_OP_WINDOW_H
#define CKM_SRC_GRAPH_OP_WINDOW_H

#include "graph/op_support.h"

#define CKM_I_MAX_SPATIAL (CKM_MAX_RANK - 2)

// Bounds on what a window may be, so that the arithmetic on one axis cannot overflow.
#define CKM_I_WINDOW_LIMIT INT64_C(0x3fffffff)

typedef enum ckm_i_padding { CKM_I_PAD_EXPLICIT, CKM_I_PAD_SAME } ckm_i_padding;

typedef struct ckm_i_window {
    int32_t n;                           // spatial axes
    int32_t channel_axis, spatial_axis;  // in x
    int64_t channels;                    // of x
    int64_t kernel[CKM_I_MAX_SPATIAL];
    int64_t stride[CKM_I_MAX_SPATIAL];
    int64_t dilation[CKM_I_MAX_SPATIAL];
    int64_t pads[2 * CKM_I_MAX_SPATIAL];  // begin..., end...; zero for "same"
    ckm_i_padding padding;
} ckm_i_window;

// Reads the window of an operator whose first input is x: strides, dilation, padding. `kernel` is given by
// the caller (from a weight) or NULL: then it comes from the attribute, which must be there.
ckm_status ckm_i_window_read(const ckm_i_op_view *v, const int64_t *kernel, ckm_i_window *w,
                             ckm_error *err) CKM_NODISCARD;

// Output size along spatial axis i for an input of `size`: floor, or ceiling without a last window that
// would start beyond the input and its leading padding.
ckm_status ckm_i_window_output(const ckm_i_op_view *v, const ckm_i_window *w, int32_t i, int64_t size, bool ceiling,
                               int64_t *out, ckm_error *err) CKM_NODISCARD;

// Fails when the window has more elements than CKM_I_WINDOW_LIMIT: kernels number them in 32 bits. The weight of a
// convolution bounds them, pooling has nothing else that does.
ckm_status ckm_i_window_check_elements(const ckm_i_op_view *v, const ckm_i_window *w, ckm_error *err) CKM_NODISCARD;

// x's shape with every spatial axis run through the window and `channels` channels.
ckm_status ckm_i_window_shape(const ckm_i_op_view *v, const ckm_i_window *w, int64_t channels, bool ceiling,
                              ckm_shape *out, ckm_error *err) CKM_NODISCARD;

#endif
