// SPDX-License-Identifier: Apache-2.0
// Reading an ONNX file at the level of the protobuf wire format: copies what onnx.proto lists, drops the
// rest, above all the values of weights, and checks every length against what encloses it. What comes out
// is a small, well-formed message, regardless of the size of the file.
#ifndef CKM_SRC_IMPORT_ONNX_SKIM_H
#define CKM_SRC_IMPORT_ONNX_SKIM_H

#include <checkmate/base.h>

// Values of tensors up to this many bytes are kept: shape arithmetic, scales, sizes, small constants.
#define CKM_I_ONNX_KEEP_BYTES 4096
// Of what exporters note on nodes, only this is kept: the rules by which PyTorch's has rewritten one.
#define CKM_I_ONNX_REWRITES "pkg.onnxscript.rewriter.rule_name"

// Where bytes come from: memory, or an open file read through a window.
typedef struct ckm_i_onnx_source {
    const uint8_t *data;  // NULL: read from fd
    int fd;
    int64_t size_bytes;
    uint8_t *window;  // the part of the file at hand
    int64_t window_at, window_bytes;
} ckm_i_onnx_source;

// Opens `path` for reading. Files that cannot be positioned (pipes) are an error.
ckm_status ckm_i_onnx_source_open(ckm_i_onnx_source *source, const char *path, ckm_error *err) CKM_NODISCARD;
// The same for a regular file that is open; takes over `fd`, and closes it on failure.
ckm_status ckm_i_onnx_source_take(ckm_i_onnx_source *source, int fd, int64_t size_bytes, ckm_error *err) CKM_NODISCARD;
void ckm_i_onnx_source_memory(ckm_i_onnx_source *source, const void *data, size_t size_bytes);
void ckm_i_onnx_source_close(ckm_i_onnx_source *source);
// Copies bytes [at, at + n), which must lie within the source.
ckm_status ckm_i_onnx_source_read(ckm_i_onnx_source *source, int64_t at, int64_t n, uint8_t *out,
                                  ckm_error *err) CKM_NODISCARD;

// Writes the reduced model to *out (free() it). Errors carry the byte position in the source.
// Memory is proportional to what is kept, time to the number of fields.
ckm_status ckm_i_onnx_skim(ckm_i_onnx_source *source, uint8_t **out, size_t *size_bytes, ckm_error *err) CKM_NODISCARD;

#endif
