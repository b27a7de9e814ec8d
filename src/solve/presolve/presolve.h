// SPDX-License-Identifier: Apache-2.0
// Presolve (docs/THEORY.md): a smaller problem with the same optimum. A graph and a budget become a
// reduced graph with a budget of its own; schedules are mapped in both directions.
#ifndef CKM_SRC_SOLVE_PRESOLVE_PRESOLVE_H
#define CKM_SRC_SOLVE_PRESOLVE_PRESOLVE_H

#include "solve/core/solver.h"

// Reductions of tensors alone keep the optimum of every class of schedules; those of operators, too, that of the classes
// CKM_BOUND_ANY and CKM_BOUND_ORDER.
typedef enum ckm_i_presolve_level {
    CKM_I_PRESOLVE_NONE,
    CKM_I_PRESOLVE_TENSORS,
    CKM_I_PRESOLVE_OPERATORS
} ckm_i_presolve_level;

typedef struct ckm_i_presolve {
    const ckm_dataflow *original;
    ckm_dataflow *reduced;
    int64_t budget_bytes;  // of the reduced graph, in its unit: nothing is always in use there
    // By operator of the reduced graph: the operator it begins with. By tensor of it: the original one.
    int32_t *head, *tensor;
    // By original operator: the reduced operator it is part of, -1 where it is a view that is made when needed; the
    // one that runs right after it, -1; of one that is not the first, the one whose output it reads, -1 where it only
    // has to run at some time; and by reduced operator the one whose runs count.
    int32_t *part_of, *next, *feeds, *tail;
    int32_t *root;  // by original tensor: for one that such a view makes, what it is a view of in the end; else -1
    int32_t n_small, n_views, n_merged, n_dead;  // tensors that cannot bind; operators; outputs that are never read
    int64_t unit_bytes;
} ckm_i_presolve;

// Reduces the problem "cheapest schedule within budget_bytes". *out is NULL when nothing would change.
// O(operators + edges + tensors log tensors).
ckm_status ckm_i_presolve_create(const ckm_dataflow *df, int64_t budget_bytes, ckm_i_presolve_level level,
                                 ckm_i_presolve **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_presolve_free(ckm_i_presolve *p);

// A schedule of the original graph that costs no more than the one of the reduced graph, and is within the budget if that
// one is within its own; computations without use are left out. The schedule must be legal and keep the order. O(steps + operands of what they compute).
ckm_status ckm_i_presolve_map_back(const ckm_i_presolve *p, const ckm_schedule *reduced, ckm_schedule **out,
                                   ckm_error *err) CKM_NODISCARD;
// The other way round: costs no more, and is within the budget if the legal, order-keeping original is.
ckm_status ckm_i_presolve_map_forward(const ckm_i_presolve *p, const ckm_schedule *original, ckm_schedule **out,
                                      ckm_error *err) CKM_NODISCARD;

// Runs the strategy on the reduced problem and hands everything in as found; on the problem itself where nothing can be
// reduced, and strategies that are published heuristics always.
ckm_status ckm_i_presolve_run(ckm_i_solver *solver, const ckm_i_strategy *strategy, ckm_error *err) CKM_NODISCARD;

#endif
