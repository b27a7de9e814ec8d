// SPDX-License-Identifier: Apache-2.0
// The step graph while it is made: adding operators with unique names, and what is known of each.
#ifndef CKM_SRC_AUTODIFF_STEP_H
#define CKM_SRC_AUTODIFF_STEP_H

#include <checkmate/autodiff.h>

#include "graph/training.h"

// Where an operator of the step graph comes from.
typedef struct ckm_i_step_mark {
    ckm_i_phase phase;
    int32_t source;  // operator of the network, or -1
} ckm_i_step_mark;

// A place in the hash table of names.
typedef struct ckm_i_step_name {
    int32_t op;    // the operator of that name, -1: empty
    int32_t next;  // the first number behind this name that may still be free
} ckm_i_step_name;

// What becomes of a gradient before its parameter is updated by it.
typedef enum ckm_i_sharing {
    CKM_I_SHARING_NONE,
    CKM_I_SHARING_SUM,      // gradient_sum: a step has several batches, one after the other
    CKM_I_SHARING_EXCHANGE  // gradient_send when it is complete, gradient_receive before the update: other processes
} ckm_i_sharing;

// ckm_autodiff_op_graph for steps of several batches.
ckm_status ckm_i_autodiff_op_graph(const ckm_graph *graph, const ckm_autodiff_options *options, ckm_i_sharing sharing,
                                   ckm_training **out, ckm_error *err) CKM_NODISCARD;

// The forward pass alone, as prediction runs it: normalization by running statistics, no dropout, a softmax at the end as the
// network has it; `evaluates`: also where the network's file says training mode. Result i is the network's output i; without a list of outputs, that of the last operator that no other
// reads is the only one.
ckm_status ckm_i_autodiff_forward_graph(const ckm_graph *graph, bool evaluates, ckm_training **out,
                                        ckm_error *err) CKM_NODISCARD;

// The forward pass as prediction runs it, up to the loss: what a network's predictions are worth on samples that it does not learn
// from. Labels and the loss are those of ckm_autodiff_op_graph. Operators that the network's file has in training mode are run as
// in prediction, too.
ckm_status ckm_i_autodiff_validation_graph(const ckm_graph *graph, ckm_loss_kind loss, ckm_training **out,
                                           ckm_error *err) CKM_NODISCARD;

// An optimizer whose members at their default are filled in: what updates do, and not options to be read again.
ckm_optimizer ckm_i_optimizer_usual(const ckm_optimizer *given);

typedef struct ckm_i_step {
    const ckm_graph *network;
    bool predicts;   // a forward pass without gradients
    bool judges;     // one with a loss
    bool evaluates;  // one in which nothing is in training mode, even where the network's file says so
    ckm_i_sharing sharing;
    ckm_graph *graph;        // the step graph
    ckm_i_step_mark *marks;  // one an operator of `graph`
    int32_t n_marks, cap_marks;
    ckm_i_step_mark now;     // what the next operator is marked with
    ckm_i_step_name *names;  // hash table of operators by name
    int32_t name_room;       // a power of two, or 0
    // The end of the forward pass: the tensor that the loss reads, the axis of its classes.
    int32_t output, class_axis;
    int32_t n_results;              // of a step that predicts
    int32_t *results;               // tensors
    int32_t loss, correct, labels;  // tensors, -1: none
    int32_t n_forward_ops, n_forward_tensors;
    int32_t *gradients;  // one a forward tensor: its gradient so far, or -1
    bool *wanted;        // one a forward tensor: it needs a gradient
} ckm_i_step;

// Attributes of an operator that is put together.
#define CKM_I_ATTRS_ROOM 24
typedef struct ckm_i_attrs {
    int32_t n;
    ckm_i_attr items[CKM_I_ATTRS_ROOM];
} ckm_i_attrs;

// A copy of the operator's attributes.
void ckm_i_attrs_copy(ckm_i_attrs *attrs, const ckm_i_graph_op *op);
// Replaces the attribute of the same key or adds one.
void ckm_i_attrs_put(ckm_i_attrs *attrs, ckm_i_attr attr);
void ckm_i_attrs_put_int(ckm_i_attrs *attrs, const char *key, int64_t value);
void ckm_i_attrs_put_shape(ckm_i_attrs *attrs, const char *key, const ckm_shape *shape);
void ckm_i_attrs_remove(ckm_i_attrs *attrs, const char *key);

ckm_status ckm_i_step_init(ckm_i_step *s, const ckm_graph *network, ckm_error *err) CKM_NODISCARD;
void ckm_i_step_dispose(ckm_i_step *s);

// An operator to be added, named `name` and `suffix` together (a number behind it when that is taken). `suffix` and `attrs`
// may be NULL.
typedef struct ckm_i_step_op {
    const char *kind, *name, *suffix;
    ckm_i_tensor_list inputs;
    const ckm_i_attrs *attrs;
    int32_t n_outputs;
} ckm_i_step_op;
ckm_status ckm_i_step_add(ckm_i_step *s, const ckm_i_step_op *op, int32_t *outputs, ckm_error *err) CKM_NODISCARD;

static inline ckm_shape ckm_i_step_shape(const ckm_i_step *s, int32_t tensor)
{
    return s->graph->tensors[tensor].shape;
}
bool ckm_i_dtype_is_float(ckm_dtype dtype);

// The stages, in this order. Lowering fills `output` and `class_axis`.
ckm_status ckm_i_step_lower(ckm_i_step *s, ckm_loss_kind loss, ckm_error *err) CKM_NODISCARD;
// The same for a step that predicts: fills `results`.
ckm_status ckm_i_step_lower_outputs(ckm_i_step *s, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_step_loss(ckm_i_step *s, ckm_loss_kind loss, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_step_backward(ckm_i_step *s, const ckm_autodiff_options *options, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_step_update(ckm_i_step *s, const ckm_optimizer *optimizer, int32_t parameter,
                             ckm_error *err) CKM_NODISCARD;
// Begins the exchange of a parameter's gradient, which is complete.
ckm_status ckm_i_step_send(ckm_i_step *s, int32_t parameter, ckm_error *err) CKM_NODISCARD;
// Turns the finished step into a training graph, which takes over `s->graph`.
ckm_status ckm_i_step_training(ckm_i_step *s, const ckm_autodiff_options *options, ckm_training **out,
                               ckm_error *err) CKM_NODISCARD;

#endif
