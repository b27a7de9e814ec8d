// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/open_prover.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/bounds/open_places.h"

// Places tried for a single cut at most, and the share of the time for that.
enum { most_trials = 64 };
static const double trial_share = 0.15;

// A chain is the last one that closes less than this share of the gap, or takes more than this share of the time left.
static const double worthwhile = 0.01, slow_share = 0.3;

// Rows of the largest relaxation worth a try.
static const double most_rows = 400000.0;

// Rounds of cutting planes that have to pay in a trial.
enum { brief_rounds = 2 };

// Time between two looks at the child.
static const double poll_seconds = 0.003;

// Where there is no limit, shares are taken of this.
static const double unlimited_seconds = 3600.0;

typedef struct problem {
    const ckm_dataflow *df;
    int64_t budget_bytes;
} problem;

struct ckm_i_open_prover {
    ckm_i_solver *solver;
    problem problem;
    ckm_i_open_places places;
    ckm_i_milp_helper *helper;  // NULL: children of this process
    ckm_i_open_model model;     // of the run under way
    ckm_i_milp_job *job;        // NULL: none is under way
    int32_t *cuts;
    int32_t n_cuts;
    bool in_trials, done;
    double trial_end_seconds;  // 0 before the first
    double started_seconds, polled_seconds, bound_before;
    ckm_status status;
    ckm_error error;
};

// In the helper's child: the program that start() has made, once more.
static ckm_i_milp *build_again(const void *context, const void *request, size_t request_bytes,
                               const void **separate_context)
{
    const problem *p = context;
    int32_t n_cuts = (int32_t)(request_bytes / sizeof(int32_t));
    ckm_i_open_model *model = ckm_i_calloc(1, sizeof *model);
    if (model == NULL || ckm_i_open_model_build(p->df, p->budget_bytes, request, n_cuts, model, NULL) != CKM_OK) {
        free(model);
        return NULL;
    }
    *separate_context = model;
    return &model->milp;
}

static double rows_of(const ckm_dataflow *df, int32_t n_cuts)
{
    return (double)n_cuts * (2.0 * (double)df->n_edges + 3.0 * df->n_ops + 2.0 * df->n_tensors);
}

ckm_status ckm_i_open_prover_create(ckm_i_solver *solver, const ckm_dataflow *df, int64_t budget_bytes, bool beside,
                                    ckm_i_open_prover **out, ckm_error *err)
{
    ckm_error missing = CKM_ERROR_INIT;
    ckm_status status = CKM_OK;
    ckm_i_open_prover *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    p->solver = solver;
    p->problem = (problem){df, budget_bytes};
    p->in_trials = true;
    p->n_cuts = 1;
    p->done = df->n_ops == 0 || rows_of(df, 1) > most_rows;
    p->cuts = ckm_i_malloc((size_t)df->n_ops, sizeof *p->cuts);
    if (p->cuts == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    if (!p->done) {
        CKM_I_TRY(ckm_i_open_places_init(df, budget_bytes, &p->places, err));
    }
    if (!p->done && beside) {
        ckm_status helped = ckm_i_milp_helper_start(build_again, &p->problem, &p->helper, &missing);
        if (helped == CKM_ERR_MEMORY) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
        if (helped != CKM_OK) {
            ckm_i_solver_log(solver, CKM_LOG_WARN, "%s; continuing without it", missing.message);
            p->done = true;
        }
    }
    *out = p;
    p = NULL;
cleanup:
    ckm_i_open_prover_free(p);
    return status;
}

void ckm_i_open_prover_free(ckm_i_open_prover *p)
{
    if (p != NULL) {
        ckm_i_milp_abandon(p->job);
        ckm_i_open_model_dispose(&p->model);
        ckm_i_milp_helper_end(p->helper);
        ckm_i_open_places_dispose(&p->places);
        free(p->cuts);
        free(p);
    }
}

bool ckm_i_open_prover_has_ended(const ckm_i_open_prover *p)
{
    return p->job == NULL && (p->done || p->status != CKM_OK);
}

ckm_status ckm_i_open_prover_report(const ckm_i_open_prover *p, ckm_error *err)
{
    if (p->status != CKM_OK && err != NULL) {
        *err = p->error;
    }
    return p->status;
}

// The cuts of the next run; 0 when no more place is worth a trial.
static int32_t next_cuts(ckm_i_open_prover *p, double left)
{
    if (p->in_trials) {
        double now = ckm_i_clock_seconds();
        p->trial_end_seconds = p->trial_end_seconds == 0.0 ? now + trial_share * left : p->trial_end_seconds;
        bool more = p->places.n_tried < most_trials && now < p->trial_end_seconds;
        p->cuts[0] = more ? ckm_i_open_places_next(&p->places) : -1;
        if (p->cuts[0] >= 0) {
            return 1;
        }
        p->in_trials = false;
    }
    return ckm_i_open_places_chain(&p->places, p->n_cuts, p->cuts);
}

static void start(ckm_i_open_prover *p, double left)
{
    ckm_i_solver *solver = p->solver;
    int32_t n_cuts = next_cuts(p, left);
    if (n_cuts == 0) {
        p->done = true;
        return;
    }
    ckm_i_open_model_dispose(&p->model);
    p->status = ckm_i_open_model_build(p->problem.df, p->problem.budget_bytes, p->cuts, n_cuts, &p->model, &p->error);
    if (p->status != CKM_OK) {
        return;
    }
    bool found = solver->best_schedule != NULL;
    double gap = solver->options->gap * (double)solver->df->total_cost;
    ckm_i_milp_options limits = {
        .relax = true,
        .seconds = fmax(left, 0.01),
        .cutoff = INFINITY,
        .threads = 1,
        .separate = ckm_i_open_separate,
        .context = &p->model,
        .enough = found ? ((double)solver->best_cost - gap * 0.5) / p->model.cost_scale - p->model.cost_before
                        : INFINITY,
        .patience = p->in_trials ? brief_rounds : 0,
        .stop = solver->options->stop,
        .user = solver->options->user,
        .helper = p->helper,
        .request = p->cuts,
        .request_bytes = (size_t)n_cuts * sizeof *p->cuts,
    };
    p->started_seconds = ckm_i_clock_seconds();
    p->bound_before = solver->bound_cost;
    p->status = ckm_i_milp_start(&p->model.milp, &limits, &p->job, &p->error);
}

static void hand_in(const ckm_i_open_prover *p, double objective)
{
    if (objective > -INFINITY && objective < INFINITY) {
        double cost = (objective + p->model.cost_before) * p->model.cost_scale;
        ckm_i_solver_bound(p->solver, ckm_i_cost_round_up(cost, p->model.cost_gcd), CKM_BOUND_ANY, "open-bound");
    }
}

// What comes after the run that has ended.
static void climb(ckm_i_open_prover *p, double objective, double left)
{
    const ckm_i_solver *solver = p->solver;
    if (p->in_trials) {
        ckm_i_open_places_score(&p->places, p->cuts[0], (objective + p->model.cost_before) * p->model.cost_scale);
        return;
    }
    double took = ckm_i_clock_seconds() - p->started_seconds;
    bool slow = took > slow_share * (left + took);
    double gap = (double)solver->best_cost - solver->bound_cost;
    bool idle = p->n_cuts > 2 && solver->best_schedule != NULL &&
                solver->bound_cost - p->bound_before < worthwhile * gap;
    bool last = p->model.n_cuts < p->n_cuts || rows_of(p->problem.df, 2 * p->n_cuts) > most_rows;
    p->done = slow || idle || last;
    p->n_cuts *= 2;
}

static void take(ckm_i_open_prover *p, double left)
{
    ckm_i_solver *solver = p->solver;
    ckm_i_milp_result result = {0};
    ckm_i_milp_job *job = p->job;
    p->job = NULL;
    p->status = ckm_i_milp_finish(job, &result, &p->error);
    if (p->status != CKM_OK) {
        return;
    }
    if (result.missing) {
        ckm_i_solver_log(solver, CKM_LOG_WARN, "%s; continuing without it", result.detail);
        p->done = true;
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "open-bound: %d cuts, %d columns: %s", p->model.n_cuts, p->model.milp.n_cols,
                     result.detail);
    hand_in(p, result.proven);
    if (result.proven == INFINITY && solver->best_schedule == NULL) {
        ckm_i_solver_infeasible(solver, CKM_BOUND_ANY, "open-bound");
        p->done = true;
    }
    climb(p, result.proven, left);
    ckm_i_milp_result_dispose(&result);
}

bool ckm_i_open_prover_go_on(ckm_i_open_prover *p, double end_seconds)
{
    double now = ckm_i_clock_seconds();
    double end = fmin(p->solver->deadline_seconds, end_seconds);
    double left = isfinite(end) ? fmax(end - now, 0.0) : unlimited_seconds;
    if (ckm_i_open_prover_has_ended(p)) {
        return false;
    }
    if (now - p->polled_seconds < poll_seconds && p->polled_seconds > 0.0) {
        return true;
    }
    p->polled_seconds = now;
    if (p->job == NULL && left <= 0.0) {
        return false;
    }
    if (p->job == NULL) {
        start(p, left);
    } else if (ckm_i_milp_poll(p->job)) {
        take(p, left);
    } else {
        hand_in(p, ckm_i_milp_proven(p->job));
    }
    return !ckm_i_open_prover_has_ended(p);
}

void ckm_i_open_prover_run(ckm_i_open_prover *p, double end_seconds)
{
    while (ckm_i_open_prover_go_on(p, end_seconds) && !ckm_i_solver_should_stop(p->solver)) {
        struct timespec nap = {.tv_nsec = 1000000L};
        nanosleep(&nap, NULL);
        if (p->job == NULL && ckm_i_clock_seconds() >= end_seconds) {
            break;
        }
    }
}
