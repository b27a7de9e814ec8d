// SPDX-License-Identifier: Apache-2.0
// What every schedule needs, whatever it recomputes and in which order: ckm_dataflow_memory_floor strengthened by the
// reverse pebble game (docs/THEORY.md).
#ifndef CKM_SRC_SOLVE_FLOOR_MEMORY_FLOOR_H
#define CKM_SRC_SOLVE_FLOOR_MEMORY_FLOOR_H

#include "solve/floor/pebbling.h"

typedef struct ckm_i_memory_floor_options {
    int64_t work;        // units: slots of sets looked at, some 10 to 20 million a second
    int64_t stop_above;  // a floor above this will do; INT64_MAX: as high as the work allows
} ckm_i_memory_floor_options;

typedef struct ckm_i_memory_floor_result {
    int64_t floor_bytes;   // proven: no schedule needs less
    int64_t enough_bytes;  // found to be enough, without a schedule to show for it; >= floor_bytes
} ckm_i_memory_floor_result;

// Work for a floor on the way to something else, and where it is what is asked for; less where there is a time limit
// (seconds of wall time, <= 0 for none) of which it would take more than a tenth or so. Depends on no clock.
#define CKM_I_MEMORY_FLOOR_BRIEF INT64_C(6000000)
#define CKM_I_MEMORY_FLOOR_LONG INT64_C(100000000)
int64_t ckm_i_memory_floor_work(int64_t most, double time_limit_seconds);

// Fills p->low_bytes and p->high_bytes on the way. `p` is fresh, or from an earlier call, which is then continued.
ckm_status ckm_i_memory_floor_find(ckm_i_pebbling *p, const ckm_i_memory_floor_options *options,
                                   ckm_i_memory_floor_result *out, ckm_error *err) CKM_NODISCARD;

// After ckm_i_memory_floor_find in a game where every operator may run again: looks for a way to play it within a budget,
// which may be less than what was found to be enough.
ckm_status ckm_i_memory_floor_aim(ckm_i_pebbling *p, int64_t budget_bytes, int64_t work, bool *fits,
                                  ckm_error *err) CKM_NODISCARD;

// A game and ckm_i_memory_floor_find in one call. With a second memory the floor is what single operators and the
// results need, and nothing is found to be enough (INT64_MAX).
ckm_status ckm_i_memory_floor(const ckm_dataflow *df, const ckm_i_memory_floor_options *options,
                              ckm_i_memory_floor_result *out, ckm_error *err) CKM_NODISCARD;

// The floor of a graph, the same for every caller: CKM_I_MEMORY_FLOOR_BRIEF of work, once; the graph remembers it.
ckm_status ckm_i_memory_floor_of(const ckm_dataflow *df, int64_t *floor_bytes, ckm_error *err) CKM_NODISCARD;

// What must be in memory when operators run for the last time (docs/THEORY.md).

// A memory that every schedule needs: the most, over sets of operators, of what the last run of any of them takes, at least, in addition to
// what then separates all that they make from the results. Raises *floor_bytes where it is more, to within a thousandth, with so
// much work (arcs looked at). O(sets tried * operators * maximum flow) at most.
ckm_status ckm_i_last_runs(ckm_i_pebbling *p, int64_t work, int64_t *floor_bytes, ckm_error *err) CKM_NODISCARD;

#endif
