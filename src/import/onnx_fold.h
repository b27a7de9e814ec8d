// SPDX-License-Identifier: Apache-2.0
// Folding, internal view: one function an operator, on constants whose elements are all known.
#ifndef CKM_SRC_IMPORT_ONNX_FOLD_H
#define CKM_SRC_IMPORT_ONNX_FOLD_H

#include "import/onnx_convert.h"

// A result: at most CKM_I_ONNX_FOLD_LIMIT elements, `data` from malloc. Without data only the shape is known.
typedef struct ckm_i_onnx_folded {
    ckm_dtype dtype;
    ckm_shape shape;
    ckm_i_onnx_scalar *data;
    bool declined;  // not something to fold: leave it to conversion
} ckm_i_onnx_folded;

typedef ckm_status (*ckm_i_onnx_folder)(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node,
                                        ckm_i_onnx_folded *out, ckm_error *err);

typedef struct ckm_i_onnx_fold_row {
    const char *op_type;
    ckm_i_onnx_folder fold;
} ckm_i_onnx_fold_row;

// Element by element arithmetic, reductions, choice; ended by a row without op_type.
extern const ckm_i_onnx_fold_row ckm_i_onnx_fold_math[];

// Elements of a shape when they may be held, else -1.
int64_t ckm_i_onnx_fold_count(const ckm_shape *shape);
// Allocates out->data for out->shape; leaves it NULL beyond the limit (and returns CKM_OK).
ckm_status ckm_i_onnx_fold_room(ckm_i_onnx_folded *out, ckm_error *err) CKM_NODISCARD;

#endif
