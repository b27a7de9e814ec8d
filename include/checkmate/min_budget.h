// SPDX-License-Identifier: Apache-2.0
// The smallest budget that any schedule fits.
#ifndef CHECKMATE_MIN_BUDGET_H
#define CHECKMATE_MIN_BUDGET_H

#include <checkmate/base.h>
#include <checkmate/dataflow.h>
#include <checkmate/schedule.h>
#include <checkmate/solve.h>

#ifdef __cplusplus
extern "C" {
#endif

// floor_bytes <= lower_bound_bytes <= budget_bytes: proven for every schedule, proven for a class of them, known to be enough.
typedef struct ckm_min_budget_result {
    ckm_solve_status status;       // optimal: budget_bytes is lower_bound_bytes; feasible otherwise
    int64_t budget_bytes;          // the peak of `schedule`
    int64_t lower_bound_bytes;     // proven: no schedule of the class needs less
    ckm_bound_class bound_covers;  // that class; where it is CKM_BOUND_ANY, lower_bound_bytes is floor_bytes
    int64_t floor_bytes;           // proven: no schedule at all needs less
    ckm_schedule *schedule;        // verified; its cost was not minimised
    double seconds;
} ckm_min_budget_result;

// News: a schedule of a smaller peak, or a proof of a higher floor. `so_far` is what the result would be now, without the schedule.
typedef void (*ckm_min_budget_fn)(const ckm_min_budget_result *so_far, void *user);

// First the reverse pebble game (docs/THEORY.md): a lower bound for every schedule, and where it can
// be written out a schedule that reaches it. Then bisects between the bound and the smallest peak known, with
// `options->strategy` asked for any schedule at all within each budget; its proofs that none fits raise the bound. Where
// tries run out of time, all are made again with twice as much. Of the options, budget_bytes, cost_limit and progress are
// ignored; the time limit is for everything. There always is a schedule, the one without rematerialization at
// least. Of graphs with a second memory schedules may move, too: those that move all that rests come first, and the lower bound
// is ckm_dataflow_memory_floor, which no move escapes. `report` may be NULL. `result` is filled on CKM_OK; release with
// ckm_min_budget_result_dispose. Errors: those of ckm_solve.
CKM_API ckm_status ckm_min_budget(const ckm_dataflow *df, const ckm_solve_options *options, ckm_min_budget_fn report,
                                  ckm_min_budget_result *result, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_min_budget_result_dispose(ckm_min_budget_result *result);

// The memory floor, what every schedule needs, with any recomputation in any order: ckm_dataflow_memory_floor
// strengthened by the reverse pebble game (docs/THEORY.md), which is invalid for moves and is left out where there is a second memory.
// The game is given a fixed amount of work,
// so that the result repeats; ckm_solve may prove more, and ckm_min_budget often does. O(edges log edges) and that
// work, some 0.1 s together for 50,000 operators; at most 8,192 operators of which some run only once take
// O(operators * edges) in addition. Errors: memory.
CKM_API ckm_status ckm_min_budget_floor(const ckm_dataflow *df, int64_t *floor_bytes, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
