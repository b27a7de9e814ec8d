// SPDX-License-Identifier: Apache-2.0
// Walking over the fields of protobuf messages in an ONNX file without unpacking them: where they start and end.
#ifndef CKM_SRC_IMPORT_ONNX_WIRE_H
#define CKM_SRC_IMPORT_ONNX_WIRE_H

#include "import/onnx_skim.h"

enum { CKM_I_WIRE_VARINT = 0, CKM_I_WIRE_64 = 1, CKM_I_WIRE_BYTES = 2, CKM_I_WIRE_32 = 5 };

typedef struct ckm_i_wire_field {
    uint32_t number;
    int type;
    int64_t start;      // of the key
    int64_t at, bytes;  // of the payload
    uint64_t value;     // of a varint
} ckm_i_wire_field;

// CKM_ERR_FORMAT: "<what> in the <where>", the kind of message; NULL: "<what>" alone.
ckm_status ckm_i_wire_broken(int64_t at, const char *what, const char *where, ckm_error *err);

// Reads the field at *at, which must end before `end`, and moves *at behind it. `where` is for errors.
ckm_status ckm_i_wire_next(ckm_i_onnx_source *source, int64_t *at, int64_t end, const char *where,
                           ckm_i_wire_field *field, ckm_error *err) CKM_NODISCARD;
// One number of a packed list.
ckm_status ckm_i_wire_varint(ckm_i_onnx_source *source, int64_t *at, int64_t end, const char *where, uint64_t *value,
                             ckm_error *err) CKM_NODISCARD;
// Copies a text field; CKM_ERR_FORMAT when it does not fit.
ckm_status ckm_i_wire_text(ckm_i_onnx_source *source, const ckm_i_wire_field *field, char *out, size_t room,
                           ckm_error *err) CKM_NODISCARD;

// Where a tensor message stands.
typedef struct ckm_i_wire_tensor {
    char *name;
    int64_t at, bytes;            // of the message
    int64_t field_at, field_end;  // of what would have to go to be rid of it: an initializer, or a Constant node
} ckm_i_wire_tensor;

typedef struct ckm_i_wire_tensors {
    int64_t graph_start, graph_at, graph_bytes;  // the graph's field: its key; its payload
    ckm_i_wire_tensor *items;                    // sorted by name
    int32_t n, cap;
} ckm_i_wire_tensors;

// Finds all initializers, and the tensors of Constant nodes under the names of their outputs.
ckm_status ckm_i_wire_list(ckm_i_onnx_source *source, ckm_i_wire_tensors *out, ckm_error *err) CKM_NODISCARD;
void ckm_i_wire_tensors_dispose(ckm_i_wire_tensors *tensors);
const ckm_i_wire_tensor *ckm_i_wire_find(const ckm_i_wire_tensors *tensors, const char *name);

#endif
