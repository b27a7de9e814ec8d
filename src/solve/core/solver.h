// SPDX-License-Identifier: Apache-2.0
// What a strategy sees: the problem, the limits, and a place to hand in what it finds. A strategy is a
// file with a const ckm_i_strategy, listed in strategies/solve_registry.h.
#ifndef CKM_SRC_SOLVE_CORE_SOLVER_H
#define CKM_SRC_SOLVE_CORE_SOLVER_H

#include <checkmate/solve.h>

#include "dataflow/dataflow.h"
#include "schedule/stages.h"
#include "solve/core/bound_lines.h"
#include "solve/core/component.h"

enum {
    // Solvers make progress on the paper's integer program up to about this many operators: presolve, which its proofs do not
    // survive, merges none of them as a rule.
    CKM_I_ILP_MAX_OPS = 130,
    // Without a limit, searches that know no end of their own give themselves this long.
    CKM_I_DEFAULT_SECONDS = 60,
};

typedef struct ckm_i_strategy {
    const char *name;
    const char *summary;  // one line for a person
    // Runs until it is done or ckm_i_solver_should_stop says so; hands in schedules and bounds on the way.
    ckm_status (*run)(ckm_i_solver *solver, ckm_error *err);
    // What the rest of the solver has to know about it. A strategy that sets none of these is run on the graph as it is and
    // answers for what it finds. No code compares names.
    bool is_published;      // one of the heuristics that the paper compares with, and its accounting is meant for
    bool only_bounds;       // gives no schedule
    bool has_formulations;  // looks at options->formulation
    bool wants_reduced;     // runs on the presolved problem
    bool merges_operators;  // with operators merged however few they are: it proves nothing of class CKM_BOUND_FRONTIER
    bool is_thorough;       // where it finds nothing, a second goes into what would fit
    bool takes_any_schedule;  // a schedule of whatever class and from whatever source counts as its own
    bool begins_plain;        // may be given the run without rematerialization to begin with
    bool owns_plain;          // and is: it counts as its own
    bool reorders_by_search;  // with the order of the operators open, local search runs in its place
    bool reorders_whole;      // and then runs as a whole on the best order of a small graph
} ckm_i_strategy;

// The problem that was given, as seen from one that presolve has made from it: its graph, and work on it. What makes the
// smaller problem sets this, and alone maps between the two.
typedef struct ckm_i_given {
    const ckm_dataflow *df;  // NULL: the solver's own problem is the given one
    ckm_status (*run)(void *context, ckm_status (*work)(ckm_i_solver *given, ckm_error *err), ckm_error *err);
    void *context;
} ckm_i_given;

struct ckm_i_solver {
    const ckm_dataflow *df;
    const ckm_solve_options *options;
    ckm_i_accounts *accounts;  // NULL: none are kept
    // On ckm_i_clock_seconds, INFINITY: none. Set by core/solver_time.c alone.
    double start_seconds, deadline_seconds;
    double give_up_seconds;  // the deadline as long as nothing is found
    int64_t budget_bytes;
    // Best so far, maintained by the functions below.
    ckm_schedule *best_schedule;         // NULL: none fits yet
    ckm_i_stages *best_stages;           // its matrices when it was handed in as such, else NULL
    int64_t best_cost, best_peak_bytes;  // -1: none
    // What is known to fit: the least peak of everything handed in, over budget or not, -1; while nothing is within the budget,
    // the schedule of least peak that was handed in as a list of steps, NULL; whether smaller ones have been searched for.
    int64_t least_peak_bytes;
    ckm_schedule *least_schedule;
    int64_t least_schedule_peak_bytes;
    bool looked_for_least;
    bool knows_plain;    // the run without rematerialization has been handed in
    bool began_quickly;  // the strategies that take no time have been at work on the budget
    char best_source[64];
    ckm_bound_class best_class;  // the narrowest class that the best schedule belongs to
    double bound_cost;           // the largest of all handed in; NAN: none
    ckm_bound_class bound_covers;
    bool infeasible;                    // of a class of schedules; one of a wider class may be found all the same
    ckm_bound_class infeasible_covers;  // that class
    // An operator may stand for several, so that the class CKM_BOUND_FRONTIER is another one here: claims for it are ignored.
    bool operators_merged;
    // Where bounds for other budgets go, and a schedule of another budget that keeps the order, which may be over this one and
    // is worth a look; NULL: nowhere, none.
    ckm_i_bound_lines *lines;
    const ckm_schedule *hint;
    bool proven_elsewhere;  // bounds come from other budgets: the time is for search
    bool is_near_floor;     // the budget is so close to the memory floor that search on S may find nothing
    bool may_find_nothing;  // the same, less close
    int32_t n_runs_searches;
    // Concurrent work in another process, which ckm_i_solver_attend() lets go on.
    void (*background)(void *context);  // may be NULL
    void *background_context;
    ckm_i_given given;      // the problem that this one was made from, if it was
    bool is_answered;       // a schedule is known there that has no counterpart here
    double latest_seconds;  // of the clock above: no slice ends later
};

// Nothing is known yet; the clock runs, without a deadline. Dispose frees the best schedule.
void ckm_i_solver_init(ckm_i_solver *solver, const ckm_dataflow *df, const ckm_solve_options *options,
                       int64_t budget_bytes);
void ckm_i_solver_dispose(ckm_i_solver *solver);
// The clock of a whole solve: it begins now and ends after this many seconds, or never for 0. Work that does not end by then
// is over 0.8 s later.
void ckm_i_solver_set_limit(ckm_i_solver *solver, double seconds);
// The clock of a solve within another one, which gets a slice of the outer one's.
void ckm_i_solver_set_slice(ckm_i_solver *inner, const ckm_i_solver *outer, double until_seconds);
// From begin to end, which is given what begin returned, another deadline holds. INFINITY: as late as the solve may end.
typedef struct ckm_i_limits {
    double deadline_seconds, give_up_seconds;
} ckm_i_limits;
ckm_i_limits ckm_i_solver_begin_slice(ckm_i_solver *solver, double until_seconds, double give_up_seconds) CKM_NODISCARD;
void ckm_i_solver_end_slice(ckm_i_solver *solver, ckm_i_limits before);
// How far the best schedule is above the bound, relative to the bound; NAN where either is missing.
double ckm_i_solver_gap(const ckm_i_solver *solver);
// Time is up, the caller wants to stop, or the gap is closed: the one test for stopping. Asks, and changes nothing.
bool ckm_i_solver_should_stop(const ckm_i_solver *solver);
// The same as a function for others to ask; `solver` is one.
bool ckm_i_solver_stops(void *solver);
// What the caller wants alone, for what goes on after the deadline or where the gap is closed.
bool ckm_i_solver_is_told_to_stop(const ckm_i_solver *solver);
// So does this, until a point in time of its own; `slice` is a ckm_i_slice.
typedef struct ckm_i_slice {
    const ckm_i_solver *solver;
    double until_seconds;  // on ckm_i_clock_seconds
} ckm_i_slice;
bool ckm_i_slice_is_over(void *slice);
// The deadline; where there is none, CKM_I_DEFAULT_SECONDS from the start. And how long it is until then, at least 0.
double ckm_i_solver_end(const ckm_i_solver *solver);
double ckm_i_solver_seconds_left(const ckm_i_solver *solver);
// Runs `work` as such a slice.
ckm_status ckm_i_solver_run_until(ckm_i_solver *solver, double until_seconds,
                                  ckm_status (*work)(ckm_i_solver *solver, ckm_error *err),
                                  ckm_error *err) CKM_NODISCARD;
// Runs `work` to its end where no schedule is known, else as late as the solve may end: for one schedule in linear time, as a late
// answer is better than none. The only work that no limit ends.
ckm_status ckm_i_solver_run_to_end(ckm_i_solver *solver, ckm_status (*work)(ckm_i_solver *solver, ckm_error *err),
                                   ckm_error *err) CKM_NODISCARD;
// Work on the problem as it was given, for schedules that a smaller one has no counterpart of: those that do not keep the order.
// Within the solver's own deadline; what it finds counts there.
const ckm_dataflow *ckm_i_solver_given_df(const ckm_i_solver *solver);
ckm_status ckm_i_solver_run_given(ckm_i_solver *solver, ckm_status (*work)(ckm_i_solver *given, ckm_error *err),
                                  ckm_error *err) CKM_NODISCARD;
// Until when what is worth being late for may go on: the deadline, or this many seconds from now, at most 0.8 s after it and never
// after the latest end of the solve.
double ckm_i_solver_late_until(const ckm_i_solver *solver, double seconds);
// Lets concurrent work go on: it hands in the bounds and schedules that it has and starts what is next.
// For strategies that have such work: often, by the thread that hands in, before asking whether to stop.
void ckm_i_solver_attend(ckm_i_solver *solver);
// Hands in the matrices of a candidate: S is completed in place (ckm_i_stages_complete), cost and peak are
// computed; when it fits the budget and is cheaper than the best, it is emitted, verified independently and
// kept. *cost and *peak_bytes (may be NULL) receive its figures. CKM_ERR_INTERNAL when the verifier disagrees.
ckm_status ckm_i_solver_offer(ckm_i_solver *solver, ckm_i_stages *stages, const char *source, int64_t *cost,
                              int64_t *peak_bytes, ckm_error *err) CKM_NODISCARD;
// The same for a list of steps. Takes ownership of *schedule, which is NULL afterwards, on any status. *facts (may be NULL)
// receives what its simulation gives.
ckm_status ckm_i_solver_offer_schedule(ckm_i_solver *solver, ckm_schedule **schedule, const char *source,
                                       ckm_simulation *facts, ckm_error *err) CKM_NODISCARD;
// Takes note of a schedule as one that is known to fit its own peak, which it is not handed in for: the strategy may answer for
// a class that it does not belong to. CKM_ERR_INTERNAL when the verifier refuses it.
ckm_status ckm_i_solver_note_least(ckm_i_solver *solver, const ckm_schedule *schedule, ckm_error *err) CKM_NODISCARD;
// The same for its peak alone, which is known from its matrices.
void ckm_i_solver_note_peak(ckm_i_solver *solver, int64_t peak_bytes);
// Hands in the run without rematerialization, where that has not been done before. *facts (may be NULL) receives what its simulation
// gives, the first time.
ckm_status ckm_i_solver_offer_plain(ckm_i_solver *solver, ckm_simulation *facts, ckm_error *err) CKM_NODISCARD;
// Hands in a lower bound on the cost under the budget for a class of schedules, proven in our own arithmetic: an engine's
// objective, bound or status proves nothing. Bounds for a wider class (any > order > frontier) are kept over narrower
// ones unless the narrower is larger.
void ckm_i_solver_bound(ckm_i_solver *solver, double bound_cost, ckm_bound_class covers, const char *source);
// Hands in a proof that no schedule of the class fits.
void ckm_i_solver_infeasible(ckm_i_solver *solver, ckm_bound_class covers, const char *source);
// The bound as it is told to others: never above the cost of the best schedule. A bound for a narrower class than the
// schedule's can be, and then nothing in its class is cheaper than the schedule.
double ckm_i_solver_told_bound(const ckm_i_solver *solver);
// A bound on the cost rounded up to the next multiple of the costs' gcd, short of 1e-9 of it so that rounding
// errors of engines cannot push it over.
double ckm_i_cost_round_up(double bound_cost, int64_t cost_gcd);
void ckm_i_solver_log(const ckm_i_solver *solver, ckm_log_level level, const char *format, ...) CKM_PRINTF(3, 4);

// The strategy of this name, the first of the list for NULL; NULL when there is none.
const ckm_i_strategy *ckm_i_strategy_find(const char *name);

#endif
