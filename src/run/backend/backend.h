// SPDX-License-Identifier: Apache-2.0
// A back end turns operators of a step graph into kernels, runs them, and owns the memory they work on.
#ifndef CKM_SRC_RUN_BACKEND_BACKEND_H
#define CKM_SRC_RUN_BACKEND_BACKEND_H

#include "graph/training.h"

typedef struct ckm_i_backend ckm_i_backend;
typedef struct ckm_i_kernel ckm_i_kernel;  // of one operator, shapes and attributes fixed; defined per back end

// Exchanges the gradients and running statistics of a step with those of other processes (run/ranks/). All functions block
// as long as they must, and advance other transfers meanwhile.
typedef struct ckm_i_exchange ckm_i_exchange;
struct ckm_i_exchange {
    // Begins to replace these n values with the sum over all ranks, in their order, divided by their number. They must not
    // move or be touched until `end` is called for them.
    ckm_status (*begin)(ckm_i_exchange *x, float *values, int64_t n, ckm_error *err);
    ckm_status (*end)(ckm_i_exchange *x, const float *values, ckm_error *err);
    // Between operators: advances transfers under way, without waiting.
    ckm_status (*advance)(ckm_i_exchange *x, ckm_error *err);
    // A state that an operator is about to change gets the previous rank's value; after the change it goes to the next rank.
    ckm_status (*take_state)(ckm_i_exchange *x, void *state, int64_t bytes, ckm_error *err);
    ckm_status (*give_state)(ckm_i_exchange *x, const void *state, int64_t bytes, ckm_error *err);
    // At the end of a step: the last rank's state for all; then nothing is under way any more.
    ckm_status (*share_state)(ckm_i_exchange *x, void *state, int64_t bytes, ckm_error *err);
    ckm_status (*finish)(ckm_i_exchange *x, ckm_error *err);
};

// What a kernel sees when it runs. Pointers are in the order of the operator's inputs and outputs, NULL for an
// absent optional input or an output that is not read. An output may share its buffer with an input when the
// operator's in-place pairs say so. Results must not depend on which buffers are used, on `workspace`'s
// content, or on whether this is the first computation of the operator in the step or a recomputation.
typedef struct ckm_i_kernel_call {
    const void *const *inputs;
    void *const *outputs;
    void *workspace;  // 64-byte aligned, of the size prepare asked for
    uint64_t seed;    // of the run; with `batch` and `op` the key of counter-based random numbers
    int64_t step;     // training step, from 0: one update of the parameters
    int64_t batch;    // that the operator sees, from 0; the step, where a step has one batch
    int64_t part,
        parts;  // of the step's batches in this process: this one, from 0, and how many; 0 parts stand for one
    ckm_i_exchange *exchange;  // with other processes; NULL: there are none
    int32_t op;                // operator in the step graph
    bool first;                // first computation in this step: running statistics move only then
    double learning_rate;      // for update operators
} ckm_i_kernel_call;

// The memory half of a back end. Addresses are all that anyone else knows of it: what they point to is reached by these
// functions and by kernels only. Work, here and in ckm_i_backend.run, may be done late: in the order in which it was asked
// for, and at the latest when `copy_out` or `synchronize` returns, which also report what went wrong on the way. Host
// memory given to copy_in belongs to the caller again when that returns.
typedef struct ckm_i_memory {
    bool host;          // addresses are the host's own, and nothing is done late: the host may look at any time
    int64_t alignment;  // of buffers, a power of two; at most CKM_I_ALIGNMENT
    // `bytes` > 0 of zeros. `touch`: memory that cannot be had fails here and not when it is used. CKM_ERR_MEMORY.
    ckm_status (*allocate)(ckm_i_backend *backend, int64_t bytes, bool touch, char **out, ckm_error *err);
    void (*release)(ckm_i_backend *backend, char *address, int64_t bytes);  // after all work on it
    ckm_status (*copy_in)(ckm_i_backend *backend, char *to, const void *from, int64_t bytes, ckm_error *err);
    ckm_status (*copy_out)(ckm_i_backend *backend, void *to, const char *from, int64_t bytes, ckm_error *err);
    ckm_status (*clear)(ckm_i_backend *backend, char *to, int64_t bytes, ckm_error *err);  // to zeros
    ckm_status (*synchronize)(ckm_i_backend *backend, ckm_error *err);
    // The time on the back end's clock at which all work asked for before is done; written when `synchronize` returns.
    ckm_status (*mark)(ckm_i_backend *backend, int64_t *nanoseconds, ckm_error *err);
    int64_t (*free_bytes)(ckm_i_backend *backend);  // that can be had; -1: not known
    const struct ckm_i_second_memory
        *second;  // where storages are moved to (run/backend/transfers.h); NULL: there is none
} ckm_i_memory;

struct ckm_i_backend {
    const char *name;  // "cpu", "reference"
    int threads;
    void *state;  // the back end's own (oneDNN engine and stream, thread pool)
    const ckm_i_memory *memory;
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

#endif
