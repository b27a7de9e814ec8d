// SPDX-License-Identifier: Apache-2.0
// Choosing projects that share tools: a project earns its profit once all of its tools are paid for. The best choice is the
// complement of a maximum flow from projects to tools (J. Picard, Maximal closure of a graph and applications to combinatorial
// problems, Management Science 22, 1976). Whole numbers only.
#ifndef CKM_SRC_SOLVE_BOUNDS_CLOSURE_H
#define CKM_SRC_SOLVE_BOUNDS_CLOSURE_H

#include "base/error.h"

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

#endif
