// SPDX-License-Identifier: Apache-2.0
// The stage relaxation with one cut, solved for every budget by maximum flows: with a price on the bytes that are live at the
// cut, what to hold and what to make again is a choice of projects that share tools (closure.h). Each price gives a bound for
// every budget, a straight line; the best of the lines is the bound of the linear program, without its peak and cover cuts.
// Whole numbers throughout, so bounds need no allowance. docs/THEORY.md has the argument.
#ifndef CKM_SRC_SOLVE_BOUNDS_SINGLE_CUT_H
#define CKM_SRC_SOLVE_BOUNDS_SINGLE_CUT_H

#include "base/error.h"
#include "dataflow/dataflow.h"
#include "solve/core/solver.h"
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

// Choosing projects that share tools: a project earns its profit once all of its tools are paid for. The best choice is the
// complement of a maximum flow from projects to tools (J. Picard, Maximal closure of a graph and applications to combinatorial
// problems, Management Science 22, 1976). Whole numbers only.

typedef struct ckm_i_closure {
    int32_t n_projects, n_tools, n_arcs;
    // Tools of project v: arc_tool[project_start[v]] to arc_tool[project_start[v + 1] - 1]. Arcs of tool x:
    // tool_arc[tool_start[x]] on.
    int32_t *project_start, *arc_tool, *arc_project, *tool_start, *tool_arc;
    // Of the flow: what is left of profits and prices, and what goes from projects to tools.
    int64_t *profit_left, *price_left, *flow;
    int32_t *level, *next, *queue, *path;  // projects first, then tools
} ckm_i_closure;

// The lists of tools, by project; each tool at most once in a list. Copies both.
ckm_status ckm_i_closure_create(int32_t n_projects, int32_t n_tools, const int32_t *project_start,
                                const int32_t *arc_tool, ckm_i_closure **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_closure_free(ckm_i_closure *c);

// No choice of projects earns more than *most with these profits (below 0: never chosen) and prices, both of which must
// come to less than 2^62; with enough work (arcs looked at) it is what the best one earns, *chosen (room for every project)
// says which that is, the smallest of several, and the result is true.
bool ckm_i_closure_solve(ckm_i_closure *c, const int64_t *profit, const int64_t *price, int64_t *work, int64_t *most,
                         bool *chosen);

// What single cuts prove (single_cut.h), at once and for graphs of any size, and a schedule out of the best of them.

// Tries places for a cut for about this many seconds, at least one, and hands in what they prove. *rounded is what the best of
// them would hold, for ckm_i_spans_free, or NULL where none proves anything.
ckm_status ckm_i_first_bound(ckm_i_solver *solver, double seconds, ckm_i_spans **rounded, ckm_error *err) CKM_NODISCARD;

// Brings spans within the budget, for at most this many seconds, and hands in the schedule where that works.
ckm_status ckm_i_first_schedule(ckm_i_solver *solver, const ckm_i_spans *spans, double seconds,
                                ckm_error *err) CKM_NODISCARD;

#endif
