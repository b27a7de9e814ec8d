// SPDX-License-Identifier: Apache-2.0
// Runs the stage relaxation (stage_model.h) in a child process and hands what it proves to the solver.
#ifndef CKM_SRC_SOLVE_BOUNDS_STAGE_BOUND_H
#define CKM_SRC_SOLVE_BOUNDS_STAGE_BOUND_H

#include "milp/milp.h"
#include "solve/search/search_state.h"
#include "solve/core/solver.h"

typedef struct ckm_i_stage_options {
    const int32_t *cuts;  // where schedules are cut, ascending; only read at the start
    int32_t n_cuts;       // more make a larger program and most often a better bound
    bool integer;         // S binary: solutions, and bounds by branch and bound, far tighter where that gets anywhere
    bool branch;          // else: raise the relaxation's bound by branching on how often operators are computed again
    int patience;         // rounds of cutting planes that have to pay together; 0: as many as usual
    bool refine;          // whether the excess is asked for
    double seconds;       // wall time; INFINITY for the solver's own limit only
    ckm_i_milp_helper *helper;  // that runs it; NULL: a child of this process
} ckm_i_stage_options;

// A helper for runs on one problem, both of which it keeps the address of until it has started; for
// ckm_i_milp_helper_end().
typedef struct ckm_i_stage_problem {
    const ckm_dataflow *df;
    int64_t budget_bytes;
} ckm_i_stage_problem;
ckm_status ckm_i_stage_helper_start(const ckm_i_stage_problem *problem, ckm_i_milp_helper **out,
                                    ckm_error *err) CKM_NODISCARD;

// What else a run gives.
typedef struct ckm_i_stage_found {
    double bound;          // on the program's objective; -INFINITY: none
    ckm_i_spans *rounded;  // what a relaxation would hold, rounded (stage_round.h), for ckm_i_spans_free; NULL: nothing
    // Where asked for and known, else NULL, for free(): by operator the relaxation's excess over the budget, by cut what is
    // left there (stage_excess.h).
    double *excess, *slack;
} ckm_i_stage_found;

// One relaxation at work, beside whatever else the caller does. Poll tells at once whether it has ended, and hands
// bounds to the solver as they come; finish waits for the end, hands in the bound, a proof of infeasibility and,
// with `integer`, the schedule found, and releases it; abandon (NULL is fine) ends it.
typedef struct ckm_i_stage_run ckm_i_stage_run;
ckm_status ckm_i_stage_run_start(ckm_i_solver *solver, const ckm_i_stage_options *options, ckm_i_stage_run **run,
                                 ckm_error *err) CKM_NODISCARD;
bool ckm_i_stage_run_poll(ckm_i_solver *solver, ckm_i_stage_run *run);
ckm_status ckm_i_stage_run_finish(ckm_i_solver *solver, ckm_i_stage_run *run, ckm_i_stage_found *found,
                                  ckm_error *err) CKM_NODISCARD;
void ckm_i_stage_run_abandon(ckm_i_stage_run *run);

// Rows of the program with so many cuts, about.
int64_t ckm_i_stage_rows(const ckm_dataflow *df, int32_t n_cuts);
// The first operator after which a schedule is cut.
int32_t ckm_i_stage_first(const ckm_dataflow *df);

#endif
