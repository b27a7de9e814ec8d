// SPDX-License-Identifier: Apache-2.0
// A back end turns operators of a step graph into kernels and runs them. One object a back end; cpu/ holds the
// reference kernels in plain C and those on oneDNN.
#ifndef CKM_SRC_RUN_BACKEND_H
#define CKM_SRC_RUN_BACKEND_H

#include "graph/training.h"

typedef struct ckm_i_backend ckm_i_backend;
typedef struct ckm_i_kernel ckm_i_kernel;  // of one operator, shapes and attributes fixed; defined per back end

// What a kernel sees when it runs. Pointers are in the order of the operator's inputs and outputs, NULL for an
// absent optional input or an output nobody reads. An output may share its buffer with an input when the
// operator's in-place pairs say so. Results must not depend on which buffers are used, on `workspace`'s
// content, or on whether this is the first computation of the operator in the step or a recomputation.
typedef struct ckm_i_kernel_call {
    const void *const *inputs;
    void *const *outputs;
    void *workspace;       // 64-byte aligned, of the size prepare asked for
    uint64_t seed;         // of the run; with `step` and `op` the key of counter-based random numbers
    int64_t step;          // training step, from 0
    int32_t op;            // operator in the step graph
    bool first;            // first computation in this step: running statistics move only then
    double learning_rate;  // for update operators
} ckm_i_kernel_call;

struct ckm_i_backend {
    const char *name;  // "cpu", "reference"
    int threads;
    void *state;  // the back end's own (oneDNN engine and stream, thread pool)
    // Prepares operator `op` of `step`; *workspace_bytes is what it needs while it runs. CKM_ERR_UNSUPPORTED,
    // naming kind and operator, when there is no kernel.
    ckm_status (*prepare)(ckm_i_backend *backend, const ckm_graph *step, int32_t op, ckm_i_kernel **out,
                          int64_t *workspace_bytes, ckm_error *err);
    ckm_status (*run)(ckm_i_backend *backend, ckm_i_kernel *kernel, const ckm_i_kernel_call *call, ckm_error *err);
    // Starts the threads that kernels run on and has them touch what they may use of their stacks, so that none of it is
    // new memory in a step; NULL: there are none.
    void (*start)(ckm_i_backend *backend);
    void (*free_kernel)(ckm_i_backend *backend, ckm_i_kernel *kernel);
    void (*destroy)(ckm_i_backend *backend);
};

// Back ends by name: "cpu" (oneDNN where it has a kernel, reference elsewhere) and "reference".
ckm_status ckm_i_backend_create(const char *name, int threads, ckm_i_backend **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_backend_destroy(ckm_i_backend *backend);

// Reference kernels (src/ops/<family>/ref_<group>.c, one table a group): plain C, single precision with the sums a
// reader would write, deterministic. NULL when a kind has none.
typedef struct ckm_i_reference_kernel {
    ckm_i_op_kind kind;
    // Bytes of workspace; NULL: none.
    int64_t (*workspace)(const ckm_i_op_view *v, const ckm_graph *step);
    ckm_status (*run)(const ckm_graph *step, int32_t op, const ckm_i_kernel_call *call, ckm_error *err);
} ckm_i_reference_kernel;
const ckm_i_reference_kernel *ckm_i_reference_find(ckm_i_op_kind kind);

#endif
