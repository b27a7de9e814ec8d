// SPDX-License-Identifier: Apache-2.0
// Dataflow graph, internal view: flat arrays that solvers read directly. Filled by the builder, complete
// and immutable after ckm_dataflow_finish but for the memo.
#ifndef CKM_SRC_DATAFLOW_DATAFLOW_H
#define CKM_SRC_DATAFLOW_DATAFLOW_H

#include <checkmate/dataflow.h>
#include <stdatomic.h>

typedef struct ckm_i_dataflow_tensor {
    char *name;  // never NULL; "t<index>" when none was given
    int64_t bytes;
    int32_t alias_of;  // -1: owns its storage
    int32_t storage;   // owner of its storage: alias_of, or itself
    int32_t producer;  // operator, or -1 for an input
    int32_t n_users;   // operators that read it, ascending, each once
    const int32_t *users;
    bool is_result;
    bool pinned;  // its storage holds an input: always live, counted in resident_bytes
} ckm_i_dataflow_tensor;

typedef struct ckm_i_dataflow_op {
    char *name;             // never NULL; "op<index>" when none was given
    char *module, *source;  // never NULL; "" when none was given
    ckm_op_kind kind;
    int64_t cost, workspace_bytes;
    bool recomputable;
    int32_t n_inputs, n_outputs, n_inplace;
    int32_t *inputs, *outputs;  // inputs as given, repetitions included
    int32_t (*inplace)[2];
} ckm_i_dataflow_op;

// What is proven of a finished graph later on and need not be proven again. The same whoever proves it, so that threads
// may share a graph.
typedef struct ckm_i_dataflow_memo {
    _Atomic int64_t floor_bytes;  // what ckm_min_budget_floor says; -1: nobody has asked
} ckm_i_dataflow_memo;

struct ckm_dataflow {
    char *name;
    ckm_cost_unit cost_unit;
    int64_t fixed_bytes;
    int32_t n_tensors, cap_tensors, n_ops, cap_ops, n_results, cap_results;
    ckm_i_dataflow_tensor *tensors;
    ckm_i_dataflow_op *ops;
    int32_t *results;
    // Set by finish.
    bool finished;
    int32_t *users_pool;
    int64_t n_edges;
    int64_t total_cost;
    int64_t resident_bytes;  // fixed bytes plus every pinned storage: in use at every moment
    int64_t floor_bytes;
    int64_t standing_bytes;  // resident bytes and the results'
    ckm_i_dataflow_memo *memo;
};

// The largest number of bytes an operator's in-place pairs can save: a maximum-weight matching of its
// pairs, each input and each output used at most once, restricted to the `n` pairs given (tensor indices).
// Writes the chosen pairs to `chosen` (room for n) when it is not NULL and their number to *n_chosen.
// Pairs are few; this is exact, by enumeration up to 16 pairs and greedy by bytes beyond.
int64_t ckm_i_inplace_best(const ckm_dataflow *df, const int32_t (*pairs)[2], int32_t n, int32_t (*chosen)[2],
                           int32_t *n_chosen);

// CKM_ERR_ARGUMENT for a graph that is still being built.
ckm_status ckm_i_dataflow_check_finished(const ckm_dataflow *df, ckm_error *err) CKM_NODISCARD;

// In-place pairs of the operator with the most: room for those of any.
size_t ckm_i_most_pairs(const ckm_dataflow *df);

#endif
