// SPDX-License-Identifier: Apache-2.0
// What the parts of planning recomputing and moving together share (solve/moving.c): the choice at hand, the best so far, and facts
// about storages. moving_try.c solves the stand-in of a choice, moving_choose.c makes choices.
#ifndef CKM_SRC_SOLVE_MOVING_SEARCH_H
#define CKM_SRC_SOLVE_MOVING_SEARCH_H

#include "base/rng.h"
#include "schedule/schedule.h"
#include "solve/core/solver.h"

// A storage, and what its operator costs for each unit of its transfer's time.
typedef struct ckm_i_moving_candidate {
    double worth;
    int32_t storage;
} ckm_i_moving_candidate;

typedef struct ckm_i_moving_search {
    ckm_i_solver *solver;
    const ckm_i_strategy *strategy;
    ckm_i_rng rng;
    bool *can;       // by storage
    int64_t *price;  // by storage: of the choice at hand; -1: not chosen
    double *rate;    // by storage: the same as a part of its transfer's time; below 0: not chosen
    double *best;    // by storage: the same of the best choice so far
    double best_reserve;
    int64_t best_cost;    // of the schedules that move; INT64_MAX: none
    int64_t plain_cost;   // of the one that only recomputes; INT64_MAX: none
    ckm_schedule *steps;  // of the stand-in that gave the cheapest schedule (solve/moves/moves_lift.h); NULL: none yet
    int64_t steps_cost;
    bool only_moved;  // they come from moving alone: too dear to begin with where something may be found anew
    ckm_i_moving_candidate *order;  // storages that can be moved, dearest for their bytes first
    int32_t n_order;
    int64_t *repeated;  // by storage: what the best schedule spends on computing it again
    int64_t *out_time;  // by storage: of its transfer; and when it is made without rematerialization
    int64_t *made_at;
    int64_t peak_at;  // when the run without rematerialization has its peak
} ckm_i_moving_search;

// The schedule with its transfers waited for at once, and with them spread over time. *cost is the lesser, of those that fit. Takes
// ownership of *taken, which is NULL afterwards, on any status.
ckm_status ckm_i_moving_offer(ckm_i_solver *solver, ckm_schedule **taken, int64_t *cost, ckm_error *err) CKM_NODISCARD;

// Solves the stand-in of the choice at hand until then: anew, with the best schedule so far as a rival, or by search from that alone. *cost is
// that of the cheapest schedule it gives, or INT64_MAX.
ckm_status ckm_i_moving_try(ckm_i_moving_search *m, double reserve, bool anew, double until, int64_t *cost,
                            ckm_error *err) CKM_NODISCARD;

// Facts about the storages, and the order in which they are chosen first.
ckm_status ckm_i_moving_look_at(ckm_i_moving_search *m, ckm_error *err) CKM_NODISCARD;

// Chooses in order as long as all ways out could be done by `until`, those made late included: what is made in the last part of that
// time must leave in it.
void ckm_i_moving_fill_link(const ckm_i_moving_search *m, double price, double until);

// What the best schedule spends on each storage again.
void ckm_i_moving_count_repeats(const ckm_i_moving_search *m);

// A choice near the best one: a few more storages, a few that are dearer, or other prices for all. They stay chosen, so that the best
// schedule is one of the stand-in's.
void ckm_i_moving_change(ckm_i_moving_search *m);

#endif
