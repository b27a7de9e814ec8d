// SPDX-License-Identifier: Apache-2.0
// The back end that runs every operator with its reference kernel.
#ifndef CKM_SRC_RUN_CPU_REFERENCE_BACKEND_H
#define CKM_SRC_RUN_CPU_REFERENCE_BACKEND_H

#include "run/backend/backend.h"

ckm_status ckm_i_backend_reference_create(int threads, ckm_i_backend **out, ckm_error *err) CKM_NODISCARD;

#endif
