// SPDX-License-Identifier: Apache-2.0
// checkmate train: a schedule and its plan that fit the budget, by the costs at hand.
#include "cli/cli_train.h"

#include "cli/cli_solve.h"

static ckm_status solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    train_setup *t = user;
    const train_settings *s = t->settings;
    cli_limit_settings limits = {s->time_limit_seconds, 1e-3, s->threads, 1, s->verbose};
    if (t->provisional) {
        limits.time_limit_seconds = limits.time_limit_seconds > 0 && limits.time_limit_seconds < 5
                                        ? limits.time_limit_seconds
                                        : 5;
        limits.gap = 0.1;
    }
    cli_progress progress = cli_progress_start(&limits, s->strategy, t->df);
    ckm_solve_options options = cli_solve_options(&limits, s->strategy, &progress);
    options.budget_bytes = budget_bytes;
    // Nothing beats the run without rematerialization where that fits.
    if (t->baseline_peak <= budget_bytes) {
        ckm_solve_result_dispose(&t->solved);
        t->solved = (ckm_solve_result){.status = CKM_SOLVE_OPTIMAL,
                                       .cost = t->baseline_cost,
                                       .peak_bytes = t->baseline_peak,
                                       .budget_bytes = budget_bytes,
                                       .bound_cost = (double)t->baseline_cost,
                                       .gap = 0.0,
                                       .least_peak_bytes = -1,
                                       .strategy = "none needed"};
        t->cost = t->baseline_cost;
        return ckm_schedule_baseline(t->df, out, err);
    }
    ckm_solve_result result;
    ckm_status status = ckm_solve(t->df, &options, &result, err);
    if (status == CKM_OK) {
        // Only what was asked for is proven; later rounds solve for less, because packing wasted some.
        if (result.status == CKM_SOLVE_INFEASIBLE && budget_bytes < t->budget_bytes - t->outside_bytes) {
            result.status = CKM_SOLVE_UNKNOWN;
        }
        *out = result.schedule;
        result.schedule = NULL;
        ckm_solve_result_dispose(&t->solved);
        t->solved = result;
        t->cost = result.cost;
    }
    return status;
}

ckm_status cli_train_fit(train_setup *t, ckm_error *err)
{
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    packing.stop = cli_stop_requested;
    ckm_run_fit_dispose(&t->fit);
    return ckm_run_plan_under_budget(t->df, t->budget_bytes, t->outside_bytes, &packing, solve, t, &t->fit, err);
}
