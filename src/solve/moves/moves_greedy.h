// SPDX-License-Identifier: Apache-2.0
// Schedules that recompute nothing: the run without rematerialization, with moves wherever it takes too much.
#ifndef CKM_SRC_SOLVE_MOVES_MOVES_GREEDY_H
#define CKM_SRC_SOLVE_MOVES_MOVES_GREEDY_H

#include "schedule/schedule.h"

// Where a step takes more than the budget, the storages that rest while it runs are moved out, those first that relieve the most steps
// for the time that they take on the links. All transfers are waited for at once. `can`, by storage, says which can be moved
// (ckm_i_moves_which); what is loaded stays; `moved` receives which are. *out stays NULL where moving all that rests does not do. *lowered, which
// may be NULL, receives the same without the numbers of any stand-in (moves_lift.h). O(moves * steps *
// storages at a step).
ckm_status ckm_i_moves_greedy(const ckm_dataflow *df, const bool *can, int64_t budget_bytes, bool *moved,
                              ckm_schedule **out, ckm_schedule **lowered, ckm_error *err) CKM_NODISCARD;

#endif
