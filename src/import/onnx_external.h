// SPDX-License-Identifier: Apache-2.0
// Values of tensors that an ONNX model keeps in other files, below its own folder.
#ifndef CKM_SRC_IMPORT_ONNX_EXTERNAL_H
#define CKM_SRC_IMPORT_ONNX_EXTERNAL_H

#include "import/onnx_wire.h"

typedef struct ckm_i_onnx_external {
    char location[1024];     // as the model says
    int64_t offset, length;  // length -1: not given
    char path[4096 + 1100];  // of the file, once it was opened
} ckm_i_onnx_external;
// clang-format off
#define CKM_I_ONNX_EXTERNAL_INIT { "", 0, -1, "" }
// clang-format on

// Takes up one pair of a tensor's external_data (field 13).
ckm_status ckm_i_onnx_external_pair(ckm_i_onnx_source *source, const ckm_i_wire_field *pair, const char *tensor,
                                    ckm_i_onnx_external *where, ckm_error *err) CKM_NODISCARD;
// Opens the file that holds the `bytes` bytes of the tensor at where->offset, of the model with that path. Errors:
// CKM_ERR_IO; CKM_ERR_FORMAT when it is no file below the model's folder or does not hold them.
ckm_status ckm_i_onnx_external_open(ckm_i_onnx_external *where, const char *model, const char *tensor, int64_t bytes,
                                    ckm_i_onnx_source *out, ckm_error *err) CKM_NODISCARD;

#endif
