// SPDX-License-Identifier: Apache-2.0
// Conversion of ONNX nodes into operators of a network: the state that converters share, the table row an
// ONNX operator has, and the folding of arithmetic on constants.
#ifndef CKM_SRC_IMPORT_ONNX_CONVERT_H
#define CKM_SRC_IMPORT_ONNX_CONVERT_H

#include <checkmate/import.h>

#include "base/error.h"
#include "graph/graph.h"
#include "import/onnx_model.h"

// Constants of up to this many elements are computed; larger ones are known by shape only.
#define CKM_I_ONNX_FOLD_LIMIT 4096
// The same in a row, as positions are.
#define CKM_I_ONNX_FOLD_LIMIT_ROW 65536
// And of all constants of a file together.
#define CKM_I_ONNX_FOLD_LIMIT_ALL (32 << 20)

typedef struct ckm_i_onnx_convert {
    ckm_i_onnx_model *model;
    const ckm_import_options *options;
    ckm_graph *graph;
    ckm_graph *scratch;                // operators on constants alone: for their shapes, thrown away afterwards
    int64_t batch;                     // of the network
    int64_t file_batch;                // the fixed batch of the file, or 0 when it is symbolic
    const ckm_i_onnx_value *reshaped;  // the input that has the shape of the options; NULL: none
    int64_t folded;                    // elements of constants that are held
    int32_t computing;  // how deep in constants that the network computes because they are too large to be held here
} ckm_i_onnx_convert;

typedef struct ckm_i_onnx_row ckm_i_onnx_row;
typedef ckm_status (*ckm_i_onnx_converter)(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node,
                                           const ckm_i_onnx_row *row, ckm_error *err);

// One ONNX operator: its converter and the operator kind that it becomes.
struct ckm_i_onnx_row {
    const char *op_type;
    const char *kind;
    ckm_i_onnx_converter convert;
};

// Tables end with a row without op_type.
extern const ckm_i_onnx_row ckm_i_onnx_rows_layers[];
extern const ckm_i_onnx_row ckm_i_onnx_rows_math[];
extern const ckm_i_onnx_row ckm_i_onnx_rows_shapes[];

// Converts the whole model into c->graph.
ckm_status ckm_i_onnx_convert_model(ckm_i_onnx_convert *c, ckm_error *err) CKM_NODISCARD;

// Types the data inputs: symbolic and overridden dimensions. Sets c->batch and c->file_batch.
ckm_status ckm_i_onnx_type_inputs(ckm_i_onnx_convert *c, ckm_error *err) CKM_NODISCARD;

// Fails with: node "label" (OpType): <message>.
ckm_status ckm_i_onnx_node_error(const ckm_i_onnx_node *node, ckm_error *err, ckm_status code, const char *format, ...)
    CKM_PRINTF(4, 5);
#define ckm_i_onnx_node_error(node, err, code, ...) \
    ckm_i_error_known(ckm_i_onnx_node_error(node, err, code, __VA_ARGS__), code)

// The value in an input slot, or NULL when it is absent.
ckm_i_onnx_value *ckm_i_onnx_input(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t slot);
// The same, required and with a known shape.
ckm_status ckm_i_onnx_operand(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, int32_t slot,
                              ckm_i_onnx_value **out, ckm_error *err) CKM_NODISCARD;

// A list of integers in attribute `name`, or else in constant input `slot` (-1: only as an attribute).
// *n is -1 when it is in neither. At most CKM_I_ATTR_MAX of them.
ckm_status ckm_i_onnx_ints(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const char *name, int32_t slot,
                           int64_t *out, int32_t *n, ckm_error *err) CKM_NODISCARD;
// The same for reals.
ckm_status ckm_i_onnx_reals(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const char *name, int32_t slot,
                            double *out, int32_t *n, ckm_error *err) CKM_NODISCARD;

// An operator to be added, which reads these values (-1: absent) and gives the node's first outputs: as many as are used,
// at least one and at most `max_outputs`, or exactly -max_outputs where that is negative.
typedef struct ckm_i_onnx_op {
    const char *kind;
    ckm_i_tensor_list inputs;
    ckm_i_attr_list attrs;
    int32_t max_outputs;
} ckm_i_onnx_op;
// The node's inputs, unchanged, up to `most`.
static inline ckm_i_tensor_list ckm_i_onnx_inputs(const ckm_i_onnx_node *node, int32_t most)
{
    return (ckm_i_tensor_list){node->in, node->n_in < most ? node->n_in : most};
}
// One on constants alone goes to the scratch network; its outputs become constants of known shape. Where the network reads such a
// constant and it was too large to be held, the operator is converted again, into the network: it is computed in every step.
ckm_status ckm_i_onnx_emit(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, const ckm_i_onnx_op *op,
                           ckm_error *err) CKM_NODISCARD;
// The node's output 0 is the same tensor as its input 0.
ckm_status ckm_i_onnx_forward(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_error *err) CKM_NODISCARD;
// The node's output 0 is a constant. Takes over `data` (may be NULL: elements not known).
void ckm_i_onnx_set_constant(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, ckm_dtype dtype,
                             const ckm_shape *shape, ckm_i_onnx_scalar *data);

// Fails for an attribute that converters do not read, or that they read as another type.
ckm_status ckm_i_onnx_check_attributes(const ckm_i_onnx_convert *c, const ckm_i_onnx_node *node,
                                       ckm_error *err) CKM_NODISCARD;

// Computes the node when it is arithmetic on small constants, or reads a known shape; *done says whether it did.
ckm_status ckm_i_onnx_fold(ckm_i_onnx_convert *c, const ckm_i_onnx_node *node, bool *done,
                           ckm_error *err) CKM_NODISCARD;
// Is this an operator that folding knows? (It may still need constant inputs.)
bool ckm_i_onnx_can_fold(const char *op_type);

#endif
