// SPDX-License-Identifier: Apache-2.0
// A schedule and a plan that fit a budget together.
#include <stdlib.h>

#include "base/error.h"
#include "base/options.h"
#include "dataflow/dataflow.h"
#include "run/session/session_region.h"

// Each round lowers the target by what exceeded the budget; if a few rounds are not enough, more do not help. Up to MOST_EMPTY rounds may find
// nothing; the next is then halfway back to the last budget that had a schedule.
enum { MOST_ROUNDS = 8, MOST_EMPTY = 2 };

// The arena's bytes, given the region's: what is left in whole pages after the persistent part.
static ckm_status room_for_arena(const ckm_dataflow *df, int64_t room, int64_t *arena, ckm_error *err)
{
    int64_t persistent;
    int64_t page = ckm_i_region_page_bytes();
    CKM_I_CHECK(ckm_i_region_lay_out(df, NULL, &persistent, err));
    *arena = room - room % page - persistent;
    return CKM_OK;
}

// Packs; when that is not within `arena` bytes, once more with ten times the effort.
static ckm_status pack(const ckm_dataflow *df, const ckm_schedule *s, const ckm_plan_options *options, int64_t arena,
                       ckm_plan **out, ckm_error *err)
{
    ckm_plan_options tuned = *options;
    ckm_plan *plan = NULL;
    tuned.target_bytes = arena > 0 ? arena : 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_plan_create(df, s, &tuned, &plan, err));
    const ckm_plan_info *info = ckm_plan_get_info(plan);
    if (info->arena_bytes > arena && info->bound_bytes <= arena && info->iterations > 0) {
        ckm_plan *better = NULL;
        tuned.iteration_limit = 10 * info->iterations;
        tuned.seed++;
        CKM_I_TRY(ckm_plan_create(df, s, &tuned, &better, err));
        if (ckm_plan_get_info(better)->arena_bytes < info->arena_bytes) {
            ckm_plan_free(plan);
            plan = better;
        } else {
            ckm_plan_free(better);
        }
    }
    *out = plan;
    plan = NULL;
cleanup:
    ckm_plan_free(plan);
    return status;
}

ckm_status ckm_run_plan_under_budget(const ckm_dataflow *df, int64_t budget_bytes, int64_t outside_bytes,
                                     const ckm_plan_options *options, ckm_run_solve_fn solve, void *user,
                                     ckm_run_fit *fit, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(solve, err);
    CKM_I_NEED(fit, err);
    ckm_run_fit found = {0};
    ckm_plan_options o = CKM_PLAN_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_plan_options, &o, user, options, err));
    ckm_status status;
    int64_t room = budget_bytes - outside_bytes;
    int64_t arena;
    if (budget_bytes < 0 || outside_bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "budget %lld and bytes outside %lld must not be negative",
                           (long long)budget_bytes, (long long)outside_bytes);
    }
    CKM_I_TRY(room_for_arena(df, room, &arena, err));
    int64_t last = 0;  // for which there was a schedule
    int n_empty = 0;
    for (int64_t budget = room; found.rounds < MOST_ROUNDS && budget > 0;) {
        found.rounds++;
        CKM_I_TRY(solve(budget, user, &found.schedule, err));
        if (found.schedule == NULL && last > budget + 1 && n_empty++ < MOST_EMPTY) {
            budget += (last - budget) / 2;
            continue;
        }
        if (found.schedule == NULL) {
            break;
        }
        last = budget;
        CKM_I_TRY(pack(df, found.schedule, &o, arena, &found.plan, err));
        CKM_I_TRY(ckm_run_region_bytes(df, found.plan, &found.region_bytes, err));
        found.solved_budget_bytes = budget;
        if (found.region_bytes <= room) {
            break;
        }
        // Packing may waste as much again.
        int64_t peak = ckm_plan_get_info(found.plan)->peak_bytes;
        int64_t less = (peak < budget ? peak : budget) - (found.region_bytes - room);
        // Nothing fits less than the floor; a schedule of no more may waste less.
        int64_t floor_bytes = ckm_dataflow_memory_floor(df);
        budget = less < floor_bytes && budget > floor_bytes ? floor_bytes : less;
        ckm_plan_free(found.plan);
        ckm_schedule_free(found.schedule);
        found.plan = NULL;
        found.schedule = NULL;
    }
    if (found.schedule == NULL) {
        found.region_bytes = 0;
        found.solved_budget_bytes = 0;
    }
    *fit = found;
    found = (ckm_run_fit){0};
cleanup:
    ckm_run_fit_dispose(&found);
    return status;
}

void ckm_run_fit_dispose(ckm_run_fit *fit)
{
    if (fit != NULL) {
        ckm_schedule_free(fit->schedule);
        ckm_plan_free(fit->plan);
        *fit = (ckm_run_fit){0};
    }
}
