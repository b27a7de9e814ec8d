// SPDX-License-Identifier: Apache-2.0
// Runs a relaxation of windows (window_model.h) in a child process and hands what it proves to the solver.
#ifndef CKM_SRC_SOLVE_BOUNDS_WINDOW_RUN_H
#define CKM_SRC_SOLVE_BOUNDS_WINDOW_RUN_H

#include "milp/milp.h"
#include "solve/bounds/window_model.h"
#include "solve/search/search_state.h"
#include "solve/core/solver.h"

// What is relaxed: schedules of a graph within a budget, those alone that keep the order or all. Bounds for these have to be bounds for
// the solver's problem.
typedef struct ckm_i_window_problem {
    const ckm_dataflow *df;
    int64_t budget_bytes;
    bool is_open;
} ckm_i_window_problem;

// A helper for runs on one problem, which it keeps the address of until it has started; for ckm_i_milp_helper_end().
ckm_status ckm_i_window_helper_start(const ckm_i_window_problem *problem, ckm_i_milp_helper **out,
                                     ckm_error *err) CKM_NODISCARD;

typedef struct ckm_i_window_options {
    const ckm_i_window_problem *problem;
    const int32_t *cuts;  // where schedules are cut, ascending; only read at the start
    int32_t n_cuts;       // more make a larger program and most often a better bound
    bool integer;         // S binary: solutions, and bounds by branch and bound, far tighter where that gets anywhere
    bool branch;          // else: raise the relaxation's bound by branching on how often operators are computed again
    int patience;         // rounds of cutting planes that have to pay together; 0: as many as usual
    bool refine;          // whether the excess is asked for
    double seconds;       // wall time; INFINITY for the solver's own limit only
    ckm_i_milp_helper *helper;  // that runs it; NULL: a child of this process
} ckm_i_window_options;

// What else a run gives.
typedef struct ckm_i_window_found {
    double bound, cost;  // on the program's objective, -INFINITY: none; as a cost
    bool missing;        // there is no engine
    ckm_i_spans
        *rounded;  // what a relaxation would hold, rounded (ckm_i_stage_round), for ckm_i_spans_free; NULL: nothing
    // Where asked for and known, else NULL, for free(): by operator the relaxation's excess over the budget, by cut what is
    // left there (window_model.h).
    double *excess, *slack;
} ckm_i_window_found;

// One relaxation at work, concurrent with what else the caller does. Poll tells at once whether it has ended, and hands
// bounds to the solver as they come; finish waits for the end, hands in the bound, a proof of infeasibility and,
// with `integer`, the schedule found, and releases it; abandon (NULL is fine) ends it.
typedef struct ckm_i_window_run ckm_i_window_run;
ckm_status ckm_i_window_run_start(ckm_i_solver *solver, const ckm_i_window_options *options, ckm_i_window_run **run,
                                  ckm_error *err) CKM_NODISCARD;
bool ckm_i_window_run_poll(ckm_i_solver *solver, ckm_i_window_run *run);
ckm_status ckm_i_window_run_finish(ckm_i_solver *solver, ckm_i_window_run *run, ckm_i_window_found *found,
                                   ckm_error *err) CKM_NODISCARD;
void ckm_i_window_run_abandon(ckm_i_window_run *run);

// Rows of the program with about this many cuts.
int64_t ckm_i_window_rows(const ckm_dataflow *df, int32_t n_cuts);
// The first operator after which a schedule is cut.
int32_t ckm_i_window_first(const ckm_dataflow *df);

// From a point of the stage relaxation to what a schedule holds: for every tensor the stages into which it is held when it is live at the
// cuts where x says so (s >= 1/2): between two uses either all the way, or from the cut on at which it is there again. Peaks between the
// cuts, and where s is fractional, may exceed the budget. *out, freed with ckm_i_spans_free, has n_tensors lists for
// ckm_i_search_take. O(tensors * cuts + edges).
ckm_status ckm_i_stage_round(const ckm_i_window_model *model, const double *x, ckm_i_spans **out,
                             ckm_error *err) CKM_NODISCARD;

#endif
