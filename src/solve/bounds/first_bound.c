// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/single_cut.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/bounds/window_run.h"
#include "solve/bounds/cut_points.h"
#include "solve/core/component_registry.h"
#include "solve/core/structure.h"
#include "solve/search/search_moves.h"

// Arcs that the flows of one cut may look at: some seconds where the flow is a hard one, which it hardly ever is.
static const int64_t work_of_cut = 200000000;

static ckm_status try_places(ckm_i_solver *solver, ckm_i_cut_points *places, const int32_t *last_need, double end,
                             ckm_i_single_cut **best, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_i_single_cut *cut = NULL;
    int64_t best_bound = solver->df->total_cost;
    int32_t at = ckm_i_cut_points_next(places);
    for (int i = 0; at >= 0 && (i == 0 || ckm_i_clock_seconds() < end); i++) {
        CKM_I_TRY(ckm_i_single_cut_create(solver->df, last_need, at, &cut, err));
        int64_t bound = 0;
        CKM_I_TRY(ckm_i_single_cut_bound(cut, solver->budget_bytes, work_of_cut, &bound, err));
        ckm_i_cut_points_score(places, at, (double)bound);
        if (bound > best_bound) {
            best_bound = bound;
            ckm_i_single_cut_free(*best);
            *best = cut;
            cut = NULL;
        }
        ckm_i_single_cut_free(cut);
        cut = NULL;
        at = ckm_i_cut_points_next(places);
    }
    if (best_bound > solver->df->total_cost && best_bound < (int64_t)1 << 53) {
        ckm_i_solver_bound(solver, (double)best_bound, CKM_BOUND_ORDER, "single-cut");
    } else if (best_bound > solver->df->total_cost) {
        // As a double it may be rounded up.
        ckm_i_solver_bound(solver, (double)best_bound * (1.0 - 1e-15), CKM_BOUND_ORDER, "single-cut");
    }
cleanup:
    ckm_i_single_cut_free(cut);
    return status;
}

ckm_status ckm_i_first_bound(ckm_i_solver *solver, double seconds, ckm_i_spans **rounded, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    double end = ckm_i_clock_seconds() + seconds;
    ckm_i_cut_points places = {0};
    ckm_i_single_cut *best = NULL;
    ckm_status status = CKM_OK;
    *rounded = NULL;
    if (df->n_ops == 0) {
        return CKM_OK;
    }
    int32_t *last_need = ckm_i_malloc((size_t)df->n_ops, sizeof *last_need);
    if (last_need == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_i_last_need(df, last_need);
    CKM_I_TRY(ckm_i_cut_points_init(df, solver->budget_bytes, ckm_i_window_first(df), &places, err));
    CKM_I_TRY(try_places(solver, &places, last_need, end, &best, err));
    if (best != NULL) {
        CKM_I_TRY(ckm_i_single_cut_round(best, solver->budget_bytes, rounded, err));
    }
cleanup:
    ckm_i_single_cut_free(best);
    ckm_i_cut_points_dispose(&places);
    free(last_need);
    return status;
}

ckm_status ckm_i_first_schedule(ckm_i_solver *solver, const ckm_i_spans *spans, double seconds, ckm_error *err)
{
    double end = ckm_i_clock_seconds() + seconds;
    ckm_i_search *s = NULL;
    ckm_i_mover mover = {0};
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_search_create(solver->df, solver->budget_bytes, &s, err));
    CKM_I_TRY(ckm_i_mover_create(s, solver->options->seed, &mover, err));
    CKM_I_TRY(ckm_i_search_take(s, spans, err));
    ckm_i_mover_repair(&mover, end);
    if (s->failed) {
        status = ckm_i_error_memory(err);
    } else if (s->excess <= 0.5) {
        CKM_I_TRY(ckm_i_search_emit(s, &schedule, err));
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &schedule, "relaxation", NULL, err));
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_i_mover_dispose(&mover);
    ckm_i_search_free(s);
    return status;
}

// Of the slice for both: the bound's part. The schedule is for graphs with more operators than this; on smaller ones search has
// one in no time.
static const double bound_share = 0.2;
static const int32_t large_ops = 3000;

static ckm_status run(ckm_i_solver *solver, ckm_error *err)
{
    ckm_i_spans *rounded = NULL;
    ckm_status status = CKM_OK;
    double seconds = ckm_i_solver_seconds_left(solver);
    CKM_I_TRY(ckm_i_first_bound(solver, bound_share * seconds, &rounded, err));
    if (rounded != NULL && solver->df->n_ops > large_ops) {
        CKM_I_TRY(ckm_i_first_schedule(solver, rounded, (1.0 - bound_share) * seconds, err));
    }
cleanup:
    ckm_i_spans_free(rounded, solver->df->n_tensors);
    return status;
}

const ckm_i_component ckm_i_component_single_cut = {
    .name = "single-cut",
    .kind = CKM_COMPONENT_BOUNDS,
    .summary = "a bound from the best single cut by maximum flow, and its schedule on large graphs",
    .run = run,
    .share = 0.25,
};
