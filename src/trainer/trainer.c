// SPDX-License-Identifier: Apache-2.0
// The trainer: network, step, kernels, costs, data, budget, schedule; then the session; then steps.
#include "trainer/trainer.h"
#include "trainer/trainer_validate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "autodiff/step.h"
#include "run/ranks/ranks.h"
#include "run/session/program.h"
#include "run/session/session.h"
#include "run/train/train.h"

// The bytes of training without rematerialization, exactly: percentages refer to them, and a budget that large needs no
// recomputation. Recomputing needs larger tables: an estimate that is checked afterwards.
static ckm_status find_whole(ckm_trainer *t, ckm_error *err)
{
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    packing.stop = ckm_i_trainer_stops;
    packing.user = t;
    int64_t region_bytes = 0;
    CKM_I_CHECK(ckm_plan_create(t->df, t->baseline, &packing, &t->baseline_plan, err));
    CKM_I_CHECK(ckm_run_region_bytes(t->df, t->baseline_plan, &region_bytes, err));
    int64_t tables = ckm_i_session_table_bytes(t->program, t->baseline);
    int64_t outside_fixed = ckm_i_trainer_outside_fixed(t);
    if (!ckm_i_add(region_bytes, outside_fixed + tables, &t->whole_bytes)) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "the bytes of a step do not fit 63 bits");
    }
    t->outside_bytes = outside_fixed + tables;
    return ckm_i_trainer_go_on(t, err);
}

static ckm_status open_data(ckm_trainer *t, ckm_error *err)
{
    ckm_train_fields fields;
    ckm_data_options options;
    const ckm_trainer_options *o = &t->options;
    CKM_I_CHECK(ckm_i_trainer_data_options(t, t->training, &fields, &options, err));
    ckm_i_data_share share = ckm_i_trainer_share(t, false);
    const char *path = o->data != NULL ? o->data : "synthetic";
    CKM_I_CHECK(ckm_i_data_open_share(o->source != NULL ? NULL : path, o->source, &options, &share, &t->data, err));
    return ckm_i_trainer_validates(o) ? ckm_i_trainer_build_validation(t, err) : CKM_OK;
}

static ckm_status find_budget(ckm_trainer *t, ckm_error *err)
{
    const ckm_trainer_options *o = &t->options;
    if (o->budget_bytes > 0) {
        t->budget_bytes = o->budget_bytes;
        return CKM_OK;
    }
    if (o->budget_fraction > 0) {
        double bytes = (double)t->whole_bytes * o->budget_fraction;
        t->budget_bytes = bytes < 9e18 ? (int64_t)(bytes + 0.5) : INT64_MAX;
        return CKM_OK;
    }
    if (o->activations_fraction > 0) {
        ckm_simulation kept;
        CKM_I_CHECK(ckm_schedule_simulate(t->df, t->baseline, NULL, &kept, err));
        double activations = (double)(kept.peak_bytes - ckm_dataflow_standing_bytes(t->df));
        double bytes = (double)t->whole_bytes - activations * (1 - o->activations_fraction);
        t->budget_bytes = bytes < 9e18 ? (int64_t)(bytes + 0.5) : INT64_MAX;
        return CKM_OK;
    }
    int64_t available = ckm_program_free_bytes(t->program);
    if (t->ranks != NULL) {
        // The smallest of the ranks' shares of their machines, so that all have the same budget.
        int64_t taken = INT64_MAX - (available < 0 ? 0 : available / (t->ranks->local > 0 ? t->ranks->local : 1));
        CKM_I_CHECK(ckm_i_ranks_most(t->ranks, &taken, err));
        available = available < 0 ? -1 : INT64_MAX - taken;
    }
    if (available < 0) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "this system does not say how much memory is available: the budget needs a size");
    }
    t->budget_bytes = available / 10 * 8;
    return CKM_OK;
}

// Network, training graph, kernels, costs, data; costs that are to be measured begin as multiply-accumulates.
static ckm_status build_parts(ckm_trainer *t, ckm_error *err)
{
    const ckm_trainer_options *o = &t->options;
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_i_sharing sharing = t->ranks != NULL     ? CKM_I_SHARING_EXCHANGE
                            : t->accumulated > 1 ? CKM_I_SHARING_SUM
                                                 : CKM_I_SHARING_NONE;
    CKM_I_CHECK(ckm_i_trainer_find_place(t, err));
    CKM_I_CHECK(t->predicts ? CKM_OK : ckm_i_trainer_check_states(t, err));
    CKM_I_CHECK(o->exports_model ? ckm_i_trainer_check_modes(t, err) : CKM_OK);
    CKM_I_CHECK(t->predicts ? ckm_i_autodiff_forward_graph(t->graph, t->evaluates, &t->training, err)
                            : ckm_i_autodiff_op_graph(t->graph, &t->step, sharing, &t->training, err));
    CKM_I_CHECK(ckm_i_program_create(t->training, &t->kernels, ckm_i_trainer_stops, t, &t->program, err));
    CKM_I_CHECK(ckm_i_trainer_find_second_memory(t, err));
    CKM_I_CHECK(ckm_i_trainer_apply_costs(t, o->costs == CKM_TRAINER_COSTS_MODEL ? &t->cost_model : &flops, err));
    CKM_I_CHECK(t->predicts ? CKM_OK : open_data(t, err));
    CKM_I_CHECK(ckm_i_trainer_go_on(t, err));
    CKM_I_CHECK(t->predicts ? CKM_OK : ckm_i_trainer_keep_settings(t, err));
    CKM_I_CHECK(t->predicts ? CKM_OK : ckm_i_trainer_take_notes(t, err));
    return o->model != NULL ? ckm_import_values_open(o->model, &t->importing, &t->values, err) : CKM_OK;
}

static ckm_status build(ckm_trainer *t, ckm_error *err)
{
    CKM_I_CHECK(ckm_i_trainer_meet(t, build_parts(t, err), err));
    CKM_I_CHECK(ckm_ranks_agree(t->ranks, find_whole(t, err), err));
    CKM_I_CHECK(ckm_ranks_agree(t->ranks, find_budget(t, err), err));
    if (t->whole_bytes > t->budget_bytes) {
        t->outside_bytes += (t->outside_bytes - ckm_i_trainer_outside_fixed(t)) / 2;
    }
    // One rank's measurements are as good as another's, and only rank 0 searches.
    bool measures = t->options.costs == CKM_TRAINER_COSTS_MEASURED && (t->ranks == NULL || t->ranks->rank == 0);
    return ckm_ranks_agree(t->ranks, measures ? ckm_i_trainer_measure_costs(t, err) : CKM_OK, err);
}

// A larger multiple of the bytes without rematerialization is a percentage mistaken for a fraction.
static const double most_fraction = 10.0;

// Rejects inconsistent options.
static ckm_status check_options(const ckm_trainer_options *o, ckm_error *err)
{
    if (o->budget_fraction > most_fraction || o->activations_fraction > most_fraction) {
        bool whole = o->budget_fraction > most_fraction;
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "`%s_fraction` is %g: it is a fraction, 0.6 for 60 %%",
                           whole ? "budget" : "activations", whole ? o->budget_fraction : o->activations_fraction);
    }
    if (o->budget_bytes < 0 || !(o->budget_fraction >= 0) || !(o->activations_fraction >= 0)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a budget cannot be negative or infinite");
    }
    if (o->data != NULL && o->source != NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "`data` and `source` both say where samples come from: give one");
    }
    if (o->accumulate < 0 || o->accumulate > CKM_RANKS_MOST) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "`accumulate` is %lld; it must be from 0 to %d",
                           (long long)o->accumulate, CKM_RANKS_MOST);
    }
    if (o->ranks != NULL && (o->ranks->count < 1 || o->ranks->count > CKM_RANKS_MOST || o->ranks->rank < 0 ||
                             o->ranks->rank >= o->ranks->count)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "rank %d of %d: ranks count from 0, and there are at most %d",
                           (int)o->ranks->rank, (int)o->ranks->count, CKM_RANKS_MOST);
    }
    if (o->accumulate > 1 && o->ranks != NULL && o->ranks->count > 1) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "several processes train on one batch each in a step: leave out `accumulate`");
    }
    if (!(o->validate_fraction >= 0 && o->validate_fraction < 1)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "`validate_fraction` is %g: it must be at least 0 and below 1",
                           o->validate_fraction);
    }
    if (o->validate != NULL && o->validate_fraction > 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "`validate` and `validate_fraction` both say what to validate on: give one");
    }
    if (o->weights != NULL && o->resume != NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "`resume` restores the parameters of its run: leave out `weights`");
    }
    return CKM_OK;
}

// Where the defaults are the trainer's, and not those of the parts. Everything else at its default is filled in by the parts.
static void fill_in(ckm_trainer *t)
{
    ckm_optimizer *o = &t->step.optimizer;
    if (o->kind == CKM_OPTIMIZER_NONE) {
        o->kind = CKM_OPTIMIZER_SGD;
        o->momentum = o->momentum == 0.0 ? 0.9 : o->momentum;
    }
    t->solve.time_limit_seconds = t->solve.time_limit_seconds == 0.0 ? 20.0 : t->solve.time_limit_seconds;
    t->solve.gap = t->solve.gap == 0.0 ? 1e-3 : t->solve.gap;
}

// Copies all options, those of the parts among them.
static ckm_status read_options(ckm_trainer *t, const ckm_trainer_options *given, ckm_error *err)
{
    ckm_trainer_options *o = &t->options;
    *o = (ckm_trainer_options)CKM_TRAINER_OPTIONS_INIT;
    t->step = (ckm_autodiff_options)CKM_AUTODIFF_OPTIONS_INIT;
    t->kernels = (ckm_program_options)CKM_PROGRAM_OPTIONS_INIT;
    t->solve = (ckm_solve_options)CKM_SOLVE_OPTIONS_INIT;
    t->cost_model = (ckm_cost_model)CKM_COST_MODEL_INIT;
    t->reading = (ckm_data_options)CKM_DATA_OPTIONS_INIT;
    t->importing = (ckm_import_options)CKM_IMPORT_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_trainer_options, o, searching, given, err));
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_autodiff_options, &t->step, optimizer, o->step, err));
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_program_options, &t->kernels, backend, o->kernels, err));
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_solve_options, &t->solve, start, o->solve, err));
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_cost_model, &t->cost_model, device, o->cost_model, err));
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_data_options, &t->reading, synthetic_samples, o->reading, err));
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_import_options, &t->importing, input_dims, o->importing, err));
    fill_in(t);
    t->kernels.second_memory = o->offload != NULL ? o->offload : t->kernels.second_memory;
    t->accumulated = o->accumulate > 1 ? o->accumulate : 1;
    t->ranks = o->ranks != NULL && o->ranks->count > 1 ? o->ranks : NULL;
    o->step = NULL;
    o->kernels = NULL;
    o->solve = NULL;
    o->cost_model = NULL;
    o->reading = NULL;
    o->importing = NULL;
    return CKM_OK;
}

ckm_status ckm_i_trainer_plan(const ckm_graph *graph, const ckm_trainer_options *options,
                              const ckm_inference_options *prediction, ckm_trainer **out, ckm_error *err)
{
    ckm_trainer *t = ckm_i_calloc(1, sizeof *t);
    if (t == NULL) {
        return ckm_i_error_memory(err);
    }
    t->graph = graph;
    t->predicts = prediction != NULL;
    t->evaluates = prediction != NULL && prediction->evaluates;
    t->reading_bytes = prediction != NULL ? prediction->reading_bytes : 0;
    t->least_bytes = -1;
    ckm_status status = CKM_OK;
    CKM_I_TRY(read_options(t, options, err));
    CKM_I_TRY(check_options(&t->options, err));
    CKM_I_TRY(build(t, err));
    CKM_I_TRY(ckm_i_trainer_fit_together(t, err));
    CKM_I_TRY(ckm_ranks_agree(t->ranks, ckm_i_trainer_fit_validation(t, err), err));
    if (t->fit.schedule == NULL && t->ranks == NULL) {
        CKM_I_TRY(ckm_i_trainer_find_least(t, err));
        CKM_I_TRY(ckm_i_trainer_go_on(t, err));
    }
    ckm_i_process_give_back();
    *out = t;
    t = NULL;
cleanup:
    ckm_trainer_close(t);
    return status;
}

ckm_status ckm_trainer_plan(const ckm_graph *graph, const ckm_trainer_options *options, ckm_trainer **out,
                            ckm_error *err)
{
    CKM_I_NEED(graph, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    return ckm_i_trainer_plan(graph, options, NULL, out, err);
}

static ckm_status nothing_fits(const ckm_trainer *t, ckm_error *err)
{
    ckm_trainer_info info = ckm_trainer_get_info(t);
    char least[64] = "";
    if (info.least_bytes > 0) {
        snprintf(least, sizeof least, "; %lld were tried and do", (long long)info.least_bytes);
    }
    // The floor covers every schedule; other proofs cover those that keep the order.
    const char *in_order = info.budget_bytes < info.floor_bytes ? "" : " in the network's order";
    return ckm_i_error(err, CKM_ERR_ARGUMENT,
                       "no schedule%s fits a budget of %lld bytes: %s, kernels, threads and tables take %lld, and at "
                       "least %lld are proven to be needed in all, in any order%s",
                       info.proven ? in_order : " was found that", (long long)info.budget_bytes,
                       t->predicts ? "files" : "data read ahead", (long long)info.outside_bytes,
                       (long long)info.floor_bytes, least);
}

// Buffers of the exchange, counted in the bytes outside the region.
static ckm_status make_exchange(ckm_trainer *t, ckm_error *err)
{
    int64_t most = 0;
    if (t->ranks == NULL || t->exchange != NULL) {
        return CKM_OK;
    }
    if (!t->program->backend->memory->host) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "back end \"%.60s\" has memory of its own, which other processes cannot be sent from",
                           t->program->backend->name);
    }
    int32_t n = ckm_i_session_exchanged(t->program, &most);
    return ckm_i_exchange_create(t->ranks, n, most, &t->exchange, err);
}

static ckm_status make_session(ckm_trainer *t, ckm_error *err)
{
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    options.seed = t->place.seed;
    options.prefault = true;
    CKM_I_CHECK(make_exchange(t, err));
    ckm_i_session_making making = {.stop = ckm_i_trainer_stops, .user = t};
    return ckm_i_session_create(t->program, t->df, t->fit.schedule, t->fit.plan, &options, &making, &t->session, err);
}

// On failure drops the session, whose parameters are then undefined; the caller may try again.
static ckm_status set_parameters(ckm_trainer *t, ckm_error *err)
{
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_ranks_agree(t->ranks, ckm_i_trainer_set_parameters(t, t->session, err), err));
    CKM_I_TRY(ckm_i_trainer_compare_parameters(t, err));
    return CKM_OK;
cleanup:
    ckm_session_free(t->session);
    t->session = NULL;
    return status;
}

ckm_status ckm_trainer_begin(ckm_trainer *t, ckm_error *err)
{
    enum { MOST_ATTEMPTS = 4 };
    CKM_I_NEED_NAMED(t, "trainer", err);
    if (t->session != NULL) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "training has begun already");
    }
    for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
        if (t->fit.schedule == NULL) {
            return nothing_fits(t, err);
        }
        ckm_i_process_give_back();
        CKM_I_CHECK(ckm_ranks_agree(t->ranks, make_session(t, err), err));
        ckm_session_memory memory = ckm_session_get_memory(t->session);
        int64_t outside = ckm_i_trainer_outside_fixed(t) + memory.table_bytes;
        if (memory.region_bytes + outside <= t->budget_bytes) {
            t->outside_bytes = outside;
            CKM_I_CHECK(ckm_ranks_agree(t->ranks, ckm_i_trainer_begin_validation(t, err), err));
            return set_parameters(t, err);
        }
        // The tables are larger than estimated: plan again with less room.
        ckm_session_free(t->session);
        t->session = NULL;
        t->outside_bytes = outside + memory.table_bytes / 4;
        CKM_I_CHECK(ckm_i_trainer_fit_together(t, err));
        CKM_I_CHECK(ckm_ranks_agree(t->ranks, ckm_i_trainer_fit_validation(t, err), err));
    }
    return ckm_i_error(err, CKM_ERR_INTERNAL, "the plan and its tables do not settle within the budget");
}

ckm_status ckm_trainer_open(const ckm_graph *graph, const ckm_trainer_options *options, ckm_trainer **out,
                            ckm_error *err)
{
    ckm_trainer *t = NULL;
    CKM_I_NEED(graph, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    CKM_I_CHECK(ckm_trainer_plan(graph, options, &t, err));
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_trainer_begin(t, err));
    *out = t;
    t = NULL;
cleanup:
    ckm_trainer_close(t);
    return status;
}

void ckm_trainer_close(ckm_trainer *t)
{
    if (t == NULL) {
        return;
    }
    ckm_i_trainer_close_validation(t->validation);
    ckm_i_trainer_free_notes(t->notes);
    ckm_session_free(t->session);
    ckm_i_exchange_free(t->exchange);
    ckm_run_fit_dispose(&t->fit);
    ckm_solve_result_dispose(&t->solved);
    ckm_plan_free(t->baseline_plan);
    ckm_schedule_free(t->baseline);
    ckm_import_values_close(t->values);
    ckm_data_close(t->data);
    ckm_dataflow_free(t->df);
    ckm_program_free(t->program);
    ckm_training_free(t->training);
    free(t->valued);
    free(t);
}

// Why there is no schedule: what is proven to be needed.
static void explain_absence(const ckm_trainer *t, ckm_trainer_info *info)
{
    int64_t floor_bytes = 0;
    if (ckm_min_budget_floor(t->df, &floor_bytes, NULL) != CKM_OK) {
        floor_bytes = 0;
    }
    // Solving may have proven more. The size of the tables is an estimate, on which no proof may rest.
    int64_t outside_fixed = ckm_i_trainer_outside_fixed(t);
    floor_bytes = (t->solved.floor_bytes > floor_bytes ? t->solved.floor_bytes : floor_bytes) + outside_fixed;
    info->floor_bytes = floor_bytes;
    bool any_room = t->solved.status == CKM_SOLVE_INFEASIBLE && t->solved.bound_covers != CKM_BOUND_FRONTIER &&
                    t->budget_bytes - outside_fixed <= t->solved.budget_bytes;
    info->proven = t->budget_bytes < floor_bytes || any_room;
}

ckm_trainer_info ckm_trainer_get_info(const ckm_trainer *t)
{
    if (t == NULL) {
        return (ckm_trainer_info){.strategy = "", .parameters_from = ""};
    }
    const ckm_schedule_info *baseline = ckm_schedule_get_info(t->baseline);
    ckm_trainer_info info = {
        .fits = t->fit.schedule != NULL,
        .budget_bytes = t->budget_bytes,
        .used_bytes = -1,
        .outside_bytes = t->outside_bytes,
        .baseline_bytes = t->whole_bytes,
        .least_bytes = t->least_bytes,
        .cost = t->solved.cost,
        .baseline_cost = baseline->cost,
        .step_seconds = ckm_i_trainer_seconds(t, t->solved.cost),
        .baseline_step_seconds = ckm_i_trainer_seconds(t, baseline->cost),
        .strategy = t->solved.strategy,
        .parameters_from = t->parameters_from,
        .resumed = t->resumed,
        .place = t->place,
    };
    if (t->session != NULL) {
        info.used_bytes = ckm_session_get_memory(t->session).region_bytes + t->outside_bytes;
    }
    if (!info.fits) {
        explain_absence(t, &info);
    }
    return info;
}

ckm_status ckm_trainer_run(ckm_trainer *t, const ckm_train_options *options, ckm_train_result *result, ckm_error *err)
{
    CKM_I_NEED_NAMED(t, "trainer", err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(result, err);
    CKM_I_NEED_NAMED(t->session, "session", err);
    ckm_train_options course = CKM_TRAIN_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_train_options, &course, user, options, err));
    if (course.last_step < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "last_step is %lld; it must not be negative",
                           (long long)course.last_step);
    }
    // At least one, so that ckm_i_train_run can say what is wrong.
    int64_t batches = ckm_data_get_facts(t->data).batches / ckm_i_trainer_step_batches(t);
    batches = batches > 0 ? batches : 1;
    const ckm_i_train_parts parts = {.batches = t->accumulated,
                                     .ranks = t->ranks,
                                     .exchange = t->exchange,
                                     .settings = &t->settings,
                                     .validate = t->validation != NULL ? ckm_i_trainer_validate : NULL,
                                     .is_best = ckm_i_trainer_is_best,
                                     .user = t};
    if (t->ranks != NULL && t->ranks->rank != 0) {
        course.save_path = NULL;
        course.best_path = NULL;
    }
    course.place = t->place;
    course.first_step = t->place.step;
    course.last_step = course.last_step > 0 ? course.last_step : (t->place.step / batches + 1) * batches;
    if (course.first_step >= course.last_step) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, t->options.resume, 0, -1,
                              "already holds %lld steps, but training is to end after %lld: "
                              "give more steps or epochs, which count from the start",
                              (long long)course.first_step, (long long)course.last_step);
    }
    CKM_I_CHECK(ckm_ranks_agree(t->ranks, ckm_i_trainer_keep_rate(t, course.rate, err), err));
    CKM_I_CHECK(ckm_i_train_run(t->session, t->data, &course, &parts, result, err));
    t->place.step = result->next_step;
    return CKM_OK;
}

ckm_session *ckm_trainer_session(ckm_trainer *t)
{
    return t != NULL ? t->session : NULL;
}

ckm_data *ckm_trainer_data(ckm_trainer *t)
{
    return t != NULL ? t->data : NULL;
}

const ckm_program *ckm_trainer_program(const ckm_trainer *t)
{
    return t != NULL ? t->program : NULL;
}

const ckm_dataflow *ckm_trainer_dataflow(const ckm_trainer *t)
{
    return t != NULL ? t->df : NULL;
}

const ckm_schedule *ckm_trainer_schedule(const ckm_trainer *t)
{
    return t != NULL ? t->fit.schedule : NULL;
}
