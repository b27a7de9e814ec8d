// SPDX-License-Identifier: Apache-2.0
// What strategies hand in: limits, the best schedule, bounds. Every schedule passes the independent verifier before it
// counts.
#include "solve/core/solver.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "schedule/schedule_order.h"

void ckm_i_solver_init(ckm_i_solver *solver, const ckm_dataflow *df, const ckm_solve_options *options,
                       int64_t budget_bytes)
{
    *solver = (ckm_i_solver){
        .df = df,
        .options = options,
        .budget_bytes = budget_bytes,
        .best_cost = -1,
        .best_peak_bytes = -1,
        .least_peak_bytes = -1,
        .bound_cost = NAN,
    };
    ckm_i_solver_set_limit(solver, 0.0);
}

void ckm_i_solver_dispose(ckm_i_solver *solver)
{
    ckm_schedule_free(solver->best_schedule);
    ckm_schedule_free(solver->least_schedule);
    ckm_i_stages_free(solver->best_stages);
}

const ckm_dataflow *ckm_i_solver_given_df(const ckm_i_solver *solver)
{
    return solver->given.df != NULL ? solver->given.df : solver->df;
}

ckm_status ckm_i_solver_run_given(ckm_i_solver *solver, ckm_status (*work)(ckm_i_solver *given, ckm_error *err),
                                  ckm_error *err)
{
    return solver->given.df != NULL ? solver->given.run(solver->given.context, work, err) : work(solver, err);
}

void ckm_i_solver_attend(ckm_i_solver *solver)
{
    if (solver->background != NULL) {
        solver->background(solver->background_context);
    }
}

void ckm_i_solver_log(const ckm_i_solver *solver, ckm_log_level level, const char *format, ...)
{
    if (solver->options->log == NULL) {
        return;
    }
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    solver->options->log(level, line, solver->options->user);
}

static void report(const ckm_i_solver *solver, const char *source)
{
    if (solver->options->progress == NULL) {
        return;
    }
    ckm_progress progress = {
        .seconds = ckm_i_clock_seconds() - solver->start_seconds,
        .incumbent_cost = solver->best_schedule != NULL ? solver->best_cost : -1,
        .bound_cost = ckm_i_solver_told_bound(solver),
        .gap = ckm_i_solver_gap(solver),
        .source = source,
    };
    solver->options->progress(&progress, solver->options->user);
}

// Whether a schedule of this class and cost shows that a bound for the class `covers` is wrong.
static bool refutes(ckm_bound_class belongs, int64_t cost, double bound_cost, ckm_bound_class covers)
{
    return belongs >= covers && bound_cost > (double)cost;
}

// A bound above the cost of a schedule of its class is wrong, whatever its proof was: nothing that is wrong is told.
static void check_bound(ckm_i_solver *solver)
{
    if (!isnan(solver->bound_cost) &&
        refutes(solver->best_class, solver->best_cost, solver->bound_cost, solver->bound_covers)) {
        ckm_i_solver_log(solver, CKM_LOG_ERROR, "a schedule of cost %lld contradicts a bound of %.17g; dropped",
                         (long long)solver->best_cost, solver->bound_cost);
        solver->bound_cost = (double)solver->df->total_cost;
        solver->bound_covers = CKM_BOUND_ANY;
    }
}

// Verifies a schedule that claims this cost and peak and makes it the best. Takes ownership of it.
static ckm_status accept(ckm_i_solver *solver, ckm_schedule *schedule, int64_t cost, int64_t peak_bytes,
                         const char *source, ckm_error *err)
{
    ckm_verdict verdict;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_verify(solver->df, schedule, solver->budget_bytes, &verdict, err));
    if (!verdict.ok || verdict.cost != cost || verdict.peak_bytes != peak_bytes) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL,
                             "strategy %s: the verifier disagrees: %s (cost %lld, peak %lld; claimed %lld, %lld)",
                             source, verdict.ok ? "legal" : verdict.why, (long long)verdict.cost,
                             (long long)verdict.peak_bytes, (long long)cost, (long long)peak_bytes);
        goto cleanup;
    }
    ckm_i_accounts_found(solver, solver->best_schedule != NULL ? solver->best_cost : -1, cost);
    ckm_schedule_free(solver->best_schedule);
    solver->best_schedule = schedule;
    solver->best_class = ckm_i_schedule_class(solver->df, schedule);
    solver->best_cost = cost;
    solver->best_peak_bytes = peak_bytes;
    snprintf(solver->best_source, sizeof solver->best_source, "%s", source);
    check_bound(solver);
    report(solver, source);
    schedule = NULL;
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

void ckm_i_solver_note_peak(ckm_i_solver *solver, int64_t peak_bytes)
{
    if (solver->least_peak_bytes < 0 || peak_bytes < solver->least_peak_bytes) {
        solver->least_peak_bytes = peak_bytes;
    }
}

static bool has_less_peak(const ckm_i_solver *solver, int64_t peak_bytes)
{
    return solver->least_schedule == NULL || peak_bytes < solver->least_schedule_peak_bytes;
}

// Keeps a schedule of less peak than the one that is kept, once the verifier agrees. Takes ownership of it.
static ckm_status keep_least(ckm_i_solver *solver, ckm_schedule *schedule, int64_t peak_bytes, ckm_error *err)
{
    ckm_verdict verdict;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_verify(solver->df, schedule, -1, &verdict, err));
    if (!verdict.ok || verdict.peak_bytes != peak_bytes) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL, "the verifier disagrees with a peak of %lld bytes: %s",
                             (long long)peak_bytes, verdict.ok ? "it is another one" : verdict.why);
        goto cleanup;
    }
    ckm_schedule_free(solver->least_schedule);
    solver->least_schedule = schedule;
    solver->least_schedule_peak_bytes = peak_bytes;
    schedule = NULL;
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

static bool improves(const ckm_i_solver *solver, int64_t cost, int64_t peak_bytes)
{
    return peak_bytes <= solver->budget_bytes && cost < INT64_MAX &&
           (solver->best_schedule == NULL || cost < solver->best_cost ||
            (cost == solver->best_cost && peak_bytes < solver->best_peak_bytes));
}

ckm_status ckm_i_solver_offer(ckm_i_solver *solver, ckm_i_stages *stages, const char *source, int64_t *cost,
                              int64_t *peak_bytes, ckm_error *err)
{
    int64_t peak = 0;
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_stages_complete(stages, err));
    int64_t total = ckm_i_stages_cost(stages);
    bool is_dear = solver->best_schedule != NULL && total > solver->best_cost;
    // The peak of one that is no use here is never asked for.
    if (!is_dear || peak_bytes != NULL) {
        CKM_I_TRY(ckm_i_stages_peak(stages, &peak, err));
        ckm_i_solver_note_peak(solver, peak);
    }
    if (!is_dear && improves(solver, total, peak)) {
        if (solver->best_stages == NULL) {
            CKM_I_TRY(ckm_i_stages_create(solver->df, &solver->best_stages, err));
        }
        CKM_I_TRY(ckm_i_stages_emit(stages, &schedule, err));
        CKM_I_TRY(accept(solver, schedule, total, peak, source, err));
        CKM_I_TRY(ckm_i_stages_copy(stages, solver->best_stages, err));
    }
    if (cost != NULL) {
        *cost = total;
    }
    if (peak_bytes != NULL) {
        *peak_bytes = peak;
    }
cleanup:
    return status;
}

ckm_status ckm_i_solver_offer_schedule(ckm_i_solver *solver, ckm_schedule **schedule, const char *source,
                                       ckm_simulation *facts, ckm_error *err)
{
    ckm_simulation result;
    ckm_schedule *own = *schedule;
    ckm_status status = CKM_OK;
    *schedule = NULL;
    CKM_I_TRY(ckm_i_schedule_try(solver->df, own, NULL, &result, err));
    if (facts != NULL) {
        *facts = result;
    }
    if (result.cost == INT64_MAX) {
        goto cleanup;  // no number holds its cost
    }
    ckm_i_solver_note_peak(solver, result.peak_bytes);
    if (improves(solver, result.cost, result.peak_bytes)) {
        status = accept(solver, own, result.cost, result.peak_bytes, source, err);
        own = NULL;
        CKM_I_TRY(status);
        ckm_i_stages_free(solver->best_stages);
        solver->best_stages = NULL;
    } else if (solver->best_schedule == NULL && result.peak_bytes > solver->budget_bytes &&
               has_less_peak(solver, result.peak_bytes)) {
        status = keep_least(solver, own, result.peak_bytes, err);
        own = NULL;
    }
cleanup:
    ckm_schedule_free(own);
    return status;
}

ckm_status ckm_i_solver_note_least(ckm_i_solver *solver, const ckm_schedule *schedule, ckm_error *err)
{
    ckm_simulation facts;
    ckm_schedule *copy = NULL;
    CKM_I_CHECK(ckm_i_schedule_try(solver->df, schedule, NULL, &facts, err));
    if (facts.cost == INT64_MAX) {
        return CKM_OK;  // no number holds its cost
    }
    if (has_less_peak(solver, facts.peak_bytes)) {
        CKM_I_CHECK(ckm_i_schedule_copy(schedule, &copy, err));
        CKM_I_CHECK(keep_least(solver, copy, facts.peak_bytes, err));
    }
    ckm_i_solver_note_peak(solver, facts.peak_bytes);
    return CKM_OK;
}

ckm_status ckm_i_solver_offer_plain(ckm_i_solver *solver, ckm_simulation *facts, ckm_error *err)
{
    ckm_schedule *plain = NULL;
    if (solver->knows_plain) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_schedule_baseline(solver->df, &plain, err));
    CKM_I_CHECK(ckm_i_solver_offer_schedule(solver, &plain, "no-rematerialization", facts, err));
    solver->knows_plain = true;
    return CKM_OK;
}

double ckm_i_solver_told_bound(const ckm_i_solver *solver)
{
    // Where there is no bound, fmin() would make one of the cost.
    bool above = solver->best_schedule != NULL && solver->bound_cost > (double)solver->best_cost;
    return above ? (double)solver->best_cost : solver->bound_cost;
}

// Whether a bound says anything here. Class CKM_BOUND_FRONTIER is another one where operators have been merged.
static bool is_meant(const ckm_i_solver *solver, double bound_cost, ckm_bound_class covers)
{
    return !isnan(bound_cost) && !(covers == CKM_BOUND_FRONTIER && solver->operators_merged);
}

static bool is_better(double bound_cost, ckm_bound_class covers, double than_cost, ckm_bound_class than_covers)
{
    return isnan(than_cost) || bound_cost > than_cost || (bound_cost == than_cost && covers < than_covers);
}

void ckm_i_solver_bound(ckm_i_solver *solver, double bound_cost, ckm_bound_class covers, const char *source)
{
    if (!is_meant(solver, bound_cost, covers)) {
        return;
    }
    if (solver->best_schedule != NULL && refutes(solver->best_class, solver->best_cost, bound_cost, covers)) {
        ckm_i_solver_log(solver, CKM_LOG_ERROR, "%s: a bound of %.17g contradicts a schedule of cost %lld; dropped",
                         source, bound_cost, (long long)solver->best_cost);
        return;
    }
    if (is_better(bound_cost, covers, solver->bound_cost, solver->bound_covers)) {
        ckm_i_accounts_proven(solver, isnan(solver->bound_cost) ? 0.0 : bound_cost - solver->bound_cost);
        solver->bound_cost = bound_cost;
        solver->bound_covers = covers;
        report(solver, source);
    }
}

void ckm_i_solver_infeasible(ckm_i_solver *solver, ckm_bound_class covers, const char *source)
{
    if (!is_meant(solver, 0.0, covers)) {
        return;
    }
    ckm_i_accounts_proven(solver, 0.0);
    solver->infeasible = true;
    solver->infeasible_covers = covers;
    ckm_i_solver_log(solver, CKM_LOG_INFO, "%s: proven infeasible", source);
}

double ckm_i_cost_round_up(double bound_cost, int64_t cost_gcd)
{
    double safe = bound_cost - fabs(bound_cost) * 1e-9;
    double unit = (double)cost_gcd;
    double rounded = ceil(safe / unit - 1e-6) * unit;
    return rounded > safe && rounded < 9e15 ? rounded : safe;  // doubles count exactly up to 2^53
}
