// SPDX-License-Identifier: Apache-2.0
// A strategy on the reduced problem: what it finds is handed on at once, as schedules and bounds of the original.
#include "base/error.h"
#include "schedule/schedule_order.h"
#include "schedule/schedule.h"
#include "solve/core/component_registry.h"
#include "solve/presolve/presolve.h"

const ckm_i_component ckm_i_component_presolve = {
    .name = "presolve",
    .kind = CKM_COMPONENT_REDUCES,
    .summary = "a smaller graph: without tensors and views that make no difference",
};
const ckm_i_component ckm_i_component_presolve_operators = {
    .name = "presolve-operators",
    .kind = CKM_COMPONENT_REDUCES,
    .summary = "presolve also merges operators that run together",
};

static ckm_i_presolve_level level_for(const ckm_i_solver *solver, const ckm_i_strategy *strategy)
{
    if (!strategy->wants_reduced || ckm_i_component_is_left_out(solver, &ckm_i_component_presolve)) {
        return CKM_I_PRESOLVE_NONE;
    }
    return (solver->df->n_ops <= CKM_I_ILP_MAX_OPS && !strategy->merges_operators) ||
                   ckm_i_component_is_left_out(solver, &ckm_i_component_presolve_operators)
               ? CKM_I_PRESOLVE_TENSORS
               : CKM_I_PRESOLVE_OPERATORS;
}

typedef struct handover {
    ckm_i_solver *outer;
    ckm_i_solver inner;
    const ckm_i_presolve *p;
    int64_t handed_cost;  // of the last schedule handed on; -1
    double handed_bound;
    ckm_status status;
    ckm_error error;
} handover;

static bool should_stop(void *user)
{
    const handover *h = user;
    return h->status != CKM_OK || ckm_i_solver_should_stop(h->outer);
}

static void pass_log(ckm_log_level level, const char *line, void *user)
{
    const handover *h = user;
    ckm_i_solver_log(h->outer, level, "%s", line);
}

static ckm_status hand_schedule(handover *h, ckm_error *err)
{
    ckm_i_solver *outer = h->outer;
    ckm_schedule *mapped = NULL;
    ckm_simulation facts;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_presolve_map_back(h->p, h->inner.best_schedule, &mapped, err));
    CKM_I_TRY(ckm_i_solver_offer_schedule(outer, &mapped, h->inner.best_source, &facts, err));
    if (facts.cost > h->inner.best_cost || facts.peak_bytes > outer->budget_bytes) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL,
                             "presolve: a schedule costs %lld and peaks at %lld; promised %lld, %lld",
                             (long long)facts.cost, (long long)facts.peak_bytes, (long long)h->inner.best_cost,
                             (long long)outer->budget_bytes);
    }
cleanup:
    ckm_schedule_free(mapped);
    return status;
}

// Where nothing fits, the schedule of least peak that was met: also over the budget, it fits its own peak.
static ckm_status hand_least(const handover *h, ckm_error *err)
{
    const ckm_schedule *least = h->inner.least_schedule;
    ckm_schedule *mapped = NULL;
    ckm_status status = CKM_OK;
    if (h->outer->best_schedule != NULL || least == NULL ||
        ckm_i_schedule_class(h->p->reduced, least) < CKM_BOUND_ORDER) {
        return CKM_OK;
    }
    CKM_I_TRY(ckm_i_presolve_map_back(h->p, least, &mapped, err));
    CKM_I_TRY(ckm_i_solver_note_least(h->outer, mapped, err));
cleanup:
    ckm_schedule_free(mapped);
    return status;
}

// Hands on what is new.
static void hand_on(handover *h, const char *source)
{
    const ckm_i_solver *inner = &h->inner;
    if (h->status == CKM_OK && inner->best_schedule != NULL &&
        (h->handed_cost < 0 || inner->best_cost < h->handed_cost)) {
        h->handed_cost = inner->best_cost;
        h->status = hand_schedule(h, &h->error);
    }
    if (!(inner->bound_cost <= h->handed_bound)) {
        h->handed_bound = inner->bound_cost;
        ckm_i_solver_bound(h->outer, inner->bound_cost, inner->bound_covers, source);
    }
}

static void watch(const ckm_progress *progress, void *user)
{
    hand_on(user, progress->source);
}

static ckm_status offer_start(handover *h, ckm_error *err)
{
    ckm_schedule *start = NULL;
    ckm_status status = CKM_OK;
    if (h->outer->best_schedule != NULL && h->outer->best_class >= CKM_BOUND_ORDER) {
        CKM_I_TRY(ckm_i_presolve_map_forward(h->p, h->outer->best_schedule, &start, err));
        CKM_I_TRY(ckm_i_solver_offer_schedule(&h->inner, &start, h->outer->best_source, NULL, err));
    } else if (h->outer->best_schedule == NULL && h->outer->least_schedule != NULL &&
               ckm_i_schedule_class(h->outer->df, h->outer->least_schedule) >= CKM_BOUND_ORDER) {
        CKM_I_TRY(ckm_i_presolve_map_forward(h->p, h->outer->least_schedule, &start, err));
        CKM_I_TRY(ckm_i_solver_note_least(&h->inner, start, err));
    }
cleanup:
    ckm_schedule_free(start);
    return status;
}

// Whether the original has a schedule that the reduced problem cannot be given.
static void note_answer(handover *h)
{
    h->inner.is_answered = h->outer->best_schedule != NULL && h->inner.best_schedule == NULL;
}

// Work on the original, until the deadline of the reduced problem's solver and with what that has going on concurrently.
static ckm_status run_given(void *context, ckm_status (*work)(ckm_i_solver *given, ckm_error *err), ckm_error *err)
{
    handover *h = context;
    void (*before)(void *context) = h->outer->background;
    void *before_context = h->outer->background_context;
    h->outer->background = h->inner.background;
    h->outer->background_context = h->inner.background_context;
    ckm_status status = ckm_i_solver_run_until(h->outer, h->inner.deadline_seconds, work, err);
    h->outer->background = before;
    h->outer->background_context = before_context;
    note_answer(h);
    return status;
}

static void tell(const ckm_i_solver *solver, const ckm_i_presolve *p)
{
    ckm_i_solver_log(solver, CKM_LOG_INFO,
                     "presolve: %d operators of %d (%d views, %d merged), %d tensors of %d (%d too small to matter, %d "
                     "not read), sizes in units of %lld bytes",
                     p->reduced->n_ops, p->original->n_ops, p->n_views, p->n_merged, p->reduced->n_tensors,
                     p->original->n_tensors, p->n_small, p->n_dead, (long long)p->unit_bytes);
}

// Bounds for budgets in the reduced problem's unit are bounds for those that they stand for.
static void hand_lines(const ckm_i_solver *inner, const ckm_i_presolve *p, const ckm_i_solver *outer)
{
    for (int32_t i = 0; outer->lines != NULL && i < inner->lines->n; i++) {
        ckm_i_bound_line line = inner->lines->at[i];
        line.at_bytes = outer->budget_bytes;
        line.unit_bytes = p->unit_bytes;
        ckm_i_bound_lines_add(outer->lines, &line);
    }
}

static ckm_status run_reduced(ckm_i_solver *solver, const ckm_i_presolve *p, const ckm_i_strategy *strategy,
                              ckm_error *err)
{
    ckm_solve_options options = *solver->options;
    handover h = {
        .outer = solver, .p = p, .handed_cost = -1, .handed_bound = solver->bound_cost, .error = CKM_ERROR_INIT};
    ckm_status status = CKM_OK;
    ckm_i_bound_lines lines = {0};
    ckm_schedule *hint = NULL;
    options.stop = should_stop;
    options.progress = watch;
    options.log = solver->options->log != NULL ? pass_log : NULL;
    options.user = &h;
    ckm_i_solver_init(&h.inner, p->reduced, &options, p->budget_bytes);
    h.inner.accounts = solver->accounts;
    ckm_i_solver_set_slice(&h.inner, solver, solver->deadline_seconds);
    h.inner.bound_cost = solver->bound_cost;
    h.inner.bound_covers = solver->bound_covers;
    h.inner.operators_merged = p->n_views + p->n_merged > 0;
    h.inner.background = solver->background;
    h.inner.background_context = solver->background_context;
    h.inner.lines = &lines;
    h.inner.proven_elsewhere = solver->proven_elsewhere;
    h.inner.is_near_floor = solver->is_near_floor;
    h.inner.may_find_nothing = solver->may_find_nothing;
    h.inner.given = (ckm_i_given){solver->df, run_given, &h};
    if (solver->hint != NULL) {
        CKM_I_TRY(ckm_i_presolve_map_forward(p, solver->hint, &hint, err));
        h.inner.hint = hint;
    }
    CKM_I_TRY(offer_start(&h, err));
    note_answer(&h);
    CKM_I_TRY(strategy->run(&h.inner, err));
    hand_lines(&h.inner, p, solver);
    hand_on(&h, strategy->name);
    CKM_I_TRY(hand_least(&h, err));
    if (h.inner.infeasible && solver->best_schedule == NULL) {
        ckm_i_solver_infeasible(solver, h.inner.infeasible_covers, "presolved");
    }
cleanup:
    if (status == CKM_OK && h.status != CKM_OK) {
        status = h.status;
        if (err != NULL) {
            *err = h.error;
        }
    }
    ckm_i_solver_dispose(&h.inner);
    ckm_i_bound_lines_dispose(&lines);
    ckm_schedule_free(hint);
    return status;
}

ckm_status ckm_i_presolve_run(ckm_i_solver *solver, const ckm_i_strategy *strategy, ckm_error *err)
{
    ckm_i_presolve *p = NULL;
    ckm_i_presolve_level level = level_for(solver, strategy);
    ckm_i_component_resume(solver, &ckm_i_component_presolve);
    ckm_status status = ckm_i_presolve_create(solver->df, solver->budget_bytes, level, &p, err);
    ckm_i_component_end(solver);
    CKM_I_CHECK(status);
    if (p == NULL) {
        return strategy->run(solver, err);
    }
    ckm_i_component_count(
        solver, level == CKM_I_PRESOLVE_OPERATORS ? &ckm_i_component_presolve_operators : &ckm_i_component_presolve,
        0.0);
    tell(solver, p);
    status = run_reduced(solver, p, strategy, err);
    ckm_i_presolve_free(p);
    return status;
}
