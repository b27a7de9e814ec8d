// SPDX-License-Identifier: Apache-2.0
// Gradient rules. A rule adds the operators that compute the gradients of one forward operator's inputs; operator records
// name theirs.
#ifndef CKM_SRC_AUTODIFF_GRAD_RULES_H
#define CKM_SRC_AUTODIFF_GRAD_RULES_H

#include "autodiff/step.h"
#include "base/error.h"

// What a rule is given.
typedef struct ckm_i_grad {
    ckm_i_step *step;
    ckm_i_graph_op forward;  // a copy: the step graph's operators move when it grows
    const int32_t *outputs;  // gradients of the forward operator's outputs, -1 where there is none
    int32_t dy;              // that of the first one
} ckm_i_grad;

typedef ckm_status ckm_i_grad_rule(ckm_i_grad *g, ckm_error *err);

// Input i of the forward operator, -1 when absent.
int32_t ckm_i_grad_in(const ckm_i_grad *g, int32_t i);
// Does input i need a gradient?
bool ckm_i_grad_wants(const ckm_i_grad *g, int32_t i);
// The forward operator's attributes.
ckm_i_attrs ckm_i_grad_attrs(const ckm_i_grad *g);
// Adds an operator with one output, named <forward>:grad_<what>.
ckm_status ckm_i_grad_emit(ckm_i_grad *g, const char *kind, const char *what, const int32_t *inputs, int32_t n_inputs,
                           const ckm_i_attrs *attrs, int32_t *out, ckm_error *err) CKM_NODISCARD;
// A view of `tensor` with that shape; the tensor itself when it has it.
ckm_status ckm_i_grad_reshape(ckm_i_grad *g, const char *what, int32_t tensor, const ckm_shape *shape, int32_t *out,
                              ckm_error *err) CKM_NODISCARD;
// Repeats axes of 1 until `tensor` has that shape; the tensor itself when it has it.
ckm_status ckm_i_grad_expand(ckm_i_grad *g, const char *what, int32_t tensor, const ckm_shape *shape, int32_t *out,
                             ckm_error *err) CKM_NODISCARD;
// Sums over repeated axes until `tensor` has that shape; the tensor itself when it has it.
ckm_status ckm_i_grad_sum_to(ckm_i_grad *g, const char *what, int32_t tensor, const ckm_shape *shape, int32_t *out,
                             ckm_error *err) CKM_NODISCARD;
// alpha times the tensor; the tensor itself when alpha is 1.
ckm_status ckm_i_grad_scale(ckm_i_grad *g, const char *what, int32_t tensor, double alpha, int32_t *out,
                            ckm_error *err) CKM_NODISCARD;
// Adds `tensor` to the gradient of input i, summed over what broadcasting repeats.
ckm_status ckm_i_grad_give(ckm_i_grad *g, int32_t i, const char *what, int32_t tensor, ckm_error *err) CKM_NODISCARD;
// "operator ... has no gradient with respect to its <what>"
ckm_status ckm_i_grad_unsupported(const ckm_i_grad *g, const char *what, ckm_error *err);

// ---- rules that many kinds share

// The kind <kind>_backward(dy, y) or <kind>_backward(dy, x), with the operator's attributes. Where the output determines the
// slope, read it: the input need not be kept.
ckm_i_grad_rule ckm_i_grad_reads_output, ckm_i_grad_reads_input;
// The same operator on the gradient, attributes and all: neg, scale, dropout (the mask is drawn from `key`), triangle.
ckm_i_grad_rule ckm_i_grad_applies_again;

#endif
