// SPDX-License-Identifier: Apache-2.0
// The region of memory that a session lives in.
#ifndef CKM_SRC_RUN_SESSION_SESSION_REGION_H
#define CKM_SRC_RUN_SESSION_SESSION_REGION_H

#include "dataflow/dataflow.h"
#include "run/session/session.h"

// Where everything outside the arena lives: offsets by storage owner (-1 for what is in the arena), and their end, a
// multiple of the alignment. `offsets` has room for one a tensor; NULL when only the end is wanted.
ckm_status ckm_i_region_lay_out(const ckm_dataflow *df, int64_t *offsets, int64_t *end, ckm_error *err) CKM_NODISCARD;
int64_t ckm_i_region_page_bytes(void);

#endif
