// SPDX-License-Identifier: Apache-2.0
// The training graph as a picture of blocks.
#ifndef CKM_SRC_EMIT_EMIT_LANES_H
#define CKM_SRC_EMIT_EMIT_LANES_H

#include <checkmate/emit.h>

// `facts` may be NULL: colours are then by kind.
ckm_status ckm_i_lanes_draw(const ckm_dataflow *df, const ckm_emit_facts *facts, const char *path,
                            ckm_error *err) CKM_NODISCARD;

#endif
