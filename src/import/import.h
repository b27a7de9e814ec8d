// SPDX-License-Identifier: Apache-2.0
// What a reader of one file format provides. A format is one static const ckm_i_importer in
// import_<format>.c, listed in import.c.
#ifndef CKM_SRC_IMPORT_IMPORT_H
#define CKM_SRC_IMPORT_IMPORT_H

#include <checkmate/import.h>

typedef struct ckm_i_importer {
    const char *name;       // of the format, for messages
    const char *extension;  // ".onnx"
    // Could a file that starts with these bytes be of this format? Asked when the extension says nothing.
    bool (*looks_like)(const uint8_t *start, size_t size_bytes);
    ckm_status (*read)(const char *path, const ckm_import_options *options, ckm_graph **out, ckm_error *err);
} ckm_i_importer;

extern const ckm_i_importer ckm_i_importer_onnx;

// ckm_export_onnx; `evaluating`: batch normalization and dropout that the file has in training mode are in evaluation mode
// in the copy. CKM_ERR_UNSUPPORTED where something reads what training mode alone gives.
ckm_status ckm_i_export_onnx(const char *model, const char *path, const ckm_export_tensor *tensors, int32_t n,
                             bool evaluating, ckm_error *err) CKM_NODISCARD;
// Would such a copy be refused for what it reads?
ckm_status ckm_i_check_evaluating(const char *model, ckm_error *err) CKM_NODISCARD;

#endif
