// SPDX-License-Identifier: Apache-2.0
// Valid ONNX models, made up from bytes: every operator that the importer knows, in the forms of the opsets, with all
// attributes, deep and wide. The same bytes give the same model, and any bytes give one.
#ifndef CKM_TESTS_ONNX_GENERATOR_H
#define CKM_TESTS_ONNX_GENERATOR_H

#include "onnx_builder.h"

typedef struct onnx_expected {
    char name[16];    // of the node's first output
    ckm_shape shape;  // worked out here, by the rules of ONNX
} onnx_expected;

enum { OG_MOST_NODES = 600 };

// `expected` has room for OG_MOST_NODES; *n_expected of them are filled in. Both may be NULL. The caller frees the
// builder with ob_free.
onnx_builder *og_generate(const uint8_t *bytes, size_t n, onnx_expected *expected, int *n_expected);

#endif
