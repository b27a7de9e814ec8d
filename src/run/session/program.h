// SPDX-License-Identifier: Apache-2.0
// A program: the kernels of a step graph.
#ifndef CKM_SRC_RUN_SESSION_PROGRAM_H
#define CKM_SRC_RUN_SESSION_PROGRAM_H

#include <checkmate/run.h>

#include "run/backend/backend.h"

struct ckm_program {
    ckm_training *training;  // borrowed
    ckm_i_backend *backend;  // owned
    int32_t n_ops;
    ckm_i_kernel **kernels;  // by operator; NULL: a view, nothing to compute
    ckm_program_memory memory;
    char *second_memory;  // the folder; NULL: there is none
};

// ckm_program_create; `stop`, which may be NULL, is asked before every kernel and ends it with CKM_ERR_STOPPED.
ckm_status ckm_i_program_create(ckm_training *training, const ckm_program_options *options, ckm_stop_fn stop,
                                void *user, ckm_program **out, ckm_error *err) CKM_NODISCARD;
// Prepares the kernels on a given back end, which belongs to the program from then on, also when this fails.
ckm_status ckm_i_program_create_on(ckm_training *training, ckm_i_backend *backend, ckm_program **out,
                                   ckm_error *err) CKM_NODISCARD;
// Whether its second memory is usable: opens a small one and closes it. Errors: those of opening it.
ckm_status ckm_i_program_try_second_memory(ckm_program *program, ckm_error *err) CKM_NODISCARD;
// Whether all outputs of operator `op` are views, so that there is nothing to compute.
bool ckm_i_program_is_view(const ckm_training *training, int32_t op);

// Size of the huge pages that the system uses by default for large allocations; 0: it does not.
int64_t ckm_i_process_huge_page_bytes(void);
// Returns memory that the C library holds after it was freed to the system. It would stay in the process otherwise: planning and
// preparing kernels free far more than they keep.
void ckm_i_process_give_back(void);

#endif
