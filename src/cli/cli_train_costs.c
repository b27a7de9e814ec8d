// SPDX-License-Identifier: Apache-2.0
// checkmate train: what operators cost. FLOPs, times from a file, or times measured on this machine and kept for the next
// run.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_costs.h"
#include "cli/cli_solve.h"
#include "cli/cli_train.h"

// The dataflow graph at these costs.
ckm_status cli_train_apply_costs(train_setup *t, const char *what, ckm_error *err)
{
    cli_costs costs;
    ckm_dataflow *df = NULL;
    ckm_schedule *baseline = NULL;
    ckm_simulation facts;
    ckm_profile_info info = {0};
    ckm_status status = cli_costs_choose(what, &costs, err);
    if (status == CKM_OK && costs.model.kind == CKM_COST_MODEL_PROFILE) {
        status = ckm_profile_read_info(costs.model.profile_path, &info, err);
    }
    if (status == CKM_OK) {
        status = ckm_cost_apply(t->training, &costs.model, &df, err);
    }
    if (status == CKM_OK) {
        status = ckm_schedule_baseline(df, &baseline, err);
    }
    if (status == CKM_OK) {
        status = ckm_schedule_simulate(df, baseline, NULL, &facts, err);
    }
    if (status != CKM_OK) {
        ckm_schedule_free(baseline);
        ckm_dataflow_free(df);
        return status;
    }
    ckm_schedule_free(t->baseline);
    ckm_dataflow_free(t->df);
    t->df = df;
    t->baseline = baseline;
    t->baseline_cost = facts.cost;
    t->baseline_peak = facts.peak_bytes;
    t->beside_operators = info.step_ns > info.predicted_ns && info.predicted_ns > 0 ? info.step_ns - info.predicted_ns
                                                                                    : 0;
    return CKM_OK;
}

double cli_train_predicted_seconds(const train_setup *t, int64_t cost)
{
    return ckm_dataflow_cost_unit(t->df) == CKM_COST_NS ? ((double)cost + (double)t->beside_operators) * 1e-9
                                                        : (double)NAN;
}

// Without a budget to fit there is nothing to weigh, so nothing to measure either.
static bool fits_as_it_is(const train_setup *t)
{
    // Packing may waste a little.
    return t->baseline_peak + t->baseline_peak / 20 + t->outside_bytes <= t->budget_bytes;
}

static void note_unsteady(const ckm_profile_info *info)
{
    int64_t measured = info->steps + info->steps_left_out;
    fprintf(
        stderr,
        "%snote:%s the machine was busy with other things while the operators were measured (%lld of %lld steps "
        "were held up; a step takes %.0f %% longer than its operators): these times serve this run, and the next one "
        "measures again\n",
        cli_style(stderr, CLI_WARN), cli_style(stderr, CLI_PLAIN), (long long)info->steps_left_out, (long long)measured,
        100.0 * ((double)info->step_ns / (double)(info->predicted_ns > 0 ? info->predicted_ns : 1) - 1.0));
}

static ckm_status fill(ckm_session *session, int64_t step, void *user, ckm_error *err)
{
    const train_setup *t = user;
    return ckm_train_fetch(session, t->data, step, err);
}

// Measures the operators by a schedule that fits the budget, and keeps the profile.
static ckm_status measure(train_setup *t, const char *path, ckm_error *err)
{
    ckm_profile_options options = CKM_PROFILE_OPTIONS_INIT;
    ckm_profile *profile = NULL;
    options.steps = 11;
    options.time_limit_seconds = 10;
    options.stop = cli_stop_requested;
    options.fill = fill;
    options.user = t;
    if (t->settings->verbose) {
        fprintf(stderr, "measuring operators; the times are kept in %s\n", path);
    }
    ckm_status status = ckm_profile_measure(t->program, t->df, t->fit.schedule, t->fit.plan, &options, &profile, err);
    if (status == CKM_OK) {
        status = ckm_profile_write(profile, path, err);
    }
    if (status == CKM_OK && !ckm_profile_get_info(profile)->steady) {
        note_unsteady(ckm_profile_get_info(profile));
    }
    ckm_profile_free(profile);
    return status == CKM_OK ? cli_train_apply_costs(t, path, err) : status;
}

// What cannot be measured or kept stays FLOPs, and that is said.
ckm_status cli_train_measure_costs(train_setup *t, ckm_error *err)
{
    char path[4096];
    ckm_error why = CKM_ERROR_INIT;
    ckm_profile_info kept;
    if (fits_as_it_is(t) && t->settings->compare == 0) {
        return CKM_OK;
    }
    ckm_status status = ckm_profile_cache_path(t->program, path, sizeof path, &why);
    // Times taken on a busy machine are marked as such, and good for no other run.
    if (status == CKM_OK && access(path, R_OK) == 0 && ckm_profile_read_info(path, &kept, NULL) == CKM_OK &&
        kept.steady && cli_train_apply_costs(t, path, &why) == CKM_OK) {
        return CKM_OK;
    }
    if (status == CKM_OK) {
        // What is measured hardly depends on how good the schedule is.
        t->provisional = true;
        status = cli_train_fit(t, err);
        t->provisional = false;
        if (status != CKM_OK || t->fit.schedule == NULL) {
            return status;
        }
        status = measure(t, path, &why);
    }
    if (status != CKM_OK) {
        fprintf(stderr, "%snote:%s operators could not be measured, so their FLOPs serve as costs: %s%s%s\n",
                cli_style(stderr, CLI_WARN), cli_style(stderr, CLI_PLAIN), why.file, why.file[0] != '\0' ? ": " : "",
                why.message);
    }
    return CKM_OK;
}
