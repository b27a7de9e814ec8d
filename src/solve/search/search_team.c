// SPDX-License-Identifier: Apache-2.0
// Rounds of annealing in threads. A searcher touches nothing but its own state, the graph, which does not change, and
// two atomic values; callbacks and the prover are the calling thread's business.
#include "solve/search/search_team.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"

// States looked at between two looks at the clock and the penalty; fewer where that takes longer than this many seconds, as it does where
// each computes much again.
enum { check_period = 512 };
static const double longest_period = 0.01;

// Time between two looks at the other threads, once the calling thread's searcher is done.
static const long wait_nanoseconds = 1000000L;

void ckm_i_searcher_keep(ckm_i_searcher *searcher)
{
    if (searcher->s->excess <= 0.5 && searcher->s->total_cost < searcher->best_cost) {
        searcher->best_cost = searcher->s->total_cost;
        searcher->found = true;
        ckm_i_search_keep(searcher->s);
    }
}

// What the calling thread sees to in the midst of its work: the concurrent work, and what follows for all threads.
static bool attend(ckm_i_team *team)
{
    const ckm_i_solver *solver = team->solver;
    team->attend(team->context);
    bool stop = team->should_end(team->context);
    int64_t enough = solver->options->cost_limit;
    double bound = solver->bound_cost * (1.0 + solver->options->gap);
    if (bound > (double)enough) {
        enough = bound < 9e18 ? (int64_t)bound : INT64_MAX - 1;
    }
    atomic_store(&team->enough_cost, enough);
    if (stop) {
        atomic_store(&team->stop, true);
    }
    return atomic_load(&team->stop);
}

static bool has_enough(ckm_i_team *team, const ckm_i_searcher *searcher)
{
    bool enough = searcher->best_cost < INT64_MAX && searcher->best_cost <= atomic_load(&team->enough_cost);
    if (enough && team->by_clock) {
        atomic_store(&team->stop, true);
    }
    return enough;
}

// The penalty follows whether the state is within the budget.
static void adjust_penalty(const ckm_i_team *team, ckm_i_searcher *searcher)
{
    ckm_i_search *s = searcher->s;
    ckm_i_mover *mover = &searcher->mover;
    // Excess is a sum of differences; recomputing it now and then keeps rounding out.
    s->excess = ckm_i_profile_excess(&s->peaks);
    mover->penalty *= s->excess <= 0.5 ? 0.98 : searcher->best_cost == INT64_MAX ? 1.1 : 1.03;
    mover->penalty = fmin(fmax(mover->penalty, team->price * 0.0001), team->price * 1e4);
}

double ckm_i_team_repair_deadline(const ckm_i_team *team)
{
    return team->by_clock ? ckm_i_clock_seconds() + team->repair_seconds : INFINITY;
}

static void anneal(ckm_i_team *team, ckm_i_searcher *searcher)
{
    ckm_i_mover *mover = &searcher->mover;
    bool leads = searcher == team->searchers;
    double start = ckm_i_clock_seconds();
    int64_t first = mover->tried;
    // A graph has to have the time to follow the penalty.
    int64_t penalty_period = mover->n_candidates > check_period ? mover->n_candidates : check_period;
    int64_t next_penalty = first;
    int64_t period = check_period;
    double looked = start;
    for (;;) {
        double progress = (double)(mover->tried - first) / (double)searcher->states;
        if (team->by_clock) {
            double now = ckm_i_clock_seconds();
            progress = fmax(progress, (now - start) / (team->deadline_seconds - start));
            period = now - looked > longest_period ? (period + 1) / 2 : period < check_period ? 2 * period : period;
            looked = now;
        }
        bool stop = leads ? attend(team) : atomic_load(&team->stop);
        if (progress >= 1.0 || stop || has_enough(team, searcher)) {
            break;
        }
        mover->temperature = searcher->hot * pow(searcher->cold / searcher->hot, progress);
        for (int64_t end = mover->tried + period; mover->tried < end;) {
            ckm_i_mover_step(mover);
            ckm_i_searcher_keep(searcher);
        }
        if (searcher->s->failed) {
            searcher->failed = true;
            atomic_store(&team->stop, true);
            return;
        }
        if (mover->tried >= next_penalty) {
            next_penalty += penalty_period;
            adjust_penalty(team, searcher);
        }
    }
    ckm_i_mover_repair(mover, ckm_i_team_repair_deadline(team));
    ckm_i_searcher_keep(searcher);
    searcher->failed = searcher->s->failed;
}

// A searcher at work in a thread.
typedef struct job {
    ckm_i_team *team;
    ckm_i_searcher *searcher;
    pthread_t thread;
    bool started;
    _Atomic bool done;
} job;

static void *run_job(void *argument)
{
    job *j = argument;
    anneal(j->team, j->searcher);
    atomic_store(&j->done, true);
    return NULL;
}

static void wait_for(ckm_i_team *team, job *j)
{
    if (!j->started) {
        anneal(team, j->searcher);
        return;
    }
    while (!atomic_load(&j->done)) {
        attend(team);
        struct timespec nap = {.tv_nsec = wait_nanoseconds};
        nanosleep(&nap, NULL);
    }
    pthread_join(j->thread, NULL);
}

ckm_status ckm_i_team_anneal(ckm_i_team *team, int n, ckm_error *err)
{
    job *jobs = ckm_i_calloc((size_t)n, sizeof *jobs);
    if (jobs == NULL) {
        return ckm_i_error_memory(err);
    }
    atomic_store(&team->stop, false);
    attend(team);
    for (int i = 1; i < n; i++) {
        jobs[i].team = team;
        jobs[i].searcher = &team->searchers[i];
        jobs[i].started = pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]) == 0;
    }
    int missing = 0;
    for (int i = 1; i < n; i++) {
        missing += !jobs[i].started;
    }
    if (missing > 0) {
        ckm_i_solver_log(team->solver, CKM_LOG_WARN, "local search: %d of %d threads could not be started", missing,
                         n - 1);
    }
    anneal(team, &team->searchers[0]);
    bool failed = team->searchers[0].failed;
    for (int i = 1; i < n; i++) {
        wait_for(team, &jobs[i]);
        failed = failed || team->searchers[i].failed;
    }
    free(jobs);
    return failed ? ckm_i_error_memory(err) : CKM_OK;
}

ckm_status ckm_i_team_create(ckm_i_solver *solver, int n, ckm_i_team **out, ckm_error *err)
{
    ckm_i_team *team = ckm_i_calloc(1, sizeof *team);
    ckm_status status = CKM_OK;
    if (team == NULL) {
        return ckm_i_error_memory(err);
    }
    team->searchers = ckm_i_calloc((size_t)n, sizeof *team->searchers);
    if (team->searchers == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    team->solver = solver;
    ckm_i_rng seeds = {.state = solver->options->seed};
    for (int i = 0; i < n; i++) {
        ckm_i_searcher *searcher = &team->searchers[i];
        uint64_t seed = i == 0 ? solver->options->seed : ckm_i_rng_next(&seeds);
        team->n = i + 1;
        searcher->best_cost = INT64_MAX;
        CKM_I_TRY(ckm_i_search_create(solver->df, solver->budget_bytes, &searcher->s, err));
        CKM_I_TRY(ckm_i_mover_create(searcher->s, seed, &searcher->mover, err));
    }
    *out = team;
    team = NULL;
cleanup:
    ckm_i_team_free(team);
    return status;
}

void ckm_i_team_free(ckm_i_team *team)
{
    if (team == NULL) {
        return;
    }
    for (int i = 0; i < team->n && team->searchers != NULL; i++) {
        ckm_i_mover_dispose(&team->searchers[i].mover);
        ckm_i_search_free(team->searchers[i].s);
    }
    free(team->searchers);
    free(team);
}
