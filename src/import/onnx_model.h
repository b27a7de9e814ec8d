// SPDX-License-Identifier: Apache-2.0
// An ONNX model with its names resolved: values (graph inputs, initializers, node outputs) and nodes that
// refer to them by index. The importer's working state hangs off the values.
#ifndef CKM_SRC_IMPORT_ONNX_MODEL_H
#define CKM_SRC_IMPORT_ONNX_MODEL_H

#include <checkmate/graph.h>
#include <protobuf-c/protobuf-c.h>

#include "import/onnx_skim.h"
#include "onnx.pb-c.h"

#define CKM_I_ONNX_OPSET_MIN 9
#define CKM_I_ONNX_OPSET_MAX 28

// An element of a constant: `r` for floating types, `i` for the others.
typedef union ckm_i_onnx_scalar {
    int64_t i;
    double r;
} ckm_i_onnx_scalar;

typedef enum ckm_i_onnx_origin { CKM_I_ONNX_INPUT, CKM_I_ONNX_INITIALIZER, CKM_I_ONNX_COMPUTED } ckm_i_onnx_origin;

typedef struct ckm_i_onnx_value {
    const char *name;
    ckm_i_onnx_origin origin;
    int32_t node;  // producer of a computed one, else -1
    const CkmOnnx__TensorProto *initializer;
    const CkmOnnx__ValueInfo *info;  // of an input
    bool needed;                     // some output of the model depends on it
    ckm_tensor_role role;            // set by ckm_i_onnx_assign_roles and by conversion
    bool buffer;                     // an initializer that the exporter notes is none of the trained ones
    bool used_otherwise;             // read by something other than a product as its second matrix
    bool typed;                      // dtype and shape are known
    ckm_dtype dtype;
    ckm_shape shape;
    ckm_i_onnx_scalar *data;  // the elements of a small constant, else NULL
    int32_t transposed_of;    // parameter that this is the transpose of, for products only, or -1
    int32_t tensor, scratch;  // its tensor in the network / in the scratch network, or -1
} ckm_i_onnx_value;

typedef struct ckm_i_onnx_node {
    const CkmOnnx__Node *proto;
    const char *label;  // name, or that of the first output
    const char *op_type;
    bool standard;  // of the standard operator domain
    bool needed;
    bool holds_norm;  // the exporter notes that it has folded a normalization into this
    int32_t n_in, n_out;
    int32_t *in, *out;  // values; -1 where absent
} ckm_i_onnx_node;

typedef struct ckm_i_onnx_model {
    CkmOnnx__Model *proto;
    int64_t opset;
    int32_t n_values, n_nodes, n_outputs;
    ckm_i_onnx_value *values;
    ckm_i_onnx_node *nodes;
    int32_t *outputs;
    int32_t *pool;  // what in and out point into
} ckm_i_onnx_model;

// Reads and checks a model: one graph, an opset in range, every name produced once and before its use.
ckm_status ckm_i_onnx_model_read(ckm_i_onnx_source *source, ckm_i_onnx_model **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_onnx_model_free(ckm_i_onnx_model *model);

// Says what each initializer, constant node and graph input is: parameter, state, constant or data.
ckm_status ckm_i_onnx_assign_roles(ckm_i_onnx_model *model, ckm_error *err) CKM_NODISCARD;

// Element type by its number in the format; false for types the library does not have (text, complex, ...).
bool ckm_i_onnx_dtype(int64_t number, ckm_dtype *dtype);
bool ckm_i_onnx_dtype_is_real(ckm_dtype dtype);
// Shape and type of a tensor message, `name` for errors.
ckm_status ckm_i_onnx_tensor_type(const CkmOnnx__TensorProto *tensor, const char *name, ckm_dtype *dtype,
                                  ckm_shape *shape, ckm_error *err) CKM_NODISCARD;
// The elements of a tensor message; *data is NULL when they are not in the (reduced) model.
ckm_status ckm_i_onnx_tensor_data(const CkmOnnx__TensorProto *tensor, const char *name, ckm_i_onnx_scalar **data,
                                  ckm_error *err) CKM_NODISCARD;

// Attributes of a node; NULL or the fallback when absent.
const CkmOnnx__Attribute *ckm_i_onnx_attr(const ckm_i_onnx_node *node, const char *name);
int64_t ckm_i_onnx_attr_int(const ckm_i_onnx_node *node, const char *name, int64_t fallback);
double ckm_i_onnx_attr_real(const ckm_i_onnx_node *node, const char *name, double fallback);
// Copies a text attribute into buf, cut to fit. Returns buf.
const char *ckm_i_onnx_attr_text(const ckm_i_onnx_node *node, const char *name, const char *fallback, char *buf,
                                 size_t size);

#endif
