// SPDX-License-Identifier: Apache-2.0
// ONNX models built in memory for tests, packed by protobuf-c. Any failure to allocate ends the test.
#ifndef CKM_TESTS_ONNX_BUILDER_H
#define CKM_TESTS_ONNX_BUILDER_H

#include <stddef.h>
#include <stdint.h>

#include <checkmate/import.h>

#include "onnx.pb-c.h"

typedef struct onnx_builder onnx_builder;

// Element types, by their number in the format.
enum { OB_FLOAT = 1, OB_INT32 = 6, OB_INT64 = 7, OB_BOOL = 9, OB_HALF = 10 };

onnx_builder *ob_create(int64_t opset);
void ob_free(onnx_builder *b);
// The message under construction, for what the functions below do not offer.
CkmOnnx__Model *ob_model(onnx_builder *b);

// Shapes are texts: "2,3,8,8"; a word is a symbolic dimension, "?" one without a name, "" a scalar.
void ob_input(onnx_builder *b, const char *name, int32_t type, const char *shape);
void ob_output(onnx_builder *b, const char *name);
// Initializers: without values; with integers (shape "" for one, else a list); with floats in raw form;
// in another file.
CkmOnnx__TensorProto *ob_weight(onnx_builder *b, const char *name, const char *shape);
CkmOnnx__TensorProto *ob_ints(onnx_builder *b, const char *name, const char *values);
CkmOnnx__TensorProto *ob_floats(onnx_builder *b, const char *name, const char *values);
CkmOnnx__TensorProto *ob_external(onnx_builder *b, const char *name, const char *shape);

// A note on a value, as exporters leave them.
void ob_note(onnx_builder *b, const char *name, const char *key, const char *value);

// A node; inputs and outputs are comma-separated names, an empty one is an absent input. Its name is that
// of its first output with "_node" behind.
CkmOnnx__Node *ob_node(onnx_builder *b, const char *op_type, const char *inputs, const char *outputs);
// Attributes of the last node.
void ob_int(onnx_builder *b, const char *name, int64_t value);
void ob_list(onnx_builder *b, const char *name, const char *values);
void ob_real(onnx_builder *b, const char *name, float value);
void ob_word(onnx_builder *b, const char *name, const char *value);
void ob_tensor(onnx_builder *b, const char *name, CkmOnnx__TensorProto *tensor);
// A tensor that is not an initializer, for ob_tensor.
CkmOnnx__TensorProto *ob_detached_ints(onnx_builder *b, const char *values);

// Several at once, separated by semicolons. Leaves: "w=8,3,3,3" a weight of that shape, "i:axes=1,2"
// integers, "f:scales=1,2" floats, "d:y=2,4" a second data input of that shape. Attributes of the last node:
// "l:pads=1,1", "i:group=2", "r:alpha=0.1", "w:mode=linear".
void ob_leaves(onnx_builder *b, const char *leaves);
void ob_attributes(onnx_builder *b, const char *attributes);

// Packs and imports; NULL on failure, with *err set. Also checks that a failure leaves the output alone.
ckm_graph *ob_import(const onnx_builder *b, const ckm_import_options *options, ckm_error *err);

// Serializes; the caller frees *data.
void ob_pack(const onnx_builder *b, uint8_t **data, size_t *size_bytes);

#endif
