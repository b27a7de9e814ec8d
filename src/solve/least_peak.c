// SPDX-License-Identifier: Apache-2.0
#include "solve/least_peak.h"

#include <math.h>

#include "base/clock.h"
#include "solve/local_search.h"

// Local search for any schedule within `target` bytes.
static ckm_status try_target(ckm_i_solver *solver, int64_t target_bytes, double seconds, ckm_error *err)
{
    ckm_solve_options options = *solver->options;
    options.cost_limit = INT64_MAX;  // the first schedule that fits will do
    options.progress = NULL;
    options.log = NULL;
    double now = ckm_i_clock_seconds();
    ckm_i_solver attempt = {
        .df = solver->df,
        .options = &options,
        .start_seconds = now,
        .deadline_seconds = now + seconds,
        .budget_bytes = target_bytes,
        .best_cost = -1,
        .best_peak_bytes = -1,
        .least_peak_bytes = -1,
        .bound_cost = NAN,
    };
    ckm_i_local_search_options search = {.seconds = seconds, .moves = options.iteration_limit};
    ckm_status status = ckm_i_local_search(&attempt, &search, err);
    if (status == CKM_OK && attempt.least_peak_bytes >= 0 && attempt.least_peak_bytes < solver->least_peak_bytes) {
        solver->least_peak_bytes = attempt.least_peak_bytes;
    }
    ckm_schedule_free(attempt.best_schedule);
    ckm_i_stages_free(attempt.best_stages);
    return status;
}

ckm_status ckm_i_least_peak(ckm_i_solver *solver, double seconds, ckm_error *err)
{
    enum { steps = 6 };
    const ckm_solve_options *options = solver->options;
    int64_t low = solver->df->floor_bytes;
    ckm_status status = CKM_OK;
    for (int step = 0; step < steps && status == CKM_OK && low < solver->least_peak_bytes; step++) {
        if (options->stop != NULL && options->stop(options->user)) {
            break;
        }
        int64_t before = solver->least_peak_bytes;
        int64_t target = step == 0 ? low : low + (before - low) / 2;
        status = try_target(solver, target, seconds * (step == 0 ? 0.5 : 0.5 / (steps - 1)), err);
        if (solver->least_peak_bytes > target) {
            low = target;  // not found, which proves nothing: the search simply goes on above
        }
    }
    return status;
}
