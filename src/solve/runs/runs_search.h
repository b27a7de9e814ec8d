// SPDX-License-Identifier: Apache-2.0
// Annealing on sequences of runs. Where a budget is close to the memory floor, what a stage runs again must itself run things
// again, in an order of its own, and no frontier-advancing schedule may fit.
#ifndef CKM_SRC_SOLVE_RUNS_RUNS_SEARCH_H
#define CKM_SRC_SOLVE_RUNS_RUNS_SEARCH_H

#include "solve/core/solver.h"

// Whether a graph is small enough for it, and anything may run again.
bool ckm_i_runs_are_possible(const ckm_dataflow *df);
typedef struct ckm_i_runs_options {
    bool keeps_order;       // first runs stay in the graph's order; else any schedule will do
    double seconds;         // wall time
    double search_seconds;  // and as long as nothing fits, at least so many
    int64_t states;         // changes tried at most; 0: no limit
    int64_t least_bytes;    // > 0: looks for sequences of ever smaller peak instead, down to this, whatever they cost
} ckm_i_runs_options;

// Searches from the solver's best schedule, if it is of the class; else, and where the order is kept, from the run without
// rematerialization. Hands in what it finds on the way, and in the end, where nothing fits, what is nearest. Ends at its limits or when the solver should stop.
ckm_status ckm_i_runs_search(ckm_i_solver *solver, const ckm_i_runs_options *options, ckm_error *err) CKM_NODISCARD;

#endif
