// SPDX-License-Identifier: Apache-2.0
// Schedules of one stand-in as schedules of another.
#ifndef CKM_SRC_SOLVE_MOVES_MOVES_LIFT_H
#define CKM_SRC_SOLVE_MOVES_MOVES_LIFT_H

#include "schedule/schedule.h"
#include "solve/moves/moves_graph.h"

// A schedule without the numbers of any stand-in: tensors and operators are the graph's, and a read of storage x is operator
// n_ops + x. Copies and tokens are left out. Not a legal schedule of anything.
ckm_status ckm_i_moves_lower(const ckm_i_moves_graph *m, const ckm_schedule *from, ckm_schedule **out,
                             ckm_error *err) CKM_NODISCARD;
// The same as a schedule of a stand-in, where every operator that makes a storage which was not read before is followed by a read. NULL
// where the schedule reads what is not chosen here and is not loaded.
ckm_status ckm_i_moves_lift(const ckm_i_moves_graph *m, const ckm_schedule *from, ckm_schedule **out,
                            ckm_error *err) CKM_NODISCARD;

#endif
