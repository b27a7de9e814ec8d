// SPDX-License-Identifier: Apache-2.0
// The dataflow graph: what solvers, simulator and verifier see. Operators with a cost, tensors with
// bytes; nothing of neural networks.
#ifndef CHECKMATE_DATAFLOW_H
#define CHECKMATE_DATAFLOW_H

#include <checkmate/base.h>

#ifdef __cplusplus
extern "C" {
#endif

// What costs count. CKM_COST_FLOPS: multiply-accumulates, two floating-point operations each, shown as "MACs".
typedef enum ckm_cost_unit { CKM_COST_FLOPS, CKM_COST_NS, CKM_COST_US } ckm_cost_unit;
// CKM_OP_LOAD reads its only output from where it can always be read again: a weight that does not change, a batch on disk.
typedef enum ckm_op_kind { CKM_OP_FORWARD, CKM_OP_LOSS, CKM_OP_BACKWARD, CKM_OP_UPDATE, CKM_OP_LOAD } ckm_op_kind;

// A directed acyclic graph of operators and tensors, built once and read-only after ckm_dataflow_finish.
typedef struct ckm_dataflow ckm_dataflow;

// One tensor. `bytes` >= 0. A view adds no bytes to the storage that it shares, which lives while any of its tensors does. Members
// left 0 are the ordinary case: a tensor with its own storage.
typedef struct ckm_dataflow_tensor {
    const char *name;  // may be NULL when adding
    int64_t bytes;
    int32_t alias_of;  // of a view: the index of the storage's owner, which is no view. Of others -1, or 0 when adding
    bool is_view;
} ckm_dataflow_tensor;

// One operator. Texts and index arrays are copied by ckm_dataflow_add_op and borrowed from the graph by
// ckm_dataflow_get_op. `inplace` pairs (input, output), tensor indices: the operator may write that output
// over that input's storage when the input is dead afterwards. Members left 0 are the ordinary case.
typedef struct ckm_dataflow_op {
    const char *name;  // may be NULL when adding
    ckm_op_kind kind;
    int64_t cost;  // >= 0, in the graph's cost unit
    int64_t workspace_bytes;
    bool run_once;  // computed exactly once, and never again
    int32_t n_inputs, n_outputs, n_inplace;
    const int32_t *inputs, *outputs;
    const int32_t (*inplace)[2];
    // Where in the user's program it comes from: the part of the model, names separated by dots
    // ("layers.3.mlp.up_proj"), and the line ("model.py:212"). For people only. May be NULL when adding, "" if unknown.
    const char *module, *source;
    // Of a load: how many bytes are read; 0: those of its output. Of others 0.
    int64_t load_bytes;
} ckm_dataflow_op;

// Another memory than the one that the budget limits. Tensors can be moved to it and read back while operators run, one transfer each
// way at a time. A transfer of b bytes takes latency_ns and b / bytes_per_second, rounded up
// to whole nanoseconds (and then to the graph's unit).
typedef struct ckm_second_memory {
    const char *name;                                   // for people: "host"; copied, NULL when setting is "host"
    int64_t bytes;                                      // how much fits; -1: no limit
    int64_t out_bytes_per_second, in_bytes_per_second;  // to it and back; at least 1
    int64_t latency_ns;                                 // at least 0
} ckm_second_memory;

// Creates an empty graph. `name` is copied; NULL means "".
CKM_API ckm_status ckm_dataflow_create(const char *name, ckm_cost_unit unit, int64_t fixed_bytes, ckm_dataflow **out,
                                       ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_dataflow_free(ckm_dataflow *df);

// Append a tensor or an operator and give its index (`index` may be NULL). Operators must be added in a
// topological order; it becomes the first-execution order. Checks what can be checked at once; the rest
// is checked by ckm_dataflow_finish.
CKM_API ckm_status ckm_dataflow_add_tensor(ckm_dataflow *df, const ckm_dataflow_tensor *tensor, int32_t *index,
                                           ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_dataflow_add_op(ckm_dataflow *df, const ckm_dataflow_op *op, int32_t *index,
                                       ckm_error *err) CKM_NODISCARD;
// Declares a tensor that must be live when the schedule ends.
CKM_API ckm_status ckm_dataflow_add_result(ckm_dataflow *df, int32_t tensor, ckm_error *err) CKM_NODISCARD;

// Gives the graph a second memory. Its costs must then be times (CKM_COST_NS or CKM_COST_US). Errors name the member.
CKM_API ckm_status ckm_dataflow_set_second_memory(ckm_dataflow *df, const ckm_second_memory *memory,
                                                  ckm_error *err) CKM_NODISCARD;

// Validates the graph and makes it ready for use: indices, one producer per tensor, topological order,
// view owners, in-place pairs (of the operator's own inputs and outputs), and that
// total cost and total bytes fit int64_t. Errors name the operator or tensor. O(operators + edges).
CKM_API ckm_status ckm_dataflow_finish(ckm_dataflow *df, ckm_error *err) CKM_NODISCARD;

CKM_API const char *ckm_dataflow_name(const ckm_dataflow *df);
CKM_API ckm_cost_unit ckm_dataflow_cost_unit(const ckm_dataflow *df);
CKM_API int64_t ckm_dataflow_fixed_bytes(const ckm_dataflow *df);
CKM_API int32_t ckm_dataflow_op_count(const ckm_dataflow *df);
CKM_API int32_t ckm_dataflow_tensor_count(const ckm_dataflow *df);
CKM_API int32_t ckm_dataflow_result_count(const ckm_dataflow *df);
CKM_API ckm_dataflow_op ckm_dataflow_get_op(const ckm_dataflow *df, int32_t op);
CKM_API ckm_dataflow_tensor ckm_dataflow_get_tensor(const ckm_dataflow *df, int32_t tensor);
CKM_API int32_t ckm_dataflow_get_result(const ckm_dataflow *df, int32_t i);
// False where the graph has no second memory; `out` (may be NULL) is then untouched. Its name is borrowed from the graph.
CKM_API bool ckm_dataflow_get_second_memory(const ckm_dataflow *df, ckm_second_memory *out);
// Operator that produces the tensor, or -1 for an input.
CKM_API int32_t ckm_dataflow_producer(const ckm_dataflow *df, int32_t tensor);
// Edges: distinct (producer, consumer) operator pairs; of a finished graph.
CKM_API int64_t ckm_dataflow_edge_count(const ckm_dataflow *df);
// Sum of all operator costs: the cost of running without rematerialization.
CKM_API int64_t ckm_dataflow_total_cost(const ckm_dataflow *df);

// Bytes that every schedule needs at some moment, looking at one operator at a time: the largest, over
// operators, of fixed bytes, inputs, the operator's operands and outputs and its workspace, less what its
// in-place pairs save; and what is live at the end. No budget below it is feasible (proof: each operator
// runs at least once). ckm_min_budget_floor proves more, and is what the program calls the floor. O(1).
CKM_API int64_t ckm_dataflow_memory_floor(const ckm_dataflow *df);
// Bytes in use at the end of every schedule: fixed bytes, inputs and results. A percentage "of activations"
// is of the peak without rematerialization less these. O(1).
CKM_API int64_t ckm_dataflow_standing_bytes(const ckm_dataflow *df);

// checkmate-graph JSON, versions 1 and 2 (docs/FORMATS.md); a graph without loads and second memory is written as version 1. Reading
// validates everything; writing goes to a temporary name first and is renamed, "-" is standard output.
CKM_API ckm_status ckm_dataflow_read(const char *path, ckm_dataflow **out, ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_dataflow_parse(const char *text, size_t size_bytes, const char *file_for_errors,
                                      ckm_dataflow **out, ckm_error *err) CKM_NODISCARD;
CKM_API ckm_status ckm_dataflow_write(const ckm_dataflow *df, const char *path, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
