// SPDX-License-Identifier: Apache-2.0
// What operators of the backward pass share: most of them are checked against the forward operator whose
// gradient they compute.
#ifndef CKM_SRC_GRAPH_OP_GRAD_SUPPORT_H
#define CKM_SRC_GRAPH_OP_GRAD_SUPPORT_H

#include "graph/op_support.h"

// Attribute `key` as a shape; it must be there.
ckm_status ckm_i_grad_shape(const ckm_i_op_view *v, const char *key, ckm_shape *out, ckm_error *err) CKM_NODISCARD;

// Checks that input i is there and has this shape.
ckm_status ckm_i_grad_check(const ckm_i_op_view *v, int32_t i, const ckm_shape *wanted, ckm_error *err) CKM_NODISCARD;

// The first output of the forward operator: the class whose kind is this operator's up to "_backward", applied to
// an x of this shape, and to `second` unless it is NULL, with this operator's attributes.
ckm_status ckm_i_grad_forward(const ckm_i_op_view *v, const ckm_shape *x, const ckm_shape *second, ckm_shape *out,
                              ckm_error *err) CKM_NODISCARD;

// Checks that input 0, the gradient of the forward operator's output, has the shape that the forward operator
// gives for such an x.
ckm_status ckm_i_grad_check_forward(const ckm_i_op_view *v, const ckm_shape *x, const ckm_shape *second,
                                    ckm_error *err) CKM_NODISCARD;

// Usable as `infer`: (dy, ...) -> dx as dy, where input 1 has dy's shape as well.
ckm_status ckm_i_grad_infer_same(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err);
// Usable as `infer`: (dy) -> dx of attribute input_shape, checked against the forward operator.
ckm_status ckm_i_grad_infer_input(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err);
// The same where input 1 is the forward operator's second input (a weight, positions).
ckm_status ckm_i_grad_infer_input_with(const ckm_i_op_view *v, ckm_shape *shapes, ckm_dtype *dtypes, ckm_error *err);

#endif
