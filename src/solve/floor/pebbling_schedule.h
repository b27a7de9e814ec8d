// SPDX-License-Identifier: Apache-2.0
// Schedules of hardly any memory, from the reverse pebble game.
#ifndef CKM_SRC_SOLVE_FLOOR_PEBBLING_SCHEDULE_H
#define CKM_SRC_SOLVE_FLOOR_PEBBLING_SCHEDULE_H

#include <checkmate/schedule.h>

#include "dataflow/dataflow.h"
#include "solve/floor/pebbling.h"

// How a state is got into memory. None of them is cheapest everywhere.
typedef enum ckm_i_play_manner {
    CKM_I_PLAY_LATE,      // in one pass where there is room; else over its latest operator where that is known to fit
    CKM_I_PLAY_STRAIGHT,  // in one pass where there is room
    CKM_I_PLAY_KNOWN,     // always the way that the search has found
    CKM_I_PLAY_MANNERS
} ckm_i_play_manner;

// A schedule within `budget_bytes`, from a game by ckm_i_pebbling_init_again in which ckm_i_memory_floor_find has left its
// findings: there is one wherever these say that the budget is enough and every operator may run again. What operators
// that run only once make is held, which may take more room than there is. *out is NULL where that is so, when `work`
// units are spent, or when stop (may be NULL) says so. It recomputes as often as that takes; first runs come in the graph's
// order. Not verified.
ckm_status ckm_i_pebbling_schedule(ckm_i_pebbling *p, ckm_i_play_manner manner, int64_t budget_bytes, int64_t work,
                                   bool (*stop)(void *context), void *context, ckm_schedule **out,
                                   ckm_error *err) CKM_NODISCARD;

// Memory while a game is played forwards: what is locked is there until it is let go; the rest stays until its room is
// needed.

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

// Leaves out computations whose outputs are not read before they are computed again, except the first one of an operator. Returns
// how many are left. Room for the tensors and operators of the graph: `needed`, `runs`.
int64_t ckm_i_play_without_idle_runs(const ckm_dataflow *df, int32_t *order, int64_t n, bool *needed, int32_t *runs);

#endif
