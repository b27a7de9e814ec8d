// SPDX-License-Identifier: Apache-2.0
// Measuring a program within a given memory.
#include "cli/cli_profile.h"

#include "cli/cli_solve.h"

// A schedule good enough to measure by; what is measured does not depend on how good it is.
static const double seconds_to_solve = 5.0;

// Schedule and plan to measure by.
static ckm_status fit_memory(const ckm_dataflow *df, int64_t memory_bytes, ckm_run_fit *fit, ckm_error *err)
{
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_status status = ckm_schedule_baseline(df, &fit->schedule, err);
    if (status == CKM_OK) {
        status = ckm_plan_create(df, fit->schedule, &options, &fit->plan, err);
    }
    if (status == CKM_OK) {
        status = ckm_run_region_bytes(df, fit->plan, &fit->region_bytes, err);
    }
    if (status != CKM_OK || memory_bytes < 0 || fit->region_bytes <= memory_bytes) {
        return status;
    }
    ckm_run_fit_dispose(fit);
    ckm_solve_options search = CKM_SOLVE_OPTIONS_INIT;
    search.time_limit_seconds = seconds_to_solve;
    search.gap = 0.1;
    search.stop = cli_stop_requested;
    status = ckm_trainer_fit(df, memory_bytes, 0, &search, fit, NULL, err);
    if (status != CKM_OK || fit->schedule != NULL) {
        return status;
    }
    int64_t floor_bytes = 0;
    status = ckm_min_budget_floor(df, &floor_bytes, err);
    if (status != CKM_OK) {
        return status;
    }
    return cli_error(err, CKM_ERR_MEMORY, NULL,
                     "no schedule was found that lets the operators be measured within %lld bytes; at least %lld are "
                     "needed",
                     (long long)memory_bytes, (long long)floor_bytes);
}

ckm_status cli_profile_measure(const ckm_training *training, ckm_program *program, int64_t memory_bytes,
                               const ckm_profile_options *options, ckm_profile **out, ckm_error *err)
{
    ckm_cost_model flops = CKM_COST_MODEL_INIT;
    ckm_dataflow *df = NULL;
    ckm_run_fit fit = {NULL, NULL, 0, 0, 0};
    ckm_status status = ckm_cost_apply(training, &flops, &df, err);
    if (status == CKM_OK) {
        status = fit_memory(df, memory_bytes, &fit, err);
    }
    if (status == CKM_OK) {
        status = ckm_profile_measure(program, df, fit.schedule, fit.plan, options, out, err);
    }
    ckm_run_fit_dispose(&fit);
    ckm_dataflow_free(df);
    return status;
}

void cli_profile_warn(const ckm_profile_info *info)
{
    char why[CKM_PROFILE_WORDS];
    if (!info->steady) {
        ckm_profile_explain_unsteady(info, why, sizeof why);
        cli_warnf("%s: measure again when nothing else runs", why);
    }
}
