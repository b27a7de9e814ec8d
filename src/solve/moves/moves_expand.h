// SPDX-License-Identifier: Apache-2.0
// From a schedule of the stand-in graph to one with transfers.
#ifndef CKM_SRC_SOLVE_MOVES_MOVES_EXPAND_H
#define CKM_SRC_SOLVE_MOVES_MOVES_EXPAND_H

#include "schedule/schedule.h"
#include "solve/moves/moves_graph.h"

// The same steps, where each read becomes a transfer that is waited for at once, but for the first of what is not loaded; the way out
// begins as soon as nothing writes on the storage any more and is waited for where it is freed. Nothing is written in place of what is leaving where the budget
// has room for both. May be illegal where the stand-in's
// schedule does not read right after making: the caller has it checked.
ckm_status ckm_i_moves_expand(const ckm_i_moves_graph *m, const ckm_schedule *from, int64_t budget_bytes,
                              ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

// The same schedule with its transfers spread over time: what leaves is waited for and freed later, what comes back begins earlier, each
// as far as the link needs and the budget allows. `timeline_bytes` is that of `from`.
ckm_status ckm_i_moves_overlap(const ckm_dataflow *df, const ckm_schedule *from, const int64_t *timeline_bytes,
                               int64_t budget_bytes, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;

#endif
