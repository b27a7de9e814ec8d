// SPDX-License-Identifier: Apache-2.0
// Importers: networks from files. The format is found by content and file name; ONNX for now.
#ifndef CHECKMATE_IMPORT_H
#define CHECKMATE_IMPORT_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_import_options {
    int64_t batch;       // value of a symbolic batch dimension; 0: 1, and a fixed one is kept
    int32_t input_rank;  // 0: as in the file; else override of the first input's shape without batch
    int64_t input_dims[CKM_MAX_RANK];
} ckm_import_options;
// clang-format off
#define CKM_IMPORT_OPTIONS_INIT \
    { 0, 0, { 0 } }
// clang-format on

// Reads a network. Weights are not loaded: memory is proportional to the graph, not to the parameters.
// All unsupported operators are listed in one CKM_ERR_UNSUPPORTED.
CKM_API ckm_status ckm_import_file(const char *path, const ckm_import_options *options, ckm_graph **out,
                                   ckm_error *err) CKM_NODISCARD;

// The same from memory (used by the fuzz targets and by embedders); external data is not looked up.
CKM_API ckm_status ckm_import_onnx_memory(const void *data, size_t size_bytes, const ckm_import_options *options,
                                          ckm_graph **out, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
