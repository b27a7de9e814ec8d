// SPDX-License-Identifier: Apache-2.0
// Nodes that a file has in training mode, and what of them stays in evaluation mode.
#ifndef CKM_SRC_IMPORT_ONNX_MODES_H
#define CKM_SRC_IMPORT_ONNX_MODES_H

#include "import/onnx_wire.h"

typedef enum { CKM_I_ONNX_MODE_NORM, CKM_I_ONNX_MODE_DROPOUT } ckm_i_onnx_mode_kind;

typedef struct ckm_i_onnx_mode_node {
    ckm_i_onnx_mode_kind kind;
    int64_t field_at, field_end;  // the node's field in the graph
    int64_t at, end;              // its message
    int64_t kept;                 // bytes of the message in evaluation mode
} ckm_i_onnx_mode_node;

typedef struct ckm_i_onnx_modes {
    ckm_i_onnx_mode_node *items;  // in the file's order
    int32_t n, cap;
    char **gone;  // names of outputs that evaluation mode does not have
    int32_t n_gone, cap_gone;
} ckm_i_onnx_modes;

// Finds batch normalizations in training mode, and dropouts whose mode is an input; `tensors` says where the graph is.
// CKM_ERR_UNSUPPORTED where something reads an output of theirs that evaluation mode does not have.
ckm_status ckm_i_onnx_modes_find(ckm_i_onnx_source *source, const ckm_i_wire_tensors *tensors, ckm_i_onnx_modes *out,
                                 ckm_error *err) CKM_NODISCARD;
void ckm_i_onnx_modes_dispose(ckm_i_onnx_modes *modes);

// How far a walk over the fields of such a node has come. Begins as {0}.
typedef struct ckm_i_onnx_mode_walk {
    int32_t n_inputs, n_outputs;
} ckm_i_onnx_mode_walk;

// Does the field stay in evaluation mode? Fields come in their order.
ckm_status ckm_i_onnx_mode_keeps(ckm_i_onnx_source *source, ckm_i_onnx_mode_kind kind, const ckm_i_wire_field *field,
                                 ckm_i_onnx_mode_walk *walk, bool *stays, ckm_error *err) CKM_NODISCARD;

#endif
