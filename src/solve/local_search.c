// SPDX-License-Identifier: Apache-2.0
// Simulated annealing on S with an oscillating penalty for bytes over the budget: rounds, limits, results.
#include "solve/local_search.h"

#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "solve/search_moves.h"
#include "solve/search_state.h"

// Start temperatures of successive rounds, in mean operator costs.
static const double heat[] = {0.3, 0.1, 0.3, 1.0, 0.1, 0.03, 0.3, 3.0};
enum { n_heat = sizeof heat / sizeof heat[0] };

// States looked at between two looks at the clock and the penalty; per tensor in the first round.
enum { check_period = 512, first_round = 200, descent = 5 };

// Above this many operators results are handed in as steps: matrices take memory in the square of it.
static const int32_t max_matrix_ops = 4000;

typedef struct annealing {
    ckm_i_solver *solver;
    ckm_i_search *s;
    ckm_i_mover mover;
    ckm_i_stages *stages;  // to hand results in; NULL: as steps
    double price;          // of a byte over the budget in one stage, to begin with
    int64_t best_cost;     // of the kept state; INT64_MAX: none
    int64_t states_left;   // -1: no limit
    double deadline_seconds;
} annealing;

static void keep_if_best(annealing *a)
{
    if (a->s->excess <= 0.5 && a->s->total_cost < a->best_cost) {
        a->best_cost = a->s->total_cost;
        ckm_i_search_keep(a->s);
    }
}

// Whether the best so far, not handed in yet, ends the solve.
static bool good_enough(const annealing *a)
{
    const ckm_solve_options *options = a->solver->options;
    return a->best_cost < INT64_MAX && (a->best_cost <= options->cost_limit ||
                                        (double)a->best_cost <= a->solver->bound_cost * (1.0 + options->gap));
}

// One round from the current state: the temperature falls geometrically from `hot` to `cold` over so many states
// or until the deadline, the penalty follows whether the state is within the budget.
static ckm_status anneal(annealing *a, double hot, double cold, int64_t states, ckm_error *err)
{
    double start = ckm_i_clock_seconds();
    double base = a->price;
    int64_t first = a->mover.tried;
    // A graph has to have the time to follow the penalty.
    int64_t penalty_period = a->mover.n_candidates > check_period ? a->mover.n_candidates : check_period;
    int64_t next_penalty = first;
    for (;;) {
        double progress = (double)(a->mover.tried - first) / (double)states;
        if (a->states_left < 0) {
            progress = fmax(progress, (ckm_i_clock_seconds() - start) / (a->deadline_seconds - start));
        }
        if (progress >= 1.0 || good_enough(a) || ckm_i_solver_should_stop(a->solver)) {
            break;
        }
        a->mover.temperature = hot * pow(cold / hot, progress);
        for (int64_t end = a->mover.tried + check_period; a->mover.tried < end;) {
            ckm_i_mover_step(&a->mover);
            keep_if_best(a);
        }
        if (a->s->failed) {
            return ckm_i_error_memory(err);
        }
        if (a->mover.tried >= next_penalty) {
            next_penalty += penalty_period;
            // Excess is a sum of differences; recomputing it now and then keeps rounding out.
            a->s->excess = ckm_i_profile_excess(&a->s->peaks);
            a->mover.penalty *= a->s->excess <= 0.5 ? 0.98 : a->best_cost == INT64_MAX ? 1.1 : 1.03;
            a->mover.penalty = fmin(fmax(a->mover.penalty, base * 0.0001), base * 1e4);
        }
    }
    ckm_i_mover_repair(&a->mover);
    keep_if_best(a);
    if (a->s->failed) {
        return ckm_i_error_memory(err);
    }
    if (a->states_left >= 0) {
        int64_t done = a->mover.tried - first;
        a->states_left = a->states_left > done ? a->states_left - done : 0;
    }
    return CKM_OK;
}

static ckm_status hand_in(annealing *a, ckm_error *err)
{
    ckm_i_solver *solver = a->solver;
    if (a->best_cost == INT64_MAX || (solver->best_schedule != NULL && a->best_cost >= solver->best_cost)) {
        return CKM_OK;
    }
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_search_restore(a->s, err));
    if (a->stages != NULL) {
        ckm_i_search_to_stages(a->s, a->stages);
        CKM_I_TRY(ckm_i_solver_offer(solver, a->stages, "local-search", NULL, NULL, err));
    } else {
        CKM_I_TRY(ckm_i_search_emit(a->s, &schedule, err));
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, schedule, "local-search", err));
    }
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

static ckm_status set_up(annealing *a, ckm_error *err)
{
    const ckm_dataflow *df = a->solver->df;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_search_create(df, a->solver->budget_bytes, &a->s, err));
    CKM_I_TRY(ckm_i_mover_create(a->s, a->solver->options->seed, &a->mover, err));
    if (df->n_ops <= max_matrix_ops) {
        CKM_I_TRY(ckm_i_stages_create(df, &a->stages, err));
    }
    keep_if_best(a);
    a->price = ckm_i_mover_price(&a->mover);
    if (a->price <= 0.0) {
        double budget = a->solver->budget_bytes > 0 ? (double)a->solver->budget_bytes : 1.0;
        a->price = (double)df->total_cost / budget / df->n_ops;
    }
    CKM_I_TRY(hand_in(a, err));
    if (a->solver->best_schedule != NULL) {
        CKM_I_TRY(ckm_i_search_load(a->s, a->solver->best_schedule, err));
        keep_if_best(a);
    }
cleanup:
    return status;
}

// A round that time cuts short cannot cool from as high up: the share of its states that there is time for.
static double thinned(const annealing *a, double round_states, double start)
{
    double now = ckm_i_clock_seconds();
    double rate = (double)a->mover.tried / fmax(now - start, 1e-3);
    double states = a->states_left < 0 ? rate * (a->deadline_seconds - now) : (double)a->states_left;
    return fmin(fmax(states / round_states, 0.001), 1.0);
}

static int64_t limit_states(const annealing *a, double states)
{
    return (int64_t)(a->states_left < 0 ? states : fmin(states, (double)a->states_left));
}

ckm_status ckm_i_local_search(ckm_i_solver *solver, const ckm_i_local_search_options *options, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    double start = ckm_i_clock_seconds();
    double mean_cost = (double)df->total_cost / df->n_ops;
    annealing a = {
        .solver = solver,
        .best_cost = INT64_MAX,
        .states_left = options->moves > 0 ? options->moves : -1,
        .deadline_seconds = fmin(start + options->seconds, solver->deadline_seconds),
    };
    ckm_status status = CKM_OK;
    CKM_I_TRY(set_up(&a, err));
    if (a.mover.n_candidates == 0) {
        goto cleanup;
    }
    // Straight down, so that there is something early.
    a.mover.penalty = a.price;
    double cold = mean_cost * 1e-4 + 1e-9;
    CKM_I_TRY(anneal(&a, cold, cold, limit_states(&a, (double)descent * a.mover.n_candidates), err));
    CKM_I_TRY(hand_in(&a, err));
    double round_states = (double)first_round * a.mover.n_candidates;
    for (int round = 0; !ckm_i_solver_should_stop(solver) && a.states_left != 0; round++) {
        if (a.states_left < 0 && ckm_i_clock_seconds() >= a.deadline_seconds) {
            break;
        }
        double share = thinned(&a, round_states, start);
        // Every other round begins lenient, to get elsewhere; the rest with the penalty reached, since the price
        // sampled may be so far off that a round ends before the penalty has come back. So does a round too short
        // for that, and every one until a schedule fits.
        bool lenient = round % 2 == 1 && share >= 1.0 && a.best_cost < INT64_MAX;
        a.mover.penalty = lenient ? a.price : a.mover.penalty;
        CKM_I_TRY(
            anneal(&a, mean_cost * heat[round % n_heat] * share + 1e-9, cold, limit_states(&a, round_states), err));
        CKM_I_TRY(hand_in(&a, err));
        if (round % 4 == 2) {
            CKM_I_TRY(ckm_i_search_hold_all(a.s, err));  // now and then from scratch, for diversity
        } else if (a.best_cost < INT64_MAX) {
            CKM_I_TRY(ckm_i_search_restore(a.s, err));
        }
        round_states *= 1.2;
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "local search: %lld states in %.2f s", (long long)a.mover.tried,
                     ckm_i_clock_seconds() - start);
cleanup:
    ckm_i_mover_dispose(&a.mover);
    ckm_i_stages_free(a.stages);
    ckm_i_search_free(a.s);
    return status;
}
