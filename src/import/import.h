// SPDX-License-Identifier: Apache-2.0
// What a reader of one file format provides. A format is one static const ckm_i_importer in
// import_<format>.c, listed in import.c.
#ifndef CKM_SRC_IMPORT_IMPORT_H
#define CKM_SRC_IMPORT_IMPORT_H

#include <checkmate/import.h>

typedef struct ckm_i_importer {
    const char *name;       // of the format, for messages
    const char *extension;  // ".onnx"
    // Whether a file that starts with these bytes may be of this format. Called when the extension is unknown.
    bool (*looks_like)(const uint8_t *start, size_t size_bytes);
    ckm_status (*read)(const char *path, const ckm_import_options *options, ckm_graph **out, ckm_error *err);
} ckm_i_importer;

extern const ckm_i_importer ckm_i_importer_onnx;

// A metadata entry of an ONNX file (metadata_props).
typedef struct ckm_i_export_note {
    const char *key, *value;
} ckm_i_export_note;

// ckm_export_onnx, with these texts in place of those that the file has under their keys; `evaluating`: batch normalization and dropout that the file has in training mode are in evaluation mode
// in the copy. CKM_ERR_UNSUPPORTED where something reads what training mode alone gives.
ckm_status ckm_i_export_onnx(const char *model, const char *path, const ckm_export_tensor *tensors, int32_t n,
                             bool evaluating, const ckm_i_export_note *notes, int32_t n_notes,
                             ckm_error *err) CKM_NODISCARD;
// Writes a network of the zoo or of the caller's own as an ONNX model in inference form, with these values of its parameters and
// statistics. The first dimension of inputs and outputs is open. Images, and outputs of four axes, have their channels first.
// CKM_ERR_UNSUPPORTED where ONNX has no such operator.
ckm_status ckm_i_export_network(const ckm_graph *graph, const char *path, const ckm_export_tensor *tensors, int32_t n,
                                const ckm_i_export_note *notes, int32_t n_notes, ckm_error *err) CKM_NODISCARD;
// Whether that would be refused for any values.
ckm_status ckm_i_check_network(const ckm_graph *graph, ckm_error *err) CKM_NODISCARD;
// The metadata of an ONNX file under this key, on the heap; NULL: it has none.
ckm_status ckm_i_import_read_note(const char *path, const char *key, char **out, ckm_error *err) CKM_NODISCARD;
// Whether such a copy would be refused because something reads what training mode alone gives.
ckm_status ckm_i_check_evaluating(const char *model, ckm_error *err) CKM_NODISCARD;

#endif
