// SPDX-License-Identifier: Apache-2.0
// Network IR, internal view: plain structs that builders fill and everyone else reads.
#ifndef CKM_SRC_GRAPH_GRAPH_H
#define CKM_SRC_GRAPH_GRAPH_H

#include <checkmate/graph.h>

#include "graph/op_class.h"

#define CKM_I_ATTR_MAX 16

// One attribute: a short list of integers, one real, or one word.
typedef struct ckm_i_attr {
    const char *key;  // a string literal
    enum { CKM_I_ATTR_INTS, CKM_I_ATTR_REAL, CKM_I_ATTR_WORD } type;
    int32_t n;
    int64_t ints[CKM_I_ATTR_MAX];
    double real;
    char word[32];
} ckm_i_attr;

typedef struct ckm_i_known_as ckm_i_known_as;  // graph/known_as.h

typedef struct ckm_i_graph_tensor {
    char *name;
    ckm_tensor_role role;
    ckm_dtype dtype;
    ckm_shape shape;
    int32_t producer;
    bool known;  // a constant of one element, of this value
    double value;
    ckm_i_known_as *known_as;  // what it is called elsewhere; NULL: nothing
} ckm_i_graph_tensor;

typedef struct ckm_i_graph_op {
    char *name;
    const ckm_i_op_class *op_class;
    int32_t n_inputs, n_outputs, n_attrs;
    int32_t *inputs, *outputs;  // an absent optional input is -1
    ckm_i_attr *attrs;
    bool holds_norm;  // the exporter of its file says that it has folded a normalization into this
} ckm_i_graph_op;

// What the network gives away.
typedef struct ckm_i_graph_output {
    char *name;
    int32_t tensor;  // -1: a constant that has no tensor
} ckm_i_graph_output;

struct ckm_graph {
    char *name;
    ckm_layout layout;
    ckm_task task;
    int64_t batch;
    int32_t n_tensors, cap_tensors, n_ops, cap_ops;
    ckm_i_graph_tensor *tensors;
    ckm_i_graph_op *ops;  // in the order of the layer list or the file: a topological order
    // As the file names them; none: what no operator reads is the output.
    int32_t n_outputs, cap_outputs;
    ckm_i_graph_output *outputs;
};

// A class that bounds its inputs has at most this many.
#define CKM_I_VIEW_INPUTS 64

// What shape inference and costing see of one operator.
struct ckm_i_op_view {
    const ckm_graph *graph;
    const ckm_i_graph_op *op;
    // The first inputs, NULL for an absent one. Where a class takes any number, ckm_i_op_view_input reads them all.
    const ckm_i_graph_tensor *in[CKM_I_VIEW_INPUTS];
};

// Input i (less than op->n_inputs) of an operator with any number of them; NULL when absent.
static inline const ckm_i_graph_tensor *ckm_i_op_view_input(const ckm_i_op_view *v, int32_t i)
{
    if (i < CKM_I_VIEW_INPUTS) {
        return v->in[i];
    }
    return v->op->inputs[i] >= 0 ? &v->graph->tensors[v->op->inputs[i]] : NULL;
}

ckm_status ckm_i_graph_create(const char *name, ckm_layout layout, int64_t batch, ckm_graph **out,
                              ckm_error *err) CKM_NODISCARD;
// Adds a tensor that no operator produces (input, parameter, state, constant). Names need not be unique.
ckm_status ckm_i_graph_add_tensor(ckm_graph *g, const char *name, ckm_tensor_role role, ckm_dtype dtype,
                                  const ckm_shape *shape, int32_t *index, ckm_error *err) CKM_NODISCARD;
// Adds an output; its name is copied.
ckm_status ckm_i_graph_add_output(ckm_graph *g, const char *name, int32_t tensor, ckm_error *err) CKM_NODISCARD;
// Lists passed by callers.
typedef struct ckm_i_tensor_list {
    const int32_t *items;  // indices; -1 where an optional operand is absent
    int32_t n;
} ckm_i_tensor_list;
typedef struct ckm_i_attr_list {
    const ckm_i_attr *items;
    int32_t n;
} ckm_i_attr_list;
// An operator to be added. Everything is copied.
typedef struct ckm_i_new_op {
    const char *kind, *name;  // the name may be NULL
    ckm_i_tensor_list inputs;
    ckm_i_attr_list attrs;
    int32_t n_outputs;
} ckm_i_new_op;
// Checks the operator, infers its outputs, appends them as activation tensors named after it and writes their indices to
// `outputs` (n_outputs of them). Inputs must exist already.
ckm_status ckm_i_graph_add_op(ckm_graph *g, const ckm_i_new_op *op, int32_t *outputs, ckm_error *err) CKM_NODISCARD;

ckm_i_attr ckm_i_attr_ints(const char *key, const int64_t *values, int32_t n);
ckm_i_attr ckm_i_attr_real(const char *key, double value);
ckm_i_attr ckm_i_attr_word(const char *key, const char *value);
const ckm_i_attr *ckm_i_op_attr(const ckm_i_graph_op *op, const char *key);  // NULL when absent
int64_t ckm_i_op_attr_int(const ckm_i_graph_op *op, const char *key, int32_t i, int64_t fallback);
double ckm_i_op_attr_double(const ckm_i_graph_op *op, const char *key, double fallback);
const char *ckm_i_op_attr_text(const ckm_i_graph_op *op, const char *key, const char *fallback);

// Index of the channels and of the first spatial axis in a tensor of this rank (at least 2).
int32_t ckm_i_channel_axis(const ckm_graph *g, int32_t rank);
int32_t ckm_i_spatial_axis(const ckm_graph *g);

int64_t ckm_i_dtype_bytes(ckm_dtype dtype);
// Elements of a shape; CKM_ERR_OVERFLOW beyond 63 bits.
ckm_status ckm_i_shape_elements(const ckm_shape *shape, int64_t *elements, ckm_error *err) CKM_NODISCARD;
// Elements of a shape that a tensor of a network has, where they are known to fit.
int64_t ckm_i_elements(const ckm_shape *shape);
bool ckm_i_shapes_equal(const ckm_shape *a, const ckm_shape *b);
// "32x224x224x3", for messages. Returns buf.
const char *ckm_i_shape_text(const ckm_shape *shape, char *buf, size_t size);
ckm_status ckm_i_op_view_init(const ckm_graph *g, int32_t op, ckm_i_op_view *view, ckm_error *err) CKM_NODISCARD;

#endif
