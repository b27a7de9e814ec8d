// SPDX-License-Identifier: Apache-2.0
// The stage relaxation with one cut, solved for every budget by maximum flows: with a price on the bytes that are live at the
// cut, what to hold and what to make again is a choice of projects that share tools (closure.h). Each price gives a bound for
// every budget, a straight line; the best of the lines is the bound of the linear program, without its peak and cover cuts.
// Whole numbers throughout, so bounds need no allowance. docs/BOUNDS.md has the argument.
#ifndef CKM_SRC_SOLVE_BOUNDS_SINGLE_CUT_H
#define CKM_SRC_SOLVE_BOUNDS_SINGLE_CUT_H

#include "dataflow/dataflow.h"
#include "solve/search/search_state.h"

typedef struct ckm_i_single_cut ckm_i_single_cut;

// A cut right after the first computation of operator `cut`. last_need is that of ckm_i_last_need(). The graph is read while
// the cut is in use. O(operators + edges).
ckm_status ckm_i_single_cut_create(const ckm_dataflow *df, const int32_t *last_need, int32_t cut,
                                   ckm_i_single_cut **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_single_cut_free(ckm_i_single_cut *c);

// No schedule that keeps the order and fits the budget costs less than *bound_cost. Solves what it takes to come to the best, with so much
// work in all; what has been solved for other budgets counts.
ckm_status ckm_i_single_cut_bound(ckm_i_single_cut *c, int64_t budget_bytes, int64_t work, int64_t *bound_cost,
                                  ckm_error *err) CKM_NODISCARD;

// What the solution for the last budget would hold, for ckm_i_spans_free, like ckm_i_stage_round().
ckm_status ckm_i_single_cut_round(ckm_i_single_cut *c, int64_t budget_bytes, ckm_i_spans **out,
                                  ckm_error *err) CKM_NODISCARD;

#endif
