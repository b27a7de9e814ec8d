// SPDX-License-Identifier: Apache-2.0
// What operators that rearrange do to a shape. Attributes and constant inputs, whichever the opset has,
// are read here, for folding and for conversion alike.
#ifndef CKM_SRC_IMPORT_ONNX_GEOMETRY_H
#define CKM_SRC_IMPORT_ONNX_GEOMETRY_H

#include "import/onnx_convert.h"

// An axis in [-rank, rank) as one in [0, rank).
ckm_status ckm_i_onnx_axis(const ckm_i_onnx_node *node, int64_t axis, int32_t rank, int32_t *out,
                           ckm_error *err) CKM_NODISCARD;

// Output shape of Reshape, Flatten, Squeeze and Unsqueeze. `adapt` allows a target of Reshape or Expand that
// was written down for the file's batch to follow the batch asked for.
ckm_status ckm_i_onnx_reshaped(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                               bool adapt, ckm_shape *out, ckm_error *err) CKM_NODISCARD;
// Output shape of Expand.
ckm_status ckm_i_onnx_expanded(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                               bool adapt, ckm_shape *out, ckm_error *err) CKM_NODISCARD;

// Slice, every axis: first element, step, number of elements.
typedef struct ckm_i_onnx_slice {
    int64_t starts[CKM_MAX_RANK], steps[CKM_MAX_RANK], sizes[CKM_MAX_RANK];
} ckm_i_onnx_slice;
ckm_status ckm_i_onnx_slice_plan(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                                 ckm_i_onnx_slice *out, ckm_error *err) CKM_NODISCARD;

// Split: the axis, and the size of each output (room for node->n_out).
ckm_status ckm_i_onnx_split_plan(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_shape *in,
                                 int32_t *axis, int64_t *sizes, ckm_error *err) CKM_NODISCARD;

// Transpose: the permutation; reversed when the node does not say.
ckm_status ckm_i_onnx_permutation(const ckm_i_onnx_node *node, int32_t rank, int64_t *perm,
                                  ckm_error *err) CKM_NODISCARD;

// Axes of a reduction: attribute or input 1. *n is -1 for all of them.
ckm_status ckm_i_onnx_reduced(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t rank, int64_t *axes,
                              int32_t *n, ckm_error *err) CKM_NODISCARD;

#endif
