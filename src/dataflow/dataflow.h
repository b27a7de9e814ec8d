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
    int64_t load_bytes;  // of a load: what is read; of others 0
    bool recomputable;
    int32_t n_inputs, n_outputs, n_inplace;
    int32_t *inputs, *outputs;  // inputs as given, repetitions included
    int32_t (*inplace)[2];
} ckm_i_dataflow_op;

// Facts proven of a finished graph, cached. The result does not depend on the caller, so that threads
// may share a graph.
typedef struct ckm_i_dataflow_memo {
    _Atomic int64_t floor_bytes;  // result of ckm_min_budget_floor; -1: not computed yet
} ckm_i_dataflow_memo;

struct ckm_dataflow {
    char *name;
    ckm_cost_unit cost_unit;
    int64_t fixed_bytes;
    int32_t n_tensors, cap_tensors, n_ops, cap_ops, n_results, cap_results;
    ckm_i_dataflow_tensor *tensors;
    ckm_i_dataflow_op *ops;
    int32_t *results;
    char *second_name;  // of the second memory; NULL: there is none
    ckm_second_memory second;
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

// Time of a transfer of `bytes` bytes to the second memory (`out`) or from it, in the graph's unit; false where that is more than
// 63 bits hold.
bool ckm_i_transfer_cost(const ckm_dataflow *df, int64_t bytes, bool out, int64_t *cost);
// Bytes that are read when a tensor with its own storage comes back.
int64_t ckm_i_bytes_in(const ckm_dataflow *df, int32_t tensor);
// Whether an operator loads the tensor.
static inline bool ckm_i_is_loaded(const ckm_dataflow *df, int32_t tensor)
{
    int32_t producer = df->tensors[tensor].producer;
    return producer >= 0 && df->ops[producer].kind == CKM_OP_LOAD;
}
// What finish checks of loads and of the second memory.
ckm_status ckm_i_dataflow_check_second(const ckm_dataflow *df, ckm_error *err) CKM_NODISCARD;

// CKM_ERR_ARGUMENT for a graph that is still being built.
ckm_status ckm_i_dataflow_check_finished(const ckm_dataflow *df, ckm_error *err) CKM_NODISCARD;

// Which tensors are on each storage: those of owner x are members[members_at[x]] to members[members_at[x + 1] - 1]. Room for one a tensor, and
// one more in members_at. O(tensors).
void ckm_i_dataflow_members(const ckm_dataflow *df, int32_t *members_at, int32_t *members);

// In-place pairs of the operator with the most: room for those of any.
size_t ckm_i_most_pairs(const ckm_dataflow *df);

#endif
