// SPDX-License-Identifier: Apache-2.0
// The memory of back ends that compute on the host.
#ifndef CKM_SRC_RUN_BACKEND_HOST_MEMORY_H
#define CKM_SRC_RUN_BACKEND_HOST_MEMORY_H

#include "run/backend/backend.h"

extern const ckm_i_memory ckm_i_host_memory;

#endif
