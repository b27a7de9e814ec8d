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
};

// ckm_program_create; `stop`, which may be NULL, is asked before every kernel and ends it with CKM_ERR_STOPPED.
ckm_status ckm_i_program_create(ckm_training *training, const ckm_program_options *options, ckm_stop_fn stop,
                                void *user, ckm_program **out, ckm_error *err) CKM_NODISCARD;
// Prepares the kernels on a given back end, which belongs to the program from then on, also when this fails.
ckm_status ckm_i_program_create_on(ckm_training *training, ckm_i_backend *backend, ckm_program **out,
                                   ckm_error *err) CKM_NODISCARD;
// Whether all outputs of operator `op` are views, so that there is nothing to compute.
bool ckm_i_program_is_view(const ckm_training *training, int32_t op);

// Bytes of the pages that the system gives to any memory that is large enough, unasked; 0: it does not.
int64_t ckm_i_process_huge_page_bytes(void);

#endif
