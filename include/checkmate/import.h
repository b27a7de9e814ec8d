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
    size_t size;         // set by CKM_IMPORT_OPTIONS_INIT
    int64_t batch;       // value of a symbolic batch dimension; 0: 1, and a fixed one is kept
    int32_t input_rank;  // 0: as in the file; else override of the first input's shape without batch
    int64_t input_dims[CKM_MAX_RANK];
} ckm_import_options;
#define CKM_IMPORT_OPTIONS_INIT CKM_SIZED(ckm_import_options)

// Reads a network. Weights are not loaded: memory is proportional to the graph, not to the parameters.
// All unsupported operators are listed in one CKM_ERR_UNSUPPORTED.
CKM_API ckm_status ckm_import_file(const char *path, const ckm_import_options *options, ckm_graph **out,
                                   ckm_error *err) CKM_NODISCARD;

// The same from memory (used by the fuzz targets and by embedders); external data is not looked up.
CKM_API ckm_status ckm_import_onnx_memory(const void *data, size_t size_bytes, const ckm_import_options *options,
                                          ckm_graph **out, ckm_error *err) CKM_NODISCARD;

// The values that a file holds for the tensors of its network: weights, running statistics, constants. They are read
// one by one on request, so no memory is needed but the caller's.
typedef struct ckm_import_values ckm_import_values;

// `options` as for ckm_import_file, so that names and shapes are the same. Errors: those of ckm_import_file.
CKM_API ckm_status ckm_import_values_open(const char *path, const ckm_import_options *options, ckm_import_values **out,
                                          ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_import_values_close(ckm_import_values *values);
// Reads the values of the tensor called `name` (dense, in the element type of the network) into `out`. *found says
// whether there are any: weights may have been left out when the file was written. Values of external data are read
// from the files next to it. Errors: CKM_ERR_IO, CKM_ERR_FORMAT (too few or too many values), CKM_ERR_ARGUMENT (type or
// shape differ).
CKM_API ckm_status ckm_import_values_read(ckm_import_values *values, const char *name, ckm_dtype dtype,
                                          const ckm_shape *shape, void *out, bool *found, ckm_error *err) CKM_NODISCARD;

typedef struct ckm_export_tensor {
    const char *name;  // of an initializer or an input of the file
    ckm_dtype dtype;   // CKM_F32, CKM_I32 or CKM_I64
    ckm_shape shape;
    const void *data;
} ckm_export_tensor;

// Writes a copy of the ONNX file `model` to `path` in which these tensors have new values, as initializers. So are other
// tensors whose values are in files next to the model: the copy needs no other file. Everything else is copied
// unchanged. Errors: CKM_ERR_IO; CKM_ERR_FORMAT; CKM_ERR_UNSUPPORTED when the result would be larger than the 2 GiB that the
// format allows.
CKM_API ckm_status ckm_export_onnx(const char *model, const char *path, const ckm_export_tensor *tensors, int32_t n,
                                   ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
