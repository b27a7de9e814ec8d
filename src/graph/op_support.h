// SPDX-License-Identifier: Apache-2.0
// What operator classes share: errors that name the operator, axes, attribute lists, broadcasting, costs
// that are a number per element.
#ifndef CKM_SRC_GRAPH_OP_SUPPORT_H
#define CKM_SRC_GRAPH_OP_SUPPORT_H

#include "base/error.h"
#include "graph/graph.h"

// Fails with: operator "name" (kind): <message>.
ckm_status ckm_i_op_error(const ckm_i_op_view *v, ckm_error *err, ckm_status code, const char *format, ...)
    CKM_PRINTF(4, 5);
#define ckm_i_op_error(v, err, code, ...) ckm_i_error_known(ckm_i_op_error(v, err, code, __VA_ARGS__), code)

// Checks that input `i` is there and has from min_rank to max_rank dimensions.
ckm_status ckm_i_op_check_rank(const ckm_i_op_view *v, int32_t i, int32_t min_rank, int32_t max_rank,
                               ckm_error *err) CKM_NODISCARD;
// An axis in [-rank, rank) as one in [0, rank).
ckm_status ckm_i_op_axis(const ckm_i_op_view *v, int64_t axis, int32_t rank, int32_t *out,
                         ckm_error *err) CKM_NODISCARD;
// Attribute `key` as exactly `n` integers in [min, max] (n <= CKM_I_ATTR_MAX); all `fallback` when absent.
ckm_status ckm_i_op_list(const ckm_i_op_view *v, const char *key, int32_t n, int64_t min, int64_t max, int64_t fallback,
                         int64_t *out, ckm_error *err) CKM_NODISCARD;
// One integer attribute in [min, max]; `fallback` when absent.
ckm_status ckm_i_op_int(const ckm_i_op_view *v, const char *key, int64_t min, int64_t max, int64_t fallback,
                        int64_t *out, ckm_error *err) CKM_NODISCARD;

// Numpy's rule: shapes aligned at their last axes, a dimension of 1 repeats. `out` may be `a` or `b`.
ckm_status ckm_i_op_broadcast(const ckm_i_op_view *v, const ckm_shape *a, const ckm_shape *b, ckm_shape *out,
                              ckm_error *err) CKM_NODISCARD;

// Elements of a shape; an overflow names the operator.
ckm_status ckm_i_op_elements(const ckm_i_op_view *v, const ckm_shape *shape, int64_t *elements,
                             ckm_error *err) CKM_NODISCARD;

// The output has the shape and type of the first input; usable as a class's `infer`.
ckm_status ckm_i_op_infer_same(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err);

// factor multiply-accumulates per element of the first output, or of the first input.
ckm_status ckm_i_op_macs_per_output(const ckm_i_op_view *v, int64_t factor, int64_t *macs,
                                    ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_op_macs_per_input(const ckm_i_op_view *v, int64_t factor, int64_t *macs, ckm_error *err) CKM_NODISCARD;
// One per element of the first input, or of the first output; usable as a class's `macs`.
ckm_status ckm_i_op_macs_one_per_input(const ckm_i_op_view *v, int64_t *macs, ckm_error *err);
ckm_status ckm_i_op_macs_one_per_output(const ckm_i_op_view *v, int64_t *macs, ckm_error *err);

#endif
