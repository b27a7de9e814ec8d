// SPDX-License-Identifier: Apache-2.0
// Schedules of the reverse pebble game: they need hardly more memory than any, and cost what they cost.
#ifndef CKM_SRC_SOLVE_RUNS_PEBBLING_PLAY_H
#define CKM_SRC_SOLVE_RUNS_PEBBLING_PLAY_H

#include "solve/core/solver.h"
#include "solve/floor/memory_floor.h"

// Hands in the game's schedule for the budget, where it finds one.
ckm_status ckm_i_offer_pebbling(ckm_i_solver *solver, ckm_error *err) CKM_NODISCARD;

// The game's schedules for the budget itself, where that is not refuted; else its smallest, where there is a time until when that is
// looked for, which is not INFINITY. Where one for the budget is found, others until `more_until`.
ckm_status ckm_i_play_pebbling(ckm_i_solver *solver, bool takes_any, double smallest_until, double more_until,
                               ckm_error *err) CKM_NODISCARD;

// Hands in a schedule. A strategy that answers for a class of schedules need not take it, as it may belong to none: then it is
// only known to fit.
ckm_status ckm_i_take_least(ckm_i_solver *solver, const ckm_schedule *schedule, const char *source, bool takes_any,
                            ckm_error *err) CKM_NODISCARD;

// A schedule of hardly any memory: at the budgets the game believes in and a little above, the first that it can write
// out; *out is NULL when there is none below `below_bytes`. `work` units at most for each. The game is
// one in which every operator may run again.
ckm_status ckm_i_pebbling_least(ckm_i_pebbling *p, int64_t enough_bytes, int64_t below_bytes, int64_t work,
                                ckm_stop_fn stop, void *user, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

#endif
