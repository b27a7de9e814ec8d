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
        .start_seconds = ckm_i_clock_seconds(),
        .deadline_seconds = INFINITY,
        .give_up_seconds = INFINITY,
        .budget_bytes = budget_bytes,
        .best_cost = -1,
        .best_peak_bytes = -1,
        .least_peak_bytes = -1,
        .bound_cost = NAN,
    };
}

void ckm_i_solver_dispose(ckm_i_solver *solver)
{
    ckm_schedule_free(solver->best_schedule);
    ckm_schedule_free(solver->least_schedule);
    ckm_i_stages_free(solver->best_stages);
}

double ckm_i_solver_gap(const ckm_i_solver *solver)
{
    if (solver->best_schedule == NULL || isnan(solver->bound_cost)) {
        return NAN;
    }
    double cost = (double)solver->best_cost;
    double bound = solver->bound_cost;
    if (cost <= bound) {
        return 0.0;
    }
    return bound > 0.0 ? (cost - bound) / bound : INFINITY;
}

bool ckm_i_solver_should_stop(const ckm_i_solver *solver)
{
    const ckm_solve_options *options = solver->options;
    if (solver->infeasible || (options->stop != NULL && options->stop(options->user))) {
        return true;
    }
    if (solver->best_schedule != NULL) {
        if (options->cost_limit >= 0 && solver->best_cost <= options->cost_limit) {
            return true;
        }
        if (ckm_i_solver_gap(solver) <= options->gap) {
            return true;
        }
    }
    double end = solver->best_schedule == NULL ? fmin(solver->deadline_seconds, solver->give_up_seconds)
                                               : solver->deadline_seconds;
    return ckm_i_clock_seconds() >= end;
}

double ckm_i_solver_late_until(const ckm_i_solver *solver, double seconds)
{
    const double latest_seconds = 0.8;
    double deadline = solver->deadline_seconds;
    return fmax(deadline, fmin(ckm_i_clock_seconds() + seconds, deadline + latest_seconds));
}

void ckm_i_solver_attend(ckm_i_solver *solver)
{
    if (solver->beside != NULL) {
        solver->beside(solver->beside_context);
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

static ckm_status copy_steps(const ckm_schedule *from, ckm_schedule **out, ckm_error *err)
{
    ckm_schedule *copy = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_create(&copy, err));
    for (int64_t i = 0; i < ckm_schedule_step_count(from); i++) {
        ckm_step step = ckm_schedule_get_step(from, i);
        CKM_I_TRY(ckm_schedule_append(copy, &step, err));
    }
    *out = copy;
    copy = NULL;
cleanup:
    ckm_schedule_free(copy);
    return status;
}

// Keeps a schedule of less peak than the one that is kept, once the verifier agrees.
static ckm_status keep_least(ckm_i_solver *solver, const ckm_schedule *schedule, int64_t peak_bytes, ckm_error *err)
{
    ckm_schedule *copy = NULL;
    ckm_verdict verdict;
    if (solver->least_schedule != NULL && peak_bytes >= solver->least_schedule_peak_bytes) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_schedule_verify(solver->df, schedule, -1, &verdict, err));
    if (!verdict.ok || verdict.peak_bytes != peak_bytes) {
        return ckm_i_error(err, CKM_ERR_INTERNAL, "the verifier disagrees with a peak of %lld bytes: %s",
                           (long long)peak_bytes, verdict.ok ? "it is another one" : verdict.why);
    }
    CKM_I_CHECK(copy_steps(schedule, &copy, err));
    ckm_schedule_free(solver->least_schedule);
    solver->least_schedule = copy;
    solver->least_schedule_peak_bytes = peak_bytes;
    return CKM_OK;
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
    // Nobody asks for the peak of one that is no use here.
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

ckm_status ckm_i_solver_offer_schedule(ckm_i_solver *solver, const ckm_schedule *schedule, const char *source,
                                       ckm_error *err)
{
    ckm_simulation result;
    ckm_schedule *copy = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_schedule_try(solver->df, schedule, NULL, &result, err));
    if (result.cost == INT64_MAX) {
        goto cleanup;  // no number holds its cost
    }
    ckm_i_solver_note_peak(solver, result.peak_bytes);
    if (solver->best_schedule == NULL && result.peak_bytes > solver->budget_bytes) {
        CKM_I_TRY(keep_least(solver, schedule, result.peak_bytes, err));
    }
    if (improves(solver, result.cost, result.peak_bytes)) {
        CKM_I_TRY(copy_steps(schedule, &copy, err));
        status = accept(solver, copy, result.cost, result.peak_bytes, source, err);
        copy = NULL;
        CKM_I_TRY(status);
        ckm_i_stages_free(solver->best_stages);
        solver->best_stages = NULL;
    }
cleanup:
    ckm_schedule_free(copy);
    return status;
}

ckm_status ckm_i_solver_note_least(ckm_i_solver *solver, const ckm_schedule *schedule, ckm_error *err)
{
    ckm_simulation facts;
    CKM_I_CHECK(ckm_i_schedule_try(solver->df, schedule, NULL, &facts, err));
    if (facts.cost == INT64_MAX) {
        return CKM_OK;  // no number holds its cost
    }
    CKM_I_CHECK(keep_least(solver, schedule, facts.peak_bytes, err));
    ckm_i_solver_note_peak(solver, facts.peak_bytes);
    return CKM_OK;
}

ckm_status ckm_i_solver_offer_plain(ckm_i_solver *solver, ckm_error *err)
{
    ckm_schedule *plain = NULL;
    ckm_status status;
    CKM_I_TRY(ckm_schedule_baseline(solver->df, &plain, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, plain, "no-rematerialization", err));
cleanup:
    ckm_schedule_free(plain);
    return status;
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
