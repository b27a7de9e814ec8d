// SPDX-License-Identifier: Apache-2.0
// Writing an ONNX model: nodes one after the other, initializers whose values stay where they are until the file is
// written, and metadata. Errors stick: after the first failure every call does nothing, and ckm_i_onnx_put_write reports
// it.
#ifndef CKM_SRC_IMPORT_ONNX_PUT_H
#define CKM_SRC_IMPORT_ONNX_PUT_H

#include <checkmate/import.h>

#include "import/onnx_bytes.h"

// Element types as ONNX numbers them.
enum { CKM_I_ONNX_FLOAT = 1, CKM_I_ONNX_INT32 = 6, CKM_I_ONNX_INT64 = 7 };

typedef struct ckm_i_onnx_put ckm_i_onnx_put;

ckm_status ckm_i_onnx_put_create(ckm_i_onnx_put **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_onnx_put_free(ckm_i_onnx_put *put);

// A name made as by printf that lives as long as the model.
const char *ckm_i_onnx_put_name(ckm_i_onnx_put *put, const char *format, ...) CKM_PRINTF(2, 3);

// A node: begin, attributes, end. `inputs` and `outputs` are NULL behind the last one; an absent input is "".
void ckm_i_onnx_put_begin(ckm_i_onnx_put *put, const char *op_type, const char *const *inputs,
                          const char *const *outputs);
void ckm_i_onnx_put_int(ckm_i_onnx_put *put, const char *key, int64_t value);
void ckm_i_onnx_put_ints(ckm_i_onnx_put *put, const char *key, const int64_t *values, int32_t n);
void ckm_i_onnx_put_real(ckm_i_onnx_put *put, const char *key, double value);
void ckm_i_onnx_put_word(ckm_i_onnx_put *put, const char *key, const char *value);
void ckm_i_onnx_put_end(ckm_i_onnx_put *put);

// An initializer of that name: axis i of it is axis perm[i] of `t`, whose data must live until the model is written; perm NULL:
// unchanged.
void ckm_i_onnx_put_tensor(ckm_i_onnx_put *put, const char *name, const ckm_export_tensor *t, const int64_t *perm);
// Is there one?
bool ckm_i_onnx_put_has(const ckm_i_onnx_put *put, const char *name);
// Constants, copied. Return the name.
const char *ckm_i_onnx_put_floats(ckm_i_onnx_put *put, const char *name, const float *values, ckm_shape shape);
const char *ckm_i_onnx_put_longs(ckm_i_onnx_put *put, const char *name, const int64_t *values, ckm_shape shape);

// An input or output of the model. A first dimension of -1 is the batch.
void ckm_i_onnx_put_value(ckm_i_onnx_put *put, bool input, const char *name, ckm_dtype dtype, ckm_shape shape);
// A metadata entry, for users of the model.
void ckm_i_onnx_put_note(ckm_i_onnx_put *put, const char *key, const char *value);

// Writes the file, which is called `graph` within. CKM_ERR_UNSUPPORTED above the 2 GiB that the format allows.
ckm_status ckm_i_onnx_put_write(ckm_i_onnx_put *put, const char *graph, const char *path, ckm_error *err) CKM_NODISCARD;

#endif
