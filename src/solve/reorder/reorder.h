// SPDX-License-Identifier: Apache-2.0
// First-execution order as a decision (docs/SOLVER.md): a search over topological orders, graphs permuted
// into such an order, and solving on them.
#ifndef CKM_SRC_SOLVE_REORDER_REORDER_H
#define CKM_SRC_SOLVE_REORDER_REORDER_H

#include "solve/core/solver.h"

// An order is a permutation of the operators: order[i] is the one that runs i-th. It is topological when every
// operator comes after the producers of its inputs.

// Peak of the run without rematerialization in `order`, in-place pairs used wherever they may be: what
// ckm_schedule_baseline gives on the permuted graph. CKM_ERR_ARGUMENT when the order is not topological.
// O(sum over operands of their users).
ckm_status ckm_i_order_peak(const ckm_dataflow *df, const int32_t *order, int64_t *peak_bytes,
                            ckm_error *err) CKM_NODISCARD;

// List scheduling: of the operators that are ready, the one that adds the least memory, where an operand that
// others still read counts as partly freed. `noise` > 0 blurs the choice by that fraction of the mean size.
ckm_status ckm_i_order_greedy(const ckm_dataflow *df, double noise, uint64_t seed, int32_t *order,
                              ckm_error *err) CKM_NODISCARD;

typedef struct ckm_i_order_options {
    int64_t target_bytes;  // done when the peak is at most this
    double seconds;        // wall time
    int64_t moves;         // > 0: this many moves instead of seconds, which makes runs repeatable
    uint64_t seed;
    double heat;               // start temperature in mean tensor sizes; 0: one that suits most graphs
    bool (*stop)(void *user);  // may be NULL
    void *user;
} ckm_i_order_options;

// Simulated annealing from a topological order: operators move within the window their operands and users leave
// them. Minimises the sum, over the run, of the bytes above the target: what rematerialization would have to make
// up for. Leaves the best order found in `order`.
ckm_status ckm_i_order_anneal(const ckm_dataflow *df, const ckm_i_order_options *options, int32_t *order,
                              int64_t *peak_bytes, ckm_error *err) CKM_NODISCARD;

// The same for the peak itself: lowers the target step by step, down to options->target_bytes.
ckm_status ckm_i_order_lower_peak(const ckm_dataflow *df, const ckm_i_order_options *options, int32_t *order,
                                  int64_t *peak_bytes, ckm_error *err) CKM_NODISCARD;

// The same graph with its operators in `order`; tensors keep their indices.
ckm_status ckm_i_reorder_permute(const ckm_dataflow *df, const int32_t *order, ckm_dataflow **out,
                                 ckm_error *err) CKM_NODISCARD;
// A schedule of the permuted graph as one of the original.
ckm_status ckm_i_reorder_map_back(const ckm_schedule *permuted, const int32_t *order, ckm_schedule **out,
                                  ckm_error *err) CKM_NODISCARD;
// The order of first computations of a legal schedule.
ckm_status ckm_i_reorder_first_order(const ckm_schedule *schedule, int32_t n_ops, int32_t *order,
                                     ckm_error *err) CKM_NODISCARD;

// Another order for all computations of a legal schedule, recomputations included, by annealing under `options`.
// Costs the same; its peak is not checked.
ckm_status ckm_i_reorder_schedule(const ckm_dataflow *df, const ckm_schedule *schedule,
                                  const ckm_i_order_options *options, ckm_schedule **out, ckm_error *err) CKM_NODISCARD;
// The matrices, on the graph permuted into `order`, of a schedule of the original whose first computations come in
// that order: what it holds between them. Completed; they may cost and peak differently.
ckm_status ckm_i_reorder_stages(const ckm_dataflow *permuted, const int32_t *order, const ckm_schedule *schedule,
                                ckm_i_stages **out, ckm_error *err) CKM_NODISCARD;

// Runs `strategy`, or `search` where that is what it is reordered by, in several orders, the graph's own among them, and
// hands everything in as schedules of the graph. Bounds found on the way count only when they cover any order.
ckm_status ckm_i_reorder_run(ckm_i_solver *solver, const ckm_i_strategy *strategy, const ckm_i_strategy *search,
                             ckm_error *err) CKM_NODISCARD;

#endif
