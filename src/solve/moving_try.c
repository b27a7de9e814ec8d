// SPDX-License-Identifier: Apache-2.0
// A choice of what moves is tried: the strategies solve the graph that stands in for it, and their schedules are offered with transfers.
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/moves/moves_expand.h"
#include "solve/moves/moves_graph.h"
#include "solve/moves/moves_lift.h"
#include "solve/moving_search.h"
#include "solve/presolve/presolve.h"
#include "solve/solve_above.h"

// Stand-ins are searched, not proven: nothing is, for their bounds are none of the graph's. Where a schedule is there to begin with, nothing
// begins anew.
static const char no_proofs[] = "relaxations,branching,programs,single-cut,ilp",
                  search_alone[] = "relaxations,branching,programs,single-cut,ilp,chain,chain-blocks,runs";

// Budgets up to this many times the floor are near it: search on what is held may find nothing there.
static const double near_floor = 1.4;

ckm_status ckm_i_moving_offer(ckm_i_solver *solver, ckm_schedule **taken, int64_t *cost, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *plain = *taken;
    ckm_schedule *overlapped = NULL;
    ckm_simulation facts;
    *taken = NULL;
    int64_t *timeline = ckm_i_malloc((size_t)plain->n_steps, sizeof *timeline);
    if (timeline == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    // Illegal where the stand-in's schedule reads late, or copies exceed the second memory: it is left.
    if (ckm_i_schedule_try(solver->df, plain, timeline, &facts, NULL) != CKM_OK ||
        facts.peak_bytes > solver->budget_bytes) {
        goto cleanup;
    }
    *cost = facts.cost;
    if (plain->n_transfers == 0) {
        CKM_I_TRY(ckm_i_solver_offer_schedule(solver, &plain, "transfers", NULL, err));
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_moves_overlap(solver->df, plain, timeline, solver->budget_bytes, &overlapped, err));
    CKM_I_TRY(ckm_i_schedule_try(solver->df, overlapped, NULL, &facts, err));
    bool better = facts.cost <= *cost && facts.peak_bytes <= solver->budget_bytes;
    *cost = better ? facts.cost : *cost;
    CKM_I_TRY(ckm_i_solver_offer_schedule(solver, better ? &overlapped : &plain, "transfers", NULL, err));
cleanup:
    free(timeline);
    ckm_schedule_free(overlapped);
    ckm_schedule_free(plain);
    return status;
}

// The same of a stand-in's schedule.
static ckm_status offer(ckm_i_solver *solver, const ckm_i_moves_graph *m, const ckm_schedule *from, int64_t *cost,
                        ckm_error *err)
{
    ckm_schedule *plain = NULL;
    CKM_I_CHECK(ckm_i_moves_expand(m, from, solver->budget_bytes, &plain, err));
    return ckm_i_moving_offer(solver, &plain, cost, err);
}

// A stand-in being solved.
typedef struct trial {
    ckm_i_moving_search *m;
    ckm_i_moves_graph stand_in;
    ckm_i_solver inner;
    double until;
    bool anew;
    int64_t taken;  // cost in the stand-in of the last schedule that was looked at; -1: none
    int64_t cost;   // the least with transfers; INT64_MAX: none
    ckm_status status;
    ckm_error error;
} trial;

static bool should_stop(void *user)
{
    const trial *t = user;
    return t->status != CKM_OK || ckm_i_clock_seconds() >= t->until || ckm_i_solver_should_stop(t->m->solver);
}

// Every schedule that is the stand-in's cheapest so far is tried with transfers: prices are a guess, and a later one may be dearer.
static ckm_status take(trial *t, ckm_error *err)
{
    ckm_i_moving_search *m = t->m;
    int64_t cost = INT64_MAX;
    if (t->inner.best_schedule == NULL || (t->taken >= 0 && t->inner.best_cost >= t->taken)) {
        return CKM_OK;
    }
    t->taken = t->inner.best_cost;
    CKM_I_CHECK(offer(m->solver, &t->stand_in, t->inner.best_schedule, &cost, err));
    t->cost = cost < t->cost ? cost : t->cost;
    if (cost < m->steps_cost) {
        ckm_schedule_free(m->steps);
        m->steps = NULL;
        m->steps_cost = cost;
        m->only_moved = m->only_moved && !t->anew;
        return ckm_i_moves_lower(&t->stand_in, t->inner.best_schedule, &m->steps, err);
    }
    return CKM_OK;
}

static void watch(const ckm_progress *progress, void *user)
{
    trial *t = user;
    (void)progress;
    t->status = t->status == CKM_OK ? take(t, &t->error) : t->status;
}

// The best schedule so far, where it reads nothing else than is chosen here: to begin with, or, where it is over the stand-in's budget, to come
// from.
static ckm_status offer_start(const ckm_i_moving_search *m, ckm_i_solver *inner, const ckm_i_moves_graph *stand_in,
                              ckm_schedule **hint, ckm_error *err)
{
    ckm_simulation facts;
    if (m->steps == NULL) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_moves_lift(stand_in, m->steps, hint, err));
    // The read right after an operator may take more room than its output had in place.
    if (*hint != NULL && ckm_i_schedule_try(inner->df, *hint, NULL, &facts, NULL) != CKM_OK) {
        ckm_schedule_free(*hint);
        *hint = NULL;
    } else if (*hint != NULL && facts.peak_bytes <= inner->budget_bytes) {
        return ckm_i_solver_offer_schedule(inner, hint, "transfers", NULL, err);
    }
    inner->hint = *hint;
    return CKM_OK;
}

ckm_status ckm_i_moving_try(ckm_i_moving_search *m, double reserve, bool anew, double until, int64_t *cost,
                            ckm_error *err)
{
    ckm_status status = CKM_OK;
    const ckm_dataflow *df = m->solver->df;
    trial t = {.m = m, .until = until, .anew = anew, .taken = -1, .cost = INT64_MAX, .error = CKM_ERROR_INIT};
    ckm_i_solver *inner = &t.inner;
    ckm_solve_options options = *m->solver->options;
    ckm_schedule *hint = NULL;
    ckm_i_accounts accounts;
    options.stop = should_stop;
    options.user = &t;
    options.log = NULL;
    options.progress = NULL;
    options.start = NULL;
    options.without = no_proofs;
    for (int32_t x = 0; x < df->n_tensors; x++) {
        m->price[x] = m->rate[x] >= 0.0 ? (int64_t)(m->rate[x] * (double)m->out_time[x]) : -1;
    }
    *cost = INT64_MAX;
    double room = (double)(m->solver->budget_bytes - df->resident_bytes);
    int64_t budget = m->solver->budget_bytes - (int64_t)(reserve * room);
    CKM_I_CHECK(ckm_i_moves_graph_make(df, m->price, &t.stand_in, err));
    ckm_i_solver_init(inner, t.stand_in.stand_in, &options, budget);
    ckm_i_solver_set_slice(inner, m->solver, until);
    inner->proven_elsewhere = !anew;
    if (budget >= t.stand_in.stand_in->floor_bytes) {
        CKM_I_TRY(anew && m->only_moved ? CKM_OK : offer_start(m, inner, &t.stand_in, &hint, err));
        bool begins = !anew && (inner->best_schedule != NULL || hint != NULL);
        int64_t known_cost = m->steps_cost;
        CKM_I_TRY(take(&t, err));
        t.cost = t.cost < known_cost ? t.cost : INT64_MAX;
        options.progress = watch;
        CKM_I_TRY(ckm_i_accounts_init(&accounts, begins ? search_alone : no_proofs, inner, err));
        inner->accounts = &accounts;
        CKM_I_TRY(ckm_i_solver_offer_plain(inner, NULL, err));
        inner->is_near_floor = !begins && inner->best_schedule == NULL &&
                               (double)budget < near_floor * (double)inner->df->floor_bytes;
        CKM_I_TRY(begins ? CKM_OK : ckm_i_quick_run(inner, 0.3 * fmax(until - ckm_i_clock_seconds(), 0.0), 0.02, err));
        CKM_I_TRY(ckm_i_presolve_run(inner, m->strategy, err));
    }
    CKM_I_TRY(take(&t, err));
    if (t.status != CKM_OK) {
        status = t.status;
        if (err != NULL) {
            *err = t.error;
        }
    }
    *cost = t.cost;
cleanup:
    ckm_i_solver_dispose(inner);
    ckm_schedule_free(hint);
    ckm_i_moves_graph_dispose(&t.stand_in);
    return status;
}
