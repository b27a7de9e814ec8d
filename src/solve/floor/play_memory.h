// SPDX-License-Identifier: Apache-2.0
// Memory while a game is played forwards: what is locked is there until it is let go; the rest stays until its room is
// needed.
#ifndef CKM_SRC_SOLVE_FLOOR_PLAY_MEMORY_H
#define CKM_SRC_SOLVE_FLOOR_PLAY_MEMORY_H

#include "dataflow/dataflow.h"

typedef struct ckm_i_play_memory {
    const ckm_dataflow *df;
    int64_t budget_bytes;
    int64_t live_bytes, locked_bytes;  // on storages that are not always in memory
    int64_t now;
    int64_t work;                   // spent, in units of the game's
    bool *live;                     // by tensor
    int32_t *locks;                 // by tensor
    int32_t *live_on, *locks_on;    // by storage
    int32_t *members_at, *members;  // tensors by storage
    int64_t *touched;               // by storage: when it was made or read last
    int64_t *read_at;               // by storage: the run that reads it
    double *worth;                  // by tensor: roughly what making it from nothing costs
    int32_t (*pairs)[2];
    int32_t (*chosen)[2];
} ckm_i_play_memory;

ckm_status ckm_i_play_memory_init(ckm_i_play_memory *m, const ckm_dataflow *df, int64_t budget_bytes,
                                  ckm_error *err) CKM_NODISCARD;
void ckm_i_play_memory_dispose(ckm_i_play_memory *m);
// Nothing but the graph's inputs is in memory.
void ckm_i_play_memory_reset(ckm_i_play_memory *m);
// One lock more (by = 1) or less (by = -1) on a tensor in memory.
void ckm_i_play_lock(ckm_i_play_memory *m, int32_t tensor, int32_t by);
// Runs v. What is not locked makes room for it, cheap, large and long unused tensors first; where that is not enough, v
// writes over what it reads. False where an operand is missing or there is no room.
bool ckm_i_play_run(ckm_i_play_memory *m, int32_t v);

// Leaves out computations of what nobody reads before it is computed again, but for the first one of an operator. Returns
// how many are left. Room for the tensors and operators of the graph: `needed`, `runs`.
int64_t ckm_i_play_without_idle_runs(const ckm_dataflow *df, int32_t *order, int64_t n, bool *needed, int32_t *runs);

#endif
