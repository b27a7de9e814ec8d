// SPDX-License-Identifier: Apache-2.0
// When nothing fits the budget: finds a budget that works, tried on the whole path. Solves, packs and makes a session,
// so that bytes outside the region and what packing wastes are those of training.
#include <math.h>

#include "base/clock.h"
#include "base/error.h"
#include "run/session/session.h"
#include "trainer/trainer.h"

// Shares of the time limit for solving, or of the default one: for the search, for the least schedule, and for each try.
static const double search_share = 0.5, least_share = 0.3, try_share = 0.1, default_seconds = 20.0;

// Above the least known, budgets are tried in steps of this share of it, each twice as wide as the one before. What is moved has many
// short lives: packing them takes long, and wastes more.
static const double first_step = 0.01, first_step_moving = 0.05;

// Packing has no limit of its own: on a busy machine one try may take all of the time. As long as nothing works, the search goes on for up to
// this many times as long.
static const double patience = 4.0;

// Bisection steps between the last budget that failed and the first that worked.
enum { HALVINGS = 3 };

typedef struct search {
    ckm_trainer *t;
    double end_seconds, last_seconds;  // of the search; where nothing works yet
    bool works;                        // some budget does
} search;

static bool is_over(void *user)
{
    const search *s = user;
    return ckm_i_clock_seconds() >= (s->works ? s->end_seconds : s->last_seconds) || ckm_i_trainer_stops(s->t);
}

static ckm_solve_options options_for(search *s, double seconds)
{
    ckm_solve_options options = s->t->solve;
    options.time_limit_seconds = seconds;
    options.stop = is_over;
    options.log = NULL;
    options.progress = NULL;
    options.user = s;
    return options;
}

// The budget that a session of this schedule and plan needs; -1 if it cannot be made here.
static ckm_status needed(const ckm_trainer *t, const ckm_run_fit *fit, int64_t *bytes, ckm_error *err)
{
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    options.seed = 1;
    *bytes = -1;
    ckm_i_session_making making = {.empty = true};
    ckm_status status = ckm_i_session_create(t->program, t->df, fit->schedule, fit->plan, &options, &making, &session,
                                             err);
    if (status == CKM_ERR_MEMORY) {
        return CKM_OK;
    }
    CKM_I_CHECK(status);
    ckm_session_memory memory = ckm_session_get_memory(session);
    *bytes = memory.region_bytes + ckm_i_trainer_outside_fixed(t) + memory.table_bytes;
    ckm_session_free(session);
    return CKM_OK;
}

static ckm_status try_budget(search *s, int64_t budget_bytes, double seconds, bool *fits, ckm_error *err)
{
    const ckm_trainer *t = s->t;
    ckm_solve_options options = options_for(s, seconds);
    ckm_run_fit fit = {0};
    int64_t bytes = -1;
    ckm_status status = CKM_OK;
    *fits = false;
    CKM_I_TRY(ckm_trainer_fit(t->df, budget_bytes, t->outside_bytes, &options, &fit, NULL, err));
    if (fit.schedule != NULL) {
        CKM_I_TRY(needed(t, &fit, &bytes, err));
        *fits = bytes >= 0 && bytes <= budget_bytes;
        s->works = s->works || *fits;
    }
cleanup:
    ckm_run_fit_dispose(&fit);
    return status;
}

// Where to begin: the least peak that a short search finds, or the one known from the search that failed.
static ckm_status find_beginning(search *s, double seconds, int64_t *budget_bytes, ckm_error *err)
{
    const ckm_trainer *t = s->t;
    ckm_solve_options options = options_for(s, seconds);
    ckm_min_budget_result least;
    CKM_I_CHECK(ckm_min_budget(t->df, &options, NULL, &least, err));
    int64_t peak = least.budget_bytes;
    ckm_min_budget_result_dispose(&least);
    if (t->solved.least_peak_bytes > 0 && t->solved.least_peak_bytes < peak) {
        peak = t->solved.least_peak_bytes;
    }
    *budget_bytes = peak + t->outside_bytes;
    return CKM_OK;
}

static ckm_status look(search *s, double seconds, int64_t *least_bytes, ckm_error *err)
{
    int64_t budget = 0;
    int64_t low = s->t->budget_bytes;
    int64_t high = -1;
    bool fits = false;
    CKM_I_CHECK(find_beginning(s, least_share * seconds, &budget, err));
    budget = budget > low ? budget : low + 1;
    double step = s->t->second.name != NULL ? first_step_moving : first_step;
    while (high < 0 && !is_over(s)) {
        CKM_I_CHECK(try_budget(s, budget, try_share * seconds, &fits, err));
        if (fits) {
            high = budget;
        } else {
            low = budget;
            budget += (int64_t)ceil((double)budget * step);
        }
        step *= 2.0;
    }
    for (int k = 0; k < HALVINGS && high > 0 && !is_over(s); k++) {
        budget = low + (high - low) / 2;
        CKM_I_CHECK(try_budget(s, budget, try_share * seconds, &fits, err));
        high = fits ? budget : high;
        low = fits ? low : budget;
    }
    *least_bytes = high;
    return CKM_OK;
}

ckm_status ckm_i_trainer_find_least(ckm_trainer *t, ckm_error *err)
{
    double limit = t->solve.time_limit_seconds > 0 ? t->solve.time_limit_seconds : default_seconds;
    double seconds = search_share * limit;
    double now = ckm_i_clock_seconds();
    search s = {t, now + seconds, now + patience * seconds, false};
    return look(&s, seconds, &t->least_bytes, err);
}
