// SPDX-License-Identifier: Apache-2.0
// A network of our own as an ONNX model in inference form. ONNX wants images with the channels first, and the zoo has them last, so
// a tensor of four axes may be in the model in either form; it is transposed where an operator wants the other.
#ifndef CKM_SRC_IMPORT_ONNX_NETWORK_H
#define CKM_SRC_IMPORT_ONNX_NETWORK_H

#include "graph/graph.h"
#include "import/onnx_put.h"

typedef enum ckm_i_onnx_form {
    CKM_I_ONNX_PLAIN,  // the axes as in the network
    CKM_I_ONNX_FIRST,  // of four axes: the channels, which are last in the network, before height and width
    CKM_I_ONNX_FORMS
} ckm_i_onnx_form;

// What a tensor of the network is called in the model, by form; NULL: it is not there (yet).
typedef struct ckm_i_onnx_place {
    const char *name[CKM_I_ONNX_FORMS];
} ckm_i_onnx_place;

typedef struct ckm_i_onnx_network {
    const ckm_graph *graph;
    const ckm_export_tensor *tensors;  // values of parameters and states
    int32_t n_tensors;
    bool dry;  // nothing is written: only whether it could be
    ckm_i_onnx_put *put;
    ckm_i_onnx_place *places;  // by tensor
    const ckm_i_graph_op *op;  // the one at hand
    const char *name;          // of what it computes, unique in the model
} ckm_i_onnx_network;

// Each writes the operator at hand.
typedef ckm_status ckm_i_onnx_rule(ckm_i_onnx_network *n, ckm_error *err);
ckm_i_onnx_rule ckm_i_onnx_put_conv, ckm_i_onnx_put_conv_transpose, ckm_i_onnx_put_separable_conv, ckm_i_onnx_put_dense,
    ckm_i_onnx_put_batch_norm, ckm_i_onnx_put_layer_norm, ckm_i_onnx_put_rms_norm, ckm_i_onnx_put_group_norm,
    ckm_i_onnx_put_max_pool, ckm_i_onnx_put_average_pool, ckm_i_onnx_put_global_average_pool, ckm_i_onnx_put_relu,
    ckm_i_onnx_put_unary, ckm_i_onnx_put_softmax, ckm_i_onnx_put_gelu, ckm_i_onnx_put_swish, ckm_i_onnx_put_scale,
    ckm_i_onnx_put_matmul, ckm_i_onnx_put_masked_softmax, ckm_i_onnx_put_rotary, ckm_i_onnx_put_window_bias,
    ckm_i_onnx_put_time_embedding, ckm_i_onnx_put_elementwise, ckm_i_onnx_put_concat, ckm_i_onnx_put_border,
    ckm_i_onnx_put_up_sampling, ckm_i_onnx_put_interp, ckm_i_onnx_put_lambda, ckm_i_onnx_put_dropout,
    ckm_i_onnx_put_flatten, ckm_i_onnx_put_reshape, ckm_i_onnx_put_expand, ckm_i_onnx_put_slice, ckm_i_onnx_put_split,
    ckm_i_onnx_put_gather, ckm_i_onnx_put_transpose, ckm_i_onnx_put_roll;

// The values of a leaf of the network; NULL: there are none.
const ckm_export_tensor *ckm_i_onnx_values(const ckm_i_onnx_network *n, int32_t tensor);
// `x`, which has the other form, in that form.
const char *ckm_i_onnx_transposed(ckm_i_onnx_network *n, const char *x, ckm_i_onnx_form to);
// Shapes of the operator's operands and results.
const ckm_shape *ckm_i_onnx_in_shape(const ckm_i_onnx_network *n, int32_t i);
const ckm_shape *ckm_i_onnx_out_shape(const ckm_i_onnx_network *n, int32_t i);
// Is there an operand i?
bool ckm_i_onnx_has(const ckm_i_onnx_network *n, int32_t i);
// Operand i in that form.
const char *ckm_i_onnx_in(ckm_i_onnx_network *n, int32_t i, ckm_i_onnx_form form);
// The form that operand i is in already.
ckm_i_onnx_form ckm_i_onnx_form_of(const ckm_i_onnx_network *n, int32_t i);
// Operand i, which is a parameter or state, with its axes in that order and of that shape; NULL: unchanged.
const char *ckm_i_onnx_weight(ckm_i_onnx_network *n, int32_t i, const int64_t *perm, const ckm_shape *shape);
// Result i is in the model under that name.
void ckm_i_onnx_out(ckm_i_onnx_network *n, int32_t i, ckm_i_onnx_form form, const char *name);

// A node without attributes. Returns its output.
const char *ckm_i_onnx_one(ckm_i_onnx_network *n, const char *op_type, const char *a, const char *b, const char *out);
// "<name of the operator>/<part>".
const char *ckm_i_onnx_part(ckm_i_onnx_network *n, const char *part);
// A constant of that name.
const char *ckm_i_onnx_long_list(ckm_i_onnx_network *n, const char *part, const int64_t *values, int32_t count);
const char *ckm_i_onnx_number(ckm_i_onnx_network *n, const char *part, double value);

// Result 0, computed by the operator's fused activation from `x`.
ckm_status ckm_i_onnx_activate(ckm_i_onnx_network *n, ckm_i_onnx_form form, const char *x,
                               ckm_error *err) CKM_NODISCARD;
// Where result 0 is written to before the fused activation: its own name where there is none.
const char *ckm_i_onnx_before_activation(ckm_i_onnx_network *n);

// CKM_ERR_UNSUPPORTED, with the operator's name.
ckm_status ckm_i_onnx_refuse(const ckm_i_onnx_network *n, const char *what, ckm_error *err);

#endif
