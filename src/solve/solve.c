// SPDX-License-Identifier: Apache-2.0
// ckm_solve: the memory floor, one strategy, and the conclusions, which are the same for all strategies.
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "solve/core/component_registry.h"
#include "solve/core/solve_options.h"
#include "solve/floor/memory_floor.h"
#include "solve/runs/leave_out.h"
#include "solve/solve_above.h"
#include "solve/moving.h"
#include "solve/presolve/presolve.h"
#include "solve/reorder/reorder.h"
#include "solve/strategies/solve_registry.h"
#include "solve/core/solver.h"

// "optimal" means within 0.01 %.
static const double optimal_gap = 1e-4;

// So long runs a strategy that is not thorough where the floor refutes the budget.
static const double refuted_seconds = 1.0;

// Budgets up to this many times the floor are near it, on graphs of up to this many operators: there, the game of the floor takes less than
// a few seconds, and search on S may find nothing. Up to this many times it may still fail.
static const double near_floor = 1.2, may_fail = 1.6;
static const int32_t most_ops_near_floor = 5000;

// Search has at least so much time after the strategies that take none, but not more than the limit itself.
static const double search_least = 0.2;

static ckm_status check_options(const ckm_dataflow *df, const ckm_solve_options *options, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_dataflow_check_finished(df, err));
    if (options->budget_bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "budget_bytes is %lld; it must not be negative",
                           (long long)options->budget_bytes);
    }
    return CKM_OK;
}

// The run without rematerialization: its figures, and a first candidate where that is asked for. One that no number holds the cost of
// is an error.
static ckm_status begin_plain(ckm_i_solver *solver, bool offers, ckm_solve_result *result, ckm_error *err)
{
    ckm_schedule *baseline = NULL;
    ckm_simulation figures = {.cost = INT64_MAX};
    ckm_status status = CKM_OK;
    if (offers) {
        CKM_I_TRY(ckm_i_solver_offer_plain(solver, &figures, err));
    }
    if (figures.cost == INT64_MAX) {
        CKM_I_TRY(ckm_schedule_baseline(solver->df, &baseline, err));
        CKM_I_TRY(ckm_schedule_simulate(solver->df, baseline, NULL, &figures, err));
    }
    result->baseline_cost = figures.cost;
    result->baseline_peak_bytes = figures.peak_bytes;
cleanup:
    ckm_schedule_free(baseline);
    return status;
}

// A copy of the caller's schedule as a candidate.
static ckm_status offer_start(ckm_i_solver *solver, const ckm_schedule *start, ckm_error *err)
{
    const char *from = ckm_schedule_get_info(start)->strategy;
    ckm_schedule *copy = NULL;
    CKM_I_CHECK(ckm_i_schedule_copy(start, &copy, err));
    return ckm_i_solver_offer_schedule(solver, &copy, from[0] != '\0' ? from : "start", NULL, err);
}

static void conclude(ckm_i_solver *solver, ckm_solve_result *result)
{
    const ckm_solve_options *options = solver->options;
    bool found = solver->best_schedule != NULL;
    if (found && options->cost_limit >= 0 && solver->best_cost > options->cost_limit) {
        found = false;
    }
    result->bound_cost = ckm_i_solver_told_bound(solver);
    result->bound_covers = isnan(solver->bound_cost) ? CKM_BOUND_NONE : solver->bound_covers;
    // The caller knows the run without rematerialization: its peak is an answer only where smaller ones were searched for.
    bool known = solver->looked_for_least || solver->least_peak_bytes < result->baseline_peak_bytes;
    result->least_peak_bytes = found || known ? solver->least_peak_bytes : -1;
    result->cost = found ? solver->best_cost : -1;
    result->peak_bytes = found ? solver->best_peak_bytes : -1;
    result->gap = found ? ckm_i_solver_gap(solver) : NAN;
    if (found) {
        result->status = result->gap <= optimal_gap ? CKM_SOLVE_OPTIMAL : CKM_SOLVE_FEASIBLE;
        snprintf(result->strategy, sizeof result->strategy, "%s", solver->best_source);
        result->schedule = solver->best_schedule;
        solver->best_schedule = NULL;
    } else if (solver->infeasible) {
        result->status = CKM_SOLVE_INFEASIBLE;
        result->bound_covers = solver->infeasible_covers;
    } else if (options->cost_limit >= 0 && solver->bound_cost > (double)options->cost_limit) {
        result->status = CKM_SOLVE_INFEASIBLE;
    } else {
        result->status = CKM_SOLVE_UNKNOWN;
    }
}

static void describe(const ckm_i_solver *solver, const ckm_solve_result *result)
{
    ckm_schedule_info info = {
        .budget_bytes = result->budget_bytes,
        .cost = result->cost,
        .baseline_cost = result->baseline_cost,
        .peak_bytes = result->peak_bytes,
        .bound_cost = result->bound_cost,
        .bound_covers = result->bound_covers,
        .optimal = result->status == CKM_SOLVE_OPTIMAL,
        .seconds = result->seconds,
    };
    snprintf(info.graph, sizeof info.graph, "%s", solver->df->name);
    snprintf(info.strategy, sizeof info.strategy, "%s", result->strategy);
    ckm_schedule_set_info(result->schedule, &info);
}

// Where the budget is so close to the floor, a search may find nothing.
static bool is_near_floor(const ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes,
                          int64_t baseline_peak_bytes, double times)
{
    return strategy->takes_any_schedule && strategy->is_thorough && solver->best_schedule == NULL &&
           solver->options->cost_limit < 0 && solver->df->n_ops <= most_ops_near_floor &&
           (double)solver->budget_bytes < times * (double)floor_bytes && solver->budget_bytes < baseline_peak_bytes;
}

// Runs the strategy and what belongs to it. Where the floor refutes the budget, one that is not thorough still has a
// little time, as long as the graph's own figure allows any hope: what it meets is known to fit more.
static ckm_status run(ckm_i_solver *solver, const ckm_i_strategy *strategy, int64_t floor_bytes,
                      int64_t baseline_peak_bytes, const ckm_i_known *known, ckm_error *err)
{
    const ckm_solve_options *options = solver->options;
    bool comes_back = known != NULL && known->comes_back;
    bool of_many = known != NULL && known->of_many;
    bool refuted = solver->budget_bytes < floor_bytes;
    double end = solver->deadline_seconds;
    ckm_status status = CKM_OK;
    if (refuted && (strategy->is_thorough || solver->budget_bytes < solver->df->floor_bytes)) {
        ckm_i_solver_infeasible(solver, CKM_BOUND_ANY, "memory floor");
    } else if (refuted) {
        end = fmin(end, ckm_i_clock_seconds() + refuted_seconds);
    }
    ckm_i_limits whole = ckm_i_solver_begin_slice(solver, end, INFINITY);
    if (!solver->infeasible) {
        solver->is_near_floor = is_near_floor(solver, strategy, floor_bytes, baseline_peak_bytes, near_floor);
        solver->may_find_nothing = is_near_floor(solver, strategy, floor_bytes, baseline_peak_bytes, may_fail);
        if (known == NULL && strategy->takes_any_schedule && solver->budget_bytes < baseline_peak_bytes) {
            CKM_I_TRY(ckm_i_quick_begin(solver, err));
        }
    }
    if (solver->began_quickly && options->time_limit_seconds > 0.0) {
        end = ckm_i_solver_late_until(solver, fmin(search_least, options->time_limit_seconds));
    }
    bool keeps = !of_many && strategy->takes_any_schedule &&
                 (double)solver->budget_bytes < may_fail * (double)floor_bytes;
    double kept = keeps ? ckm_i_least_peak_kept(solver) : 0.0;
    ckm_i_limits before = ckm_i_solver_begin_slice(solver, end, kept > 0.0 ? end - kept : INFINITY);
    if (!solver->infeasible) {
        CKM_I_TRY(options->reorder ? ckm_i_reorder_run(solver, strategy, &ckm_i_strategy_local_search, err)
                                   : ckm_i_presolve_run(solver, strategy, err));
    }
    ckm_i_solver_end_slice(solver, before);
    if (comes_back) {
        goto cleanup;
    }
    if (refuted) {
        ckm_i_solver_infeasible(solver, CKM_BOUND_ANY, "memory floor");
    }
    if (solver->best_schedule == NULL && strategy->is_thorough && !of_many) {
        CKM_I_TRY(ckm_i_least_peak(solver, strategy, floor_bytes, ckm_i_least_peak_until(solver), err));
    }
    if (strategy->takes_any_schedule) {
        CKM_I_TRY(ckm_i_leave_out(solver, err));
    }
cleanup:
    ckm_i_solver_end_slice(solver, whole);
    return status;
}

ckm_status ckm_i_solve_above(const ckm_dataflow *df, const ckm_solve_options *options, int64_t floor_bytes,
                             ckm_solve_result *result, ckm_error *err)
{
    return ckm_i_solve_known(df, options, floor_bytes, NULL, result, err);
}

static void use_known(ckm_i_solver *solver, const ckm_i_known *known)
{
    solver->lines = known->lines;
    solver->hint = known->hint;
    solver->proven_elsewhere = known->proven_elsewhere;
    if (known->lines != NULL) {
        double bound = ckm_i_bound_lines_for(known->lines, solver->budget_bytes);
        ckm_i_solver_bound(solver, bound, CKM_BOUND_ORDER, "other budgets");
    }
    ckm_i_solver_bound(solver, known->bound_cost, known->bound_covers, "known");
}

ckm_status ckm_i_solve_known(const ckm_dataflow *df, const ckm_solve_options *options, int64_t floor_bytes,
                             const ckm_i_known *known, ckm_solve_result *result, ckm_error *err)
{
    const ckm_i_strategy *strategy = ckm_i_strategy_find(options->strategy);
    ckm_status status = CKM_OK;
    if (strategy == NULL) {
        return ckm_i_error(err, CKM_ERR_NOT_FOUND, "no strategy is called \"%s\"", options->strategy);
    }
    if (ckm_dataflow_get_second_memory(df, NULL)) {
        strategy = &ckm_i_strategy_moving;
        if (options->reorder) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT, "the order cannot be open where there is a second memory");
        }
    }
    ckm_i_solver solver;
    ckm_i_accounts accounts;
    ckm_i_solver_init(&solver, df, options, options->budget_bytes);
    CKM_I_CHECK(ckm_i_accounts_init(&accounts, options->without, &solver, err));
    solver.accounts = &accounts;
    ckm_i_solver_set_limit(&solver, options->time_limit_seconds);
    solver.bound_cost = strategy == &ckm_i_strategy_moving
                            ? ckm_i_moving_least_cost(df)
                            : (double)df->total_cost;  // every operator runs at least once
    solver.bound_covers = CKM_BOUND_ANY;
    ckm_solve_result found = {.floor_bytes = floor_bytes, .budget_bytes = options->budget_bytes};
    snprintf(found.strategy, sizeof found.strategy, "%s", strategy->name);
    if (options->start != NULL) {
        CKM_I_TRY(offer_start(&solver, options->start, err));
    }
    CKM_I_TRY(begin_plain(&solver, strategy->owns_plain || options->reorder, &found, err));
    if (known != NULL) {
        use_known(&solver, known);
    }
    CKM_I_TRY(run(&solver, strategy, floor_bytes, found.baseline_peak_bytes, known, err));
    conclude(&solver, &found);
    ckm_i_accounts_report(&accounts, &found);
    found.seconds = ckm_i_clock_seconds() - solver.start_seconds;
    if (found.schedule != NULL) {
        describe(&solver, &found);
    }
    *result = found;
cleanup:
    ckm_i_solver_dispose(&solver);
    return status;
}

// The floor comes before the clock starts: it belongs to the graph, and whatever the strategy, the same is told.
ckm_status ckm_solve(const ckm_dataflow *df, const ckm_solve_options *options, ckm_solve_result *result, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(result, err);
    int64_t floor_bytes = 0;
    ckm_solve_options o;
    CKM_I_CHECK(ckm_i_solve_options_read(options, CKM_I_DEFAULT_SECONDS, &o, err));
    CKM_I_CHECK(check_options(df, &o, err));
    CKM_I_CHECK(ckm_i_memory_floor_of(df, &floor_bytes, err));
    return ckm_i_solve_above(df, &o, floor_bytes, result, err);
}

void ckm_solve_result_dispose(ckm_solve_result *result)
{
    if (result != NULL) {
        ckm_schedule_free(result->schedule);
        result->schedule = NULL;
    }
}
