// SPDX-License-Identifier: Apache-2.0
// Searchers, each with a state and random numbers of its own, that anneal side by side in threads.
#ifndef CKM_SRC_SOLVE_SEARCH_SEARCH_TEAM_H
#define CKM_SRC_SOLVE_SEARCH_SEARCH_TEAM_H

#include <stdatomic.h>

#include "solve/search/search_moves.h"
#include "solve/core/solver.h"

// One searcher and its round.
typedef struct ckm_i_searcher {
    ckm_i_search *s;
    ckm_i_mover mover;
    int64_t best_cost;  // what a state must cost less than to be kept; INT64_MAX: none is known
    bool found;         // it has kept one since its round began
    bool failed;        // memory ran out
    // The round: the temperature falls geometrically from hot to cold over this many states or until the deadline.
    double hot, cold;
    int64_t states;
} ckm_i_searcher;

typedef struct ckm_i_team {
    ckm_i_solver *solver;  // only asked by the calling thread
    int n;
    ckm_i_searcher *searchers;  // n; the first works on the calling thread
    double price;               // of a byte over the budget in one stage, to begin with
    bool by_clock;              // rounds end at the deadline at the latest, and when a searcher has found enough
    double deadline_seconds;
    double repair_seconds;  // after the deadline or whatever else ends a round, at most; with a clock only
    // By the calling thread, now and then: what it has to attend to meanwhile, and whether the round is to end.
    void (*attend)(void *context);
    bool (*should_end)(void *context);
    void *context;
    _Atomic bool stop;
    _Atomic int64_t enough_cost;  // a schedule that costs no more ends the solve
} ckm_i_team;

// `n` searchers that hold everything. Their random numbers differ, those of the first depend on the seed alone.
ckm_status ckm_i_team_create(ckm_i_solver *solver, int n, ckm_i_team **out, ckm_error *err) CKM_NODISCARD;
void ckm_i_team_free(ckm_i_team *team);

// A round of the first n searchers, each from its state. What a searcher ends with is repaired. Without a clock the
// outcome depends on nothing but the states and the numbers of states, however the threads happen to run; a searcher
// for which no thread can be had works after the others.
ckm_status ckm_i_team_anneal(ckm_i_team *team, int n, ckm_error *err) CKM_NODISCARD;
// When a repair that begins now has to end.
double ckm_i_team_repair_deadline(const ckm_i_team *team);
// Keeps the searcher's state when it is within the budget and the best.
void ckm_i_searcher_keep(ckm_i_searcher *searcher);

#endif
