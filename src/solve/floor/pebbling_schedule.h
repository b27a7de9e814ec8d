// SPDX-License-Identifier: Apache-2.0
// Schedules of hardly any memory, from the reverse pebble game.
#ifndef CKM_SRC_SOLVE_FLOOR_PEBBLING_SCHEDULE_H
#define CKM_SRC_SOLVE_FLOOR_PEBBLING_SCHEDULE_H

#include <checkmate/schedule.h>

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

#endif
