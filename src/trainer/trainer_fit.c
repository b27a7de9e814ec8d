// SPDX-License-Identifier: Apache-2.0
// A schedule and its plan that fit a budget, found by ckm_solve.
#include <math.h>

#include "base/error.h"
#include "base/options.h"
#include "trainer/trainer.h"

typedef struct search {
    const ckm_dataflow *df;
    const ckm_solve_options *options;
    int64_t room_bytes;  // what the region may take
    const ckm_schedule *baseline;
    double bound_cost;  // proven of what fits the room; NaN: nothing
    ckm_bound_class bound_covers;
    ckm_solve_result found;
} search;

static void keep(search *s, const ckm_solve_result *result)
{
    ckm_solve_result_dispose(&s->found);
    s->found = *result;
    s->found.schedule = NULL;
}

// Running without rematerialization is optimal if it fits.
static ckm_status take_baseline(search *s, int64_t budget_bytes, ckm_schedule **out, ckm_error *err)
{
    const ckm_schedule_info *info = ckm_schedule_get_info(s->baseline);
    ckm_solve_result result = {.status = CKM_SOLVE_OPTIMAL,
                               .cost = info->cost,
                               .peak_bytes = info->peak_bytes,
                               .budget_bytes = budget_bytes,
                               .baseline_cost = info->cost,
                               .baseline_peak_bytes = info->peak_bytes,
                               .bound_cost = (double)info->cost,
                               .bound_covers = CKM_BOUND_ANY,
                               .gap = 0.0,
                               .least_peak_bytes = -1,
                               .strategy = "none needed"};
    keep(s, &result);
    return ckm_schedule_baseline(s->df, out, err);
}

// The first round is for the whole room. Later ones solve for less, because packing wasted some: their bounds hold only for the
// smaller budget, since bounds fall as budgets rise. So the result has the bound of the first.
static void claim_of_room(search *s, ckm_solve_result *result)
{
    static const double optimal_gap = 1e-4;
    if (result->budget_bytes >= s->room_bytes) {
        s->bound_cost = result->bound_cost;
        s->bound_covers = result->bound_covers;
        return;
    }
    result->budget_bytes = s->room_bytes;
    result->bound_cost = s->bound_cost;
    result->bound_covers = s->bound_covers;
    if (result->schedule == NULL) {
        result->status = CKM_SOLVE_UNKNOWN;
        return;
    }
    double more = (double)result->cost - s->bound_cost;
    result->gap = s->bound_cost > 0 ? fmax(0.0, more / s->bound_cost) : NAN;
    result->status = result->gap <= optimal_gap ? CKM_SOLVE_OPTIMAL : CKM_SOLVE_FEASIBLE;
}

static ckm_status solve(int64_t budget_bytes, void *user, ckm_schedule **out, ckm_error *err)
{
    search *s = user;
    ckm_solve_options options = *s->options;
    ckm_solve_result result;
    if (ckm_schedule_get_info(s->baseline)->peak_bytes <= budget_bytes) {
        return take_baseline(s, budget_bytes, out, err);
    }
    options.budget_bytes = budget_bytes;
    CKM_I_CHECK(ckm_solve(s->df, &options, &result, err));
    claim_of_room(s, &result);
    *out = result.schedule;
    keep(s, &result);
    return CKM_OK;
}

ckm_status ckm_trainer_fit(const ckm_dataflow *df, int64_t budget_bytes, int64_t outside_bytes,
                           const ckm_solve_options *options, ckm_run_fit *fit, ckm_solve_result *result, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(fit, err);
    ckm_solve_options o = CKM_SOLVE_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_solve_options, &o, start, options, err));
    search s = {.df = df, .options = &o, .room_bytes = budget_bytes - outside_bytes, .bound_cost = NAN};
    ckm_plan_options packing = CKM_PLAN_OPTIONS_INIT;
    packing.stop = o.stop;
    packing.user = o.user;
    // Schedules with transfers have many short live ranges, and packing them well takes long: at most as long as the search.
    if (ckm_dataflow_get_second_memory(df, NULL) && o.time_limit_seconds > 0) {
        packing.time_limit_seconds = o.time_limit_seconds;
    }
    ckm_schedule *baseline = NULL;
    CKM_I_CHECK(ckm_schedule_baseline(df, &baseline, err));
    s.baseline = baseline;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_run_plan_under_budget(df, budget_bytes, outside_bytes, &packing, solve, &s, fit, err));
    if (result != NULL) {
        *result = s.found;
        s.found = (ckm_solve_result){0};
    }
cleanup:
    ckm_schedule_free(baseline);
    ckm_solve_result_dispose(&s.found);
    return status;
}
