// SPDX-License-Identifier: Apache-2.0
// A schedule as a bare sequence of runs, any operator any number of times, and what follows from it: what is in memory
// during each run, cost, and bytes over the budget. Reads are from the run before; a tensor is held from the run that makes
// it to its last reading before it is made again. A run that is never read is left out, unless it is the first of its
// operator. First runs keep the graph's order.
//
// A change drops some runs and puts a chain of others in before one place. It is legal where what goes in finds its operands
// made by some run before, since they are then held if they are not made again, and where no first run is dropped whose
// outputs are read before the operator runs again. Trying one goes back from its last place to where as much is held as
// before.
//
// Keeping the order, no first run is dropped or moved. Otherwise a first run that is not read before the operator runs again is left
// out like any other, and the operator runs for the first time later.
#ifndef CKM_SRC_SOLVE_RUNS_RUNS_H
#define CKM_SRC_SOLVE_RUNS_RUNS_H

#include "base/rng.h"
#include "dataflow/dataflow.h"
#include "solve/core/solver.h"

enum { CKM_I_RUNS_MAX_DROPPED = 1024, CKM_I_RUNS_MAX_CHAIN = 400 };

// Runs by place, and one place more: the end.
typedef struct ckm_i_runs_list {
    int32_t *op;
    int64_t *used;     // bytes in use during the run
    int64_t *held;     // bytes of what is held when it begins
    uint64_t *needed;  // rows: the tensors held then
} ckm_i_runs_list;

typedef struct ckm_i_runs {
    const ckm_dataflow *df;
    int64_t budget_bytes;
    bool keeps_order;
    int32_t words;  // of a row
    int32_t cap, n;
    ckm_i_runs_list at;
    int64_t cost, excess;  // excess: bytes over the budget, summed over runs
    int32_t *first_at;     // by operator
    bool *unread;          // by operator: nothing reads what it makes, and it is no result
    int32_t *on_at, *on;   // by storage: the tensors on it
    // The change to be tried: runs in ascending order, and a chain in its order.
    int32_t dropped[CKM_I_RUNS_MAX_DROPPED], n_dropped;
    int32_t *chain, n_chain, chain_at;
    bool loading;  // of the chain, runs may be first ones
    // What came of it: places lo ... hi - 1 become those of `trial` from `from` on.
    ckm_i_runs_list trial;
    uint64_t *row;
    int32_t lo, hi, from;
    // Where the row differs from the one before the change, and how many of the storages that an operator touches do.
    uint64_t *differs;
    bool any_differs;
    int32_t *touched;          // by operator
    int32_t *ops_at, *ops_on;  // by storage: operators that touch it
    int64_t trial_cost, trial_excess;
    int32_t (*pairs)[2];
    bool *dies;  // by operand of the operator at hand
} ckm_i_runs;

// Room for `cap` runs, of which there are none yet.
ckm_status ckm_i_runs_init(ckm_i_runs *q, const ckm_dataflow *df, int64_t budget_bytes, bool keeps_order, int32_t cap,
                           ckm_error *err) CKM_NODISCARD;
void ckm_i_runs_dispose(ckm_i_runs *q);
// Takes over a sequence of at most `cap` runs in which every operator runs and finds its operands made.
void ckm_i_runs_load(ckm_i_runs *q, const int32_t *order, int32_t n);

static inline void ckm_i_runs_clear_change(ckm_i_runs *q)
{
    q->n_dropped = 0;
    q->n_chain = 0;
}

// What the change would bring: trial_cost, trial_excess. False where there is no room for this many runs.
bool ckm_i_runs_try(ckm_i_runs *q);
// Makes the change that was tried last.
void ckm_i_runs_accept(ckm_i_runs *q);

static inline const uint64_t *ckm_i_runs_row(const ckm_i_runs *q, int32_t at)
{
    return q->at.needed + (int64_t)at * q->words;
}

// Random changes of a sequence of runs.

typedef struct ckm_i_runs_mover {
    ckm_i_runs *q;
    ckm_i_rng rng;
    int64_t *op_stamp, stamp;  // by operator: of those that touch a tensor, or are in the chain
    int32_t *held;             // tensors to choose from
    bool keeps_results;        // lets go of no result once it is made
} ckm_i_runs_mover;

ckm_status ckm_i_runs_mover_init(ckm_i_runs_mover *m, ckm_i_runs *q, uint64_t seed, ckm_error *err) CKM_NODISCARD;
void ckm_i_runs_mover_dispose(ckm_i_runs_mover *m);

// Writes a random change to q; false where the one that was drawn is none.
bool ckm_i_runs_draw(ckm_i_runs_mover *m);
// The same, more often where the budget is exceeded.
bool ckm_i_runs_draw_far(ckm_i_runs_mover *m);
// Leaves out all runs of a stretch but first ones: what they made is held instead, however much that is.
bool ckm_i_runs_draw_stretch(ckm_i_runs_mover *m);

// Annealing on sequences of runs. Where a budget is close to the memory floor, what a stage runs again must itself run things
// again, in an order of its own, and no frontier-advancing schedule may fit.

// Whether a graph is small enough for it, and anything may run again.
bool ckm_i_runs_are_possible(const ckm_dataflow *df);
typedef struct ckm_i_runs_options {
    bool keeps_order;       // first runs stay in the graph's order; else any schedule will do
    double seconds;         // wall time
    double search_seconds;  // and as long as nothing fits, at least this many
    int64_t states;         // changes tried at most; 0: no limit
    int64_t least_bytes;    // > 0: looks for sequences of ever smaller peak instead, down to this, whatever they cost
} ckm_i_runs_options;

// Searches from the solver's best schedule, if it is of the class; else, and where the order is kept, from the run without
// rematerialization. Hands in what it finds on the way, and in the end, where nothing fits, what is nearest. Ends at its limits or when the solver should stop.
ckm_status ckm_i_runs_search(ckm_i_solver *solver, const ckm_i_runs_options *options, ckm_error *err) CKM_NODISCARD;

#endif
