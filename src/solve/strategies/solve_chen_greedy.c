// SPDX-License-Identifier: Apache-2.0
// chen-greedy: the memory-aware rule of Chen et al. 2016, swept over segment limits. On graphs that are not
// chains this is the "linearized greedy" of the Checkmate paper. chen-greedy-ap: the same among the articulation points
// of the forward graph.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "solve/checkpoints/checkpoints.h"

typedef struct sweep {
    ckm_i_solver *solver;
    const char *source;
    ckm_i_forward *fw;
    ckm_i_stages *stages;
    ckm_i_positions candidates, chosen;
    ckm_i_positions tried[CKM_I_GREEDY_LIMITS];
    int32_t n_tried;
} sweep;

// Hands in the schedule of these checkpoints.
static ckm_status offer(sweep *s, const ckm_i_positions *checkpoints, int64_t *peak_bytes, ckm_error *err)
{
    if (s->stages != NULL) {
        memset(s->stages->s, 0, ((size_t)s->stages->n_ops + 1) * s->stages->s_words * sizeof *s->stages->s);
    }
    return ckm_i_checkpoints_offer_set(s->solver, s->fw, checkpoints, s->stages, s->source, peak_bytes, err);
}

// The peak of the schedule of these checkpoints, which is not handed in. -1: there is none.
static ckm_status measure(sweep *s, const ckm_i_positions *checkpoints, int64_t *peak_bytes, ckm_error *err)
{
    ckm_i_holds holds = {.df = s->solver->df};
    ckm_schedule *schedule = NULL;
    ckm_simulation facts = {.peak_bytes = -1};
    ckm_status status = CKM_OK;
    if (s->stages != NULL) {
        CKM_I_TRY(ckm_i_checkpoints_stages(s->fw, checkpoints, s->stages, err));
        CKM_I_TRY(ckm_i_stages_peak(s->stages, &facts.peak_bytes, err));
    } else {
        ckm_i_checkpoints_hold_set(s->fw, checkpoints, &holds);
        CKM_I_TRY(ckm_i_holds_schedule(&holds, ckm_i_solver_stops, s->solver, &schedule, err));
    }
    if (schedule != NULL) {
        CKM_I_TRY(ckm_i_schedule_try(s->solver->df, schedule, NULL, &facts, err));
    }
    *peak_bytes = facts.peak_bytes;
cleanup:
    ckm_schedule_free(schedule);
    ckm_i_holds_dispose(&holds);
    return status;
}

// What the sqrt(n) rule needs for activations, among all candidates whichever are used here: limits are
// fractions and multiples of it.
static ckm_status find_base(sweep *s, int64_t *base_bytes, ckm_error *err)
{
    ckm_i_positions all = {0};
    int64_t peak = 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_candidates_find(s->fw, CKM_I_CANDIDATES_ALL, &all, err));
    ckm_i_checkpoints_sqrt(&all, &s->chosen);
    CKM_I_TRY(measure(s, &s->chosen, &peak, err));
    *base_bytes = peak < 0 ? 0 : peak - s->solver->df->resident_bytes;
cleanup:
    ckm_i_positions_dispose(&all);
    return status;
}

static bool was_tried(const sweep *s)
{
    for (int32_t i = 0; i < s->n_tried; i++) {
        if (s->tried[i].n == s->chosen.n &&
            memcmp(s->tried[i].at, s->chosen.at, (size_t)s->chosen.n * sizeof *s->chosen.at) == 0) {
            return true;
        }
    }
    return false;
}

static ckm_status try_limit(sweep *s, int64_t limit_bytes, ckm_error *err)
{
    ckm_i_checkpoints_greedy(s->fw, &s->candidates, limit_bytes, &s->chosen);
    if (was_tried(s)) {
        return CKM_OK;
    }
    int32_t *at = ckm_i_memdup(s->chosen.at, (size_t)s->chosen.n, sizeof *at);
    if (at == NULL) {
        return ckm_i_error_memory(err);
    }
    s->tried[s->n_tried++] = (ckm_i_positions){s->chosen.n, at};
    return offer(s, &s->chosen, NULL, err);
}

static ckm_status run_with(ckm_i_solver *solver, ckm_i_candidates which, const char *source, ckm_error *err)
{
    sweep s = {.solver = solver, .source = source};
    int64_t base_bytes = 0;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_forward_create(solver->df, &s.fw, err));
    CKM_I_TRY(ckm_i_candidates_find(s.fw, which, &s.candidates, err));
    CKM_I_TRY(ckm_i_positions_create(s.fw, &s.chosen, err));
    if (solver->df->n_ops <= CKM_I_MATRIX_MAX_OPS) {
        CKM_I_TRY(ckm_i_stages_create(solver->df, &s.stages, err));
    }
    CKM_I_TRY(find_base(&s, &base_bytes, err));
    for (int32_t k = 0; k < CKM_I_GREEDY_LIMITS && !ckm_i_solver_should_stop(solver); k++) {
        CKM_I_TRY(try_limit(&s, ckm_i_checkpoints_greedy_limit(base_bytes, k), err));
    }
cleanup:
    for (int32_t i = 0; i < s.n_tried; i++) {
        ckm_i_positions_dispose(&s.tried[i]);
    }
    ckm_i_positions_dispose(&s.candidates);
    ckm_i_positions_dispose(&s.chosen);
    ckm_i_stages_free(s.stages);
    ckm_i_forward_free(s.fw);
    return status;
}

static ckm_status run_all(ckm_i_solver *solver, ckm_error *err)
{
    return run_with(solver, CKM_I_CANDIDATES_ALL, "chen-greedy", err);
}

static ckm_status run_articulation(ckm_i_solver *solver, ckm_error *err)
{
    return run_with(solver, CKM_I_CANDIDATES_ARTICULATION, "chen-greedy-ap", err);
}

const ckm_i_strategy ckm_i_strategy_chen_greedy = {
    .name = "chen-greedy",
    .summary = "checkpoint when a segment's bytes pass a limit, over 60 limits (Chen et al. 2016; linearized)",
    .run = run_all,
    .is_published = true,
};

const ckm_i_strategy ckm_i_strategy_chen_greedy_ap = {
    .name = "chen-greedy-ap",
    .summary = "checkpoint articulation points when a segment's bytes pass a limit, over 60 limits",
    .run = run_articulation,
    .is_published = true,
};
