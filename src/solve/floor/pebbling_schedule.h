// SPDX-License-Identifier: Apache-2.0
// Schedules of hardly any memory, from the reverse pebble game.
#ifndef CKM_SRC_SOLVE_FLOOR_PEBBLING_SCHEDULE_H
#define CKM_SRC_SOLVE_FLOOR_PEBBLING_SCHEDULE_H

#include <checkmate/schedule.h>

#include "solve/floor/pebbling.h"

// A schedule within `budget_bytes`, from a game in which ckm_i_memory_floor_find has left its findings; *out is NULL when
// `work` units do not find one, or when stop (may be NULL) says so. It recomputes as often as that takes, and first runs
// need not come in the graph's order. Not verified.
ckm_status ckm_i_pebbling_schedule(ckm_i_pebbling *p, int64_t budget_bytes, int64_t work, bool (*stop)(void *context),
                                   void *context, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

#endif
