// SPDX-License-Identifier: Apache-2.0
// One run of a relaxation of windows, from the cuts to the bound.
#include "solve/bounds/window_run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/bounds/sepa.h"

struct ckm_i_window_run {
    ckm_i_window_model model;
    ckm_i_milp_job *job;
    bool integer, refine;
    int32_t *request;  // of a helper: on what to branch, then the cuts
};

// The whole order is cut where that costs little; else from the first operator that is not forward on.
static const int64_t small_rows = 30000;

static int64_t rows_from(const ckm_dataflow *df, int32_t first, int64_t n_cuts)
{
    int64_t rows = 0;
    int64_t range = df->n_ops - first;
    int64_t n = n_cuts < range ? n_cuts : range;
    for (int32_t v = 0; v < df->n_ops; v++) {
        int64_t later = df->n_ops - (v > first ? v : first);
        rows += (int64_t)(df->ops[v].n_inputs + 1) * (range > 0 ? (later * n + range - 1) / range : 0);
    }
    return rows;
}

static int32_t first_backward(const ckm_dataflow *df)
{
    int32_t v = 0;
    while (v < df->n_ops && df->ops[v].kind == CKM_OP_FORWARD) {
        v++;
    }
    return v < df->n_ops ? v : 0;
}

static bool is_whole(const ckm_dataflow *df)
{
    return rows_from(df, 0, df->n_ops) < small_rows;
}

int32_t ckm_i_window_first(const ckm_dataflow *df)
{
    return is_whole(df) ? 0 : first_backward(df);
}

int64_t ckm_i_window_rows(const ckm_dataflow *df, int32_t n_cuts)
{
    return rows_from(df, ckm_i_window_first(df), n_cuts);
}

// The solver's best as a point of the program. It satisfies every row: its rows are what all schedules obey.
static double *make_start(const ckm_i_solver *solver, const ckm_i_window_model *model)
{
    const ckm_dataflow *df = solver->df;
    double *start = ckm_i_calloc((size_t)model->milp.n_cols, sizeof *start);
    for (int32_t k = 0; start != NULL && k < model->n_cuts; k++) {
        const uint64_t *row = ckm_i_stages_s(solver->best_stages, model->cuts[k] + 1);
        for (int32_t x = 0; x < df->n_tensors; x++) {
            int32_t col = model->s_col[(int64_t)k * df->n_tensors + x];
            if (col >= 0 && ckm_i_bits_get(row, x)) {
                start[col] = 1.0;
            }
        }
    }
    return start;
}

// The schedule of an integer solution. Peaks between the cuts may exceed the budget, and then it does not count.
static ckm_status take_solution(ckm_i_solver *solver, const ckm_i_window_model *model, const double *x, ckm_error *err)
{
    ckm_i_spans *spans = NULL;
    ckm_i_search *search = NULL;
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stage_round(model, x, &spans, err));
    CKM_I_TRY(ckm_i_search_create(solver->df, solver->budget_bytes, &search, err));
    CKM_I_TRY(ckm_i_search_take(search, spans, err));
    CKM_I_TRY(ckm_i_search_emit(search, &schedule, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &schedule, "stage-program", NULL, err));
cleanup:
    ckm_i_spans_free(spans, solver->df->n_tensors);
    ckm_i_search_free(search);
    ckm_schedule_free(schedule);
    return status;
}

// What the tree branches on in addition to columns.
typedef enum branching { NOT_BRANCHED, RUNS, RUNS_AND_HELD } branching;

static ckm_status build(const ckm_i_window_problem *problem, const int32_t *cuts, int32_t n_cuts, branching branch,
                        ckm_i_window_model *model, ckm_error *err)
{
    CKM_I_CHECK(
        ckm_i_window_model_build(problem->df, problem->budget_bytes, problem->is_open, cuts, n_cuts, model, err));
    return branch != NOT_BRANCHED ? ckm_i_window_add_whole(model, branch == RUNS_AND_HELD, err) : CKM_OK;
}

// In the helper's child: the program that run_start has made, once more.
static ckm_i_milp *build_again(const void *context, const void *request, size_t request_bytes,
                               const void **separate_context)
{
    const int32_t *wanted = request;
    int32_t n_cuts = (int32_t)(request_bytes / sizeof *wanted) - 1;
    ckm_i_window_model *model = ckm_i_calloc(1, sizeof *model);
    if (model == NULL || build(context, wanted + 1, n_cuts, (branching)wanted[0], model, NULL) != CKM_OK) {
        return NULL;  // and the child ends
    }
    *separate_context = model;
    return &model->milp;
}

ckm_status ckm_i_window_helper_start(const ckm_i_window_problem *problem, ckm_i_milp_helper **out, ckm_error *err)
{
    return ckm_i_milp_helper_start(build_again, problem, out, err);
}

ckm_status ckm_i_window_run_start(ckm_i_solver *solver, const ckm_i_window_options *options, ckm_i_window_run **out,
                                  ckm_error *err)
{
    double *start = NULL;
    ckm_status status = CKM_OK;
    ckm_i_window_run *run = ckm_i_calloc(1, sizeof *run);
    if (run == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    branching branch = options->integer ? RUNS_AND_HELD : options->branch ? RUNS : NOT_BRANCHED;
    run->integer = options->integer;
    run->refine = options->refine;
    CKM_I_TRY(build(options->problem, options->cuts, options->n_cuts, branch, &run->model, err));
    size_t n_cuts = (size_t)options->n_cuts;
    run->request = ckm_i_malloc(n_cuts + 1, sizeof *run->request);
    if (run->request == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    run->request[0] = (int32_t)branch;
    memcpy(run->request + 1, options->cuts, n_cuts * sizeof *options->cuts);
    if (options->integer && solver->best_stages != NULL) {
        start = make_start(solver, &run->model);
        if (start == NULL) {
            status = ckm_i_error_memory(err);
            goto cleanup;
        }
    }
    double scale = run->model.cost_scale;
    double constant = run->model.constant;
    double gap = solver->options->gap * (double)solver->df->total_cost / scale;
    bool found = solver->best_schedule != NULL;
    ckm_i_milp_options limits = {
        .relax = !options->integer,
        .seconds = fmax(fmin(options->seconds, solver->deadline_seconds - ckm_i_clock_seconds()), 0.01),
        .gap = gap,
        .cutoff = INFINITY,
        .threads = 1,
        .widen_rows = true,
        .start = start,
        .separate = ckm_i_sepa_all,
        .context = &run->model,
        .first_whole = run->model.first_whole,
        .n_whole = found ? run->model.n_whole : 0,
        .known = (solver->bound_cost - constant) / scale,
        .enough = found ? ((double)solver->best_cost - constant) / scale - gap * 0.5 : INFINITY,
        .patience = options->patience,
        .stop = solver->options->stop,
        .user = solver->options->user,
        .helper = options->helper,
        .request = run->request,
        .request_bytes = (n_cuts + 1) * sizeof *run->request,
    };
    CKM_I_TRY(ckm_i_milp_start(&run->model.milp, &limits, &run->job, err));
    *out = run;
    run = NULL;
cleanup:
    free(start);
    ckm_i_window_run_abandon(run);
    return status;
}

static const char *source_of(const ckm_i_window_run *run)
{
    return run->model.is_open ? "open-bound" : run->integer ? "stage-program" : "stage-bound";
}

static ckm_bound_class covers(const ckm_i_window_run *run)
{
    return run->model.is_open ? CKM_BOUND_ANY : CKM_BOUND_ORDER;
}

static double cost_of(const ckm_i_window_model *model, double objective)
{
    return model->constant + objective * model->cost_scale;
}

static void hand_in(ckm_i_solver *solver, const ckm_i_window_run *run, double objective)
{
    if (objective > -INFINITY && objective < INFINITY) {
        double cost = cost_of(&run->model, objective);
        ckm_i_solver_bound(solver, ckm_i_cost_round_up(cost, run->model.cost_gcd), covers(run), source_of(run));
    }
}

static void add_line(ckm_i_solver *solver, const ckm_i_window_model *model, const ckm_i_milp_line *line)
{
    double scale = model->cost_scale;
    ckm_i_bound_lines_add(solver->lines, &(ckm_i_bound_line){
                                             .at_bytes = solver->budget_bytes,
                                             .unit_bytes = 1,
                                             .down = cost_of(model, line->down),
                                             .down_slope = line->down_slope * scale,
                                             .up = cost_of(model, line->up),
                                             .up_slope = line->up_slope * scale,
                                             .cost_gcd = model->cost_gcd,
                                         });
}

bool ckm_i_window_run_poll(ckm_i_solver *solver, ckm_i_window_run *run)
{
    if (ckm_i_milp_poll(run->job)) {
        return true;
    }
    hand_in(solver, run, ckm_i_milp_proven(run->job));
    return false;
}

// Where the relaxation's solution asks for further cuts, and where for none.
static ckm_status find_excess(const ckm_i_window_model *model, const double *x, ckm_i_window_found *found,
                              ckm_error *err)
{
    found->excess = ckm_i_malloc((size_t)model->df->n_ops, sizeof *found->excess);
    found->slack = ckm_i_malloc((size_t)model->n_cuts, sizeof *found->slack);
    if (found->excess == NULL || found->slack == NULL || !ckm_i_cut_excess(model, x, found->excess)) {
        return ckm_i_error_memory(err);
    }
    for (int32_t k = 0; k < model->n_cuts; k++) {
        found->slack[k] = ckm_i_cut_slack(model, x, k);
    }
    return CKM_OK;
}

ckm_status ckm_i_window_run_finish(ckm_i_solver *solver, ckm_i_window_run *run, ckm_i_window_found *found,
                                   ckm_error *err)
{
    const char *source = source_of(run);
    const ckm_i_window_model *model = &run->model;
    ckm_i_milp_result result = {0};
    ckm_status status = ckm_i_milp_finish(run->job, &result, err);
    run->job = NULL;
    CKM_I_TRY(status);
    found->bound = result.proven;
    found->cost = cost_of(model, result.proven);
    found->missing = result.missing;
    if (result.missing) {
        ckm_i_solver_log(solver, CKM_LOG_WARN, "%s; continuing without it", result.detail);
    }
    ckm_i_solver_log(solver, CKM_LOG_INFO, "%s: %d cuts, %d columns: %s", source, model->n_cuts, model->milp.n_cols,
                     result.detail);
    hand_in(solver, run, result.proven);
    if (result.has_line && solver->lines != NULL) {
        add_line(solver, model, &result.line);
    }
    if (result.proven == INFINITY && solver->best_schedule == NULL) {
        ckm_i_solver_infeasible(solver, covers(run), source);
    }
    // Between the cuts a schedule pays at least what the program counts.
    double cost = cost_of(model, result.objective);
    bool better = solver->best_schedule == NULL || cost < (double)solver->best_cost * (1.0 - 1e-9);
    if (run->integer && result.x != NULL && better) {
        CKM_I_TRY(take_solution(solver, model, result.x, err));
    }
    if (!run->integer && !model->is_open && result.x != NULL) {
        CKM_I_TRY(ckm_i_stage_round(model, result.x, &found->rounded, err));
    }
    if (run->refine && result.x != NULL) {
        CKM_I_TRY(find_excess(model, result.x, found, err));
    }
cleanup:
    ckm_i_milp_result_dispose(&result);
    ckm_i_window_run_abandon(run);
    return status;
}

void ckm_i_window_run_abandon(ckm_i_window_run *run)
{
    if (run != NULL) {
        ckm_i_milp_abandon(run->job);
        ckm_i_window_model_dispose(&run->model);
        free(run->request);
        free(run);
    }
}
