// SPDX-License-Identifier: Apache-2.0
#include "solve/ilp/ilp.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "solve/core/component_registry.h"

// Beyond this the model does not fit comfortably in memory and no solver gets anywhere anyway.
static const int64_t max_entries = 40000000;

// S of a frontier solution; R follows from it.
static ckm_status take_solution(ckm_i_solver *solver, const ckm_i_ilp *ilp, const ckm_i_milp_result *result,
                                ckm_error *err)
{
    ckm_i_stages *stages = NULL;
    int64_t peak = 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stages_create(solver->df, &stages, err));
    ckm_i_ilp_take(ilp, result->x, 0.5, stages);
    CKM_I_TRY(ckm_i_solver_offer(solver, stages, "ilp", NULL, &peak, err));
    if (peak > solver->budget_bytes) {
        ckm_i_solver_log(solver, CKM_LOG_WARN, "ilp: the engine's solution exceeds the budget by %lld bytes; not used",
                         (long long)(peak - solver->budget_bytes));
    }
cleanup:
    ckm_i_stages_free(stages);
    return status;
}

// A solution of the unpartitioned program is not a frontier schedule: its stages are passes over the
// operators, and first computations may come in any of them. Hands it in as a sequence of computations.
static ckm_status take_unpartitioned(ckm_i_solver *solver, const ckm_i_ilp *ilp, const ckm_i_milp_result *result,
                                     ckm_error *err)
{
    int64_t n = solver->df->n_ops;
    int64_t n_computes = 0;
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    int32_t *order = ckm_i_malloc((size_t)(n * n), sizeof *order);
    if (order == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t i = 0; i < n * n; i++) {
        if (ilp->r_col[i] >= 0 && result->x[ilp->r_col[i]] >= 0.5) {
            order[n_computes++] = (int32_t)(i % n);
        }
    }
    CKM_I_TRY(ckm_i_schedule_from_order(solver->df, order, n_computes, &schedule, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &schedule, "ilp", NULL, err));
cleanup:
    free(order);
    ckm_schedule_free(schedule);
    return status;
}

static ckm_status conclude(ckm_i_solver *solver, const ckm_i_ilp *ilp, const ckm_i_milp_result *result, ckm_error *err)
{
    bool frontier = ilp->formulation != CKM_FORMULATION_UNPARTITIONED;
    if (result->missing) {
        ckm_i_solver_log(solver, CKM_LOG_WARN, "%s; continuing without it", result->detail);
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "ilp: %s, %d rows, %d columns", result->detail, ilp->milp.n_rows,
                     ilp->milp.n_cols);
    if (result->x != NULL) {
        CKM_I_CHECK(frontier ? take_solution(solver, ilp, result, err) : take_unpartitioned(solver, ilp, result, err));
    }
    if (result->proven > -INFINITY && result->proven < INFINITY) {
        double bound = ckm_i_ilp_cost_bound(ilp, result->proven);
        if (solver->options->cost_limit >= 0) {
            // The program knows nothing of dearer schedules: all it proves of them is that they cost more.
            bound = fmin(bound, (double)solver->options->cost_limit + 1.0);
        }
        ckm_i_solver_bound(solver, bound, CKM_BOUND_FRONTIER, "ilp");
    }
    bool known = solver->best_schedule != NULL &&
                 (solver->options->cost_limit < 0 || solver->best_cost <= solver->options->cost_limit);
    if (result->proven == INFINITY && !known) {
        ckm_i_solver_infeasible(solver, CKM_BOUND_FRONTIER, "ilp");
    }
    return CKM_OK;
}

static ckm_status run(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    const ckm_solve_options *options = solver->options;
    ckm_i_ilp *ilp = NULL;
    double *start = NULL;
    ckm_i_milp_result result = {0};
    ckm_status status = CKM_OK;
    if (ckm_i_ilp_is_too_large(solver->df, max_entries)) {
        ckm_i_solver_log(solver, CKM_LOG_WARN, "ilp: the integer program is too large for %d operators; not tried",
                         solver->df->n_ops);
        return CKM_OK;
    }
    CKM_I_TRY(ckm_i_ilp_build(solver->df, solver->budget_bytes, options->formulation, max_entries, ckm_i_solver_stops,
                              solver, &ilp, err));
    if (ilp == NULL) {
        ckm_i_solver_log(solver, CKM_LOG_INFO, "ilp: no time to set up the integer program");
        goto cleanup;
    }
    bool frontier = options->formulation != CKM_FORMULATION_UNPARTITIONED;
    double constant = frontier ? (double)solver->df->total_cost : 0.0;
    ckm_i_milp_options limits = {
        .seconds = fmax(fmin(seconds, solver->deadline_seconds - ckm_i_clock_seconds()), 0.01),
        .gap = options->gap * (double)solver->df->total_cost / ilp->cost_scale,
        .enough = INFINITY,
        .cutoff = INFINITY,
        .threads = options->threads,
        .widen_rows = true,
        .stop = options->stop,
        .user = options->user,
    };
    if (frontier && solver->best_stages != NULL) {
        start = ckm_i_malloc((size_t)ilp->milp.n_cols, sizeof *start);
        if (start == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        ckm_i_ilp_start(ilp, solver->best_stages, start);
        limits.start = start;
    }
    if (frontier && solver->best_schedule != NULL) {
        limits.enough = ((double)solver->best_cost - constant) / ilp->cost_scale - limits.gap * 0.5;
    }
    if (options->cost_limit >= 0) {
        // A row, not a cutoff: infeasible then means what it says.
        ckm_i_milp_add_row(&ilp->milp, -INFINITY, ((double)options->cost_limit - constant) / ilp->cost_scale);
        for (int32_t j = 0; j < ilp->milp.n_cols; j++) {
            if (ilp->milp.obj[j] != 0.0) {
                ckm_i_milp_put(&ilp->milp, j, ilp->milp.obj[j]);
            }
        }
        limits.start = NULL;
    }
    CKM_I_TRY(ckm_i_milp_solve(&ilp->milp, &limits, &result, err));
    CKM_I_TRY(conclude(solver, ilp, &result, err));
cleanup:
    ckm_i_milp_result_dispose(&result);
    free(start);
    ckm_i_ilp_free(ilp);
    return status;
}

const ckm_i_component ckm_i_component_ilp = {
    .name = "ilp",
    .kind = CKM_COMPONENT_SOLVES,
    .summary = "the paper's integer program",
};

ckm_status ckm_i_ilp_run(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    if (!ckm_i_component_begin(solver, &ckm_i_component_ilp)) {
        return CKM_OK;
    }
    ckm_status status = run(solver, seconds, err);
    ckm_i_component_end(solver);
    return status;
}
