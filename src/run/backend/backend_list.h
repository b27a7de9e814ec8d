// SPDX-License-Identifier: Apache-2.0
// The back ends by name. A new one is its folder and its line here: BACKEND(name) stands for the function
// ckm_i_backend_<name>_create.
#ifndef CKM_SRC_RUN_BACKEND_BACKEND_LIST_H
#define CKM_SRC_RUN_BACKEND_BACKEND_LIST_H

#include "run/backend/backend.h"

// clang-format off
#define CKM_I_BACKENDS(BACKEND) \
    BACKEND(cpu)                \
    BACKEND(reference)
// clang-format on

// `threads` > 0. What is created belongs to the caller, who ends it with ckm_i_backend_destroy.
#define CKM_I_DECLARE_BACKEND(name) \
    ckm_status ckm_i_backend_##name##_create(int threads, ckm_i_backend **out, ckm_error *err) CKM_NODISCARD;
CKM_I_BACKENDS(CKM_I_DECLARE_BACKEND)
#undef CKM_I_DECLARE_BACKEND

#endif
