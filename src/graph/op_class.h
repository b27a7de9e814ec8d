// SPDX-License-Identifier: Apache-2.0
// The operator record: all that the planner, autodiff, the cost models and the session know of a kind of operator. One
// constant object a kind, in a table of src/ops/<family>/op_<group>.c. Every trait has a value for "none"; 0 means that it
// was left out, and test_op_records fails for such a record.
#ifndef CKM_SRC_GRAPH_OP_CLASS_H
#define CKM_SRC_GRAPH_OP_CLASS_H

#include <checkmate/graph.h>

#include "graph/op_kinds.h"

typedef struct ckm_i_op_view ckm_i_op_view;

// Inputs over which kernels may write the first output: a bit each. A pair holds only where shape and type are equal.
typedef enum ckm_i_in_place {
    CKM_I_IN_PLACE_UNSAID,
    CKM_I_IN_PLACE_FIRST = 1,
    CKM_I_IN_PLACE_SECOND = 2,
    CKM_I_IN_PLACE_BOTH = 3,
    CKM_I_IN_PLACE_BRANCHES = 6,  // the second and the third: those of `where`
    CKM_I_IN_PLACE_EVERY = 0x3fffffff,
    CKM_I_IN_PLACE_NONE = 0x40000000
} ckm_i_in_place;

// What becomes of the first input.
typedef enum ckm_i_hands_on {
    CKM_I_HANDS_ON_UNSAID,
    CKM_I_HANDS_ON_NOTHING,   // numbers are computed from it
    CKM_I_HANDS_ON_ELEMENTS,  // its elements are copied unchanged to another buffer
    CKM_I_HANDS_ON_BUFFER     // the output is a view of it: there is nothing to compute
} ckm_i_hands_on;

// Whether the second input holds positions along an axis of the first, and which axis that is without an attribute.
typedef enum ckm_i_indexed {
    CKM_I_INDEXED_UNSAID,
    CKM_I_INDEXED_NONE,
    CKM_I_INDEXED_FIRST_AXIS,
    CKM_I_INDEXED_LAST_AXIS
} ckm_i_indexed;

// What kind of work it is for a device (src/cost/device_work.c).
typedef enum ckm_i_work {
    CKM_I_WORK_UNSAID,
    CKM_I_WORK_ELEMENTS,     // every operand once, every result once
    CKM_I_WORK_CONVOLUTION,  // a matrix product, by its kernel and channels
    CKM_I_WORK_TRANSPOSED,   // the same for a transposed convolution, whose kernel the paper's count leaves out
    CKM_I_WORK_PRODUCT,      // a matrix product
    CKM_I_WORK_TWO_PASSES,   // statistics first, then the values that need them
    CKM_I_WORK_PARTIAL,      // what it does not select is not read
    CKM_I_WORK_VIEW          // nothing
} ckm_i_work;

// Whether it may be computed again in a step.
typedef enum ckm_i_repeat {
    CKM_I_REPEAT_UNSAID,
    CKM_I_REPEAT_ALLOWED,
    CKM_I_REPEAT_ONCE  // a second time would change its operands a second time
} ckm_i_repeat;

// How a parameter or state is initialised by the operator that reads it.
typedef enum ckm_i_init {
    CKM_I_INIT_UNSAID,    // as another reader says; 0 where none does
    CKM_I_INIT_ONE,       // 1
    CKM_I_INIT_QUARTER,   // 1/4
    CKM_I_INIT_HE,        // uniform, variance 2 / fan in
    CKM_I_INIT_GLOROT,    // uniform, variance 2 / (fan in + fan out)
    CKM_I_INIT_SMALL,     // uniform, standard deviation 0.02
    CKM_I_INIT_POSITIONS  // the same for tables, which have two long axes or more; else 0
} ckm_i_init;

// Where a weight has its inputs and outputs.
typedef enum ckm_i_weight {
    CKM_I_WEIGHT_UNSAID,
    CKM_I_WEIGHT_NONE,               // the kind initialises nothing
    CKM_I_WEIGHT_PLAIN,              // I,O
    CKM_I_WEIGHT_MATRIX,             // I,O, or O,I with attribute `transposed`
    CKM_I_WEIGHT_FACTOR,             // I,O, or O,I with attribute `trans_b`
    CKM_I_WEIGHT_FILTER,             // k…,I,O with channels last, O,I,k… with channels first; I is per group
    CKM_I_WEIGHT_TRANSPOSED_FILTER,  // k…,O,I with channels last, I,O,k… with channels first; O is per group
} ckm_i_weight;

// How it is differentiated.
typedef enum ckm_i_learning {
    CKM_I_LEARNING_UNSAID,
    CKM_I_LEARNING_RULE,  // `gradient` adds the operators that compute its gradients
    CKM_I_LEARNING_NOTHING,  // not differentiable: constant almost everywhere, or no numbers. Operators before it get no gradient
    CKM_I_LEARNING_REWRITTEN,   // lowering writes it with other kinds: step graphs have none, it needs no kernel
    CKM_I_LEARNING_BEHIND_LOSS  // the loss itself, the backward pass and updates
} ckm_i_learning;

struct ckm_i_grad;   // autodiff/grad_rules.h
struct ckm_i_lower;  // autodiff/lower.h

enum { CKM_I_INIT_OPERANDS = 5 };

typedef struct ckm_i_init_rules {
    ckm_i_weight weight;
    ckm_i_init of[CKM_I_INIT_OPERANDS];  // by operand
    ckm_i_init every;                    // of all operands
} ckm_i_init_rules;

// The ONNX operator that becomes this kind without conversion: the same operands, one output, real attributes of the same names.
// Operators that need more have a row in src/import/onnx_rows_*.c.
enum { CKM_I_ONNX_REALS = 4 };
typedef struct ckm_i_op_onnx {
    const char *op_type;  // NULL: none
    int32_t since;        // the opset that brought it
    const char *reals[CKM_I_ONNX_REALS];
} ckm_i_op_onnx;

typedef struct ckm_i_op_class {
    const char *kind;  // "conv"
    ckm_i_op_kind id;
    int32_t min_inputs, max_inputs, max_outputs;  // -1: any number
    // Shapes and dtypes of the outputs from inputs and attributes; also checks both. Error messages name
    // the operator and the offending dimension.
    ckm_status (*infer)(const ckm_i_op_view *v, ckm_shape *out_shapes, ckm_dtype *out_dtypes, ckm_error *err);
    // Multiply-accumulates of one forward run for the whole batch, as the paper counts them
    // (src/graph/README.md lists the rules). NULL: free.
    ckm_status (*macs)(const ckm_i_op_view *v, int64_t *macs, ckm_error *err);
    ckm_i_work work;
    ckm_i_in_place in_place;
    ckm_i_hands_on hands_on;
    ckm_i_indexed indexed;
    ckm_i_repeat repeat;
    ckm_i_init_rules init;
    ckm_i_learning learning;
    bool learns_by_any_output;  // `gradient` can do without the first output's gradient; by default that must be there
    ckm_status (*gradient)(struct ckm_i_grad *g, ckm_error *err);
    // Brings it into the normal form of a step graph. NULL: it is copied with its attributes.
    ckm_status (*lower)(struct ckm_i_lower *l, ckm_error *err);
    ckm_i_op_onnx onnx;
} ckm_i_op_class;

// A record begins with CKM_I_OP, continues with CKM_I_OP_PLAIN, or with CKM_I_OP_TRAITS and `.init`, and ends with how it is
// differentiated. Traits are named by the ends of their constants.
#define CKM_I_OP(name, min, max, outputs, infer_, macs_)                                                      \
    .kind = #name, .id = CKM_I_OP_##name, .min_inputs = (min), .max_inputs = (max), .max_outputs = (outputs), \
    .infer = (infer_), .macs = (macs_)
#define CKM_I_OP_TRAITS(work_, in_place_, hands_on_, indexed_, repeat_)                                         \
    .work = CKM_I_WORK_##work_, .in_place = CKM_I_IN_PLACE_##in_place_, .hands_on = CKM_I_HANDS_ON_##hands_on_, \
    .indexed = CKM_I_INDEXED_##indexed_, .repeat = CKM_I_REPEAT_##repeat_
// Computes numbers, may be computed again, holds no positions, initialises nothing.
#define CKM_I_OP_PLAIN(work_, in_place_) \
    CKM_I_OP_TRAITS(work_, in_place_, NOTHING, NONE, ALLOWED), .init = {.weight = CKM_I_WEIGHT_NONE}

#define CKM_I_OP_LEARNS(rule) .learning = CKM_I_LEARNING_RULE, .gradient = (rule)
#define CKM_I_OP_LEARNS_NOTHING .learning = CKM_I_LEARNING_NOTHING
#define CKM_I_OP_REWRITTEN .learning = CKM_I_LEARNING_REWRITTEN
#define CKM_I_OP_BEHIND_LOSS .learning = CKM_I_LEARNING_BEHIND_LOSS

const ckm_i_op_class *ckm_i_op_class_find(const char *kind);
// The kind that an ONNX operator becomes without conversion, or NULL.
const ckm_i_op_class *ckm_i_op_class_find_onnx(const char *op_type);

// Whether the operator's output has the buffer of its first input.
static inline bool ckm_i_op_class_is_view(const ckm_i_op_class *c)
{
    return c->hands_on == CKM_I_HANDS_ON_BUFFER;
}

#endif
