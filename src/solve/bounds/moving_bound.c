// SPDX-License-Identifier: Apache-2.0
#include "solve/bounds/moving_model.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "schedule/schedule.h"
#include "solve/bounds/cut_points.h"
#include "solve/bounds/sepa.h"

// Places tried alone, by what they promise; then around the best, as one operator further may prove much more or less. Places are apart by
// this many parts of the range, when tried first and when taken together.
enum { n_places = 8, most_together = 6, first_apart = 24, least_apart = 10, most_columns = 400000 };
static const int32_t neighbours[] = {1, -1, 2, -2, 3, -3, 4, -4, 6, -6, 8, -8, 12, -12};
enum { n_neighbours = sizeof neighbours / sizeof neighbours[0] };

// With no schedule known, only those up to this many times as long as all operators together matter.
static const double longest_factor = 100.0;

// The operators at which the run without rematerialization is over the budget. `over` has room for one an operator.
static ckm_status find_over(const ckm_i_solver *solver, int32_t *over, int32_t *n_over, ckm_error *err)
{
    const ckm_dataflow *df = solver->df;
    ckm_status status = CKM_OK;
    ckm_schedule *plain = NULL;
    int64_t *timeline = NULL;
    ckm_simulation facts;
    *n_over = 0;
    CKM_I_TRY(ckm_schedule_baseline(df, &plain, err));
    timeline = ckm_i_malloc((size_t)plain->n_steps, sizeof *timeline);
    if (timeline == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_schedule_simulate(df, plain, timeline, &facts, err));
    for (int64_t i = 0; i < plain->n_steps; i++) {
        const ckm_i_step *step = &plain->steps[i];
        if (step->kind == CKM_STEP_COMPUTE && df->ops[step->index].kind != CKM_OP_LOAD &&
            timeline[i] > solver->budget_bytes) {
            over[(*n_over)++] = step->index;
        }
    }
cleanup:
    free(timeline);
    ckm_schedule_free(plain);
    return status;
}

typedef struct proof {
    ckm_i_solver *solver;
    int32_t *over;  // operators at which the run without rematerialization is over the budget
    int32_t n_over;
    double *promise;  // by operator: ckm_i_cut_prices
} proof;

// One relaxation with these cuts; *proven is what it proves, or -INFINITY.
static ckm_status prove(proof *p, const int32_t *cuts, int32_t n_cuts, double until, double *proven, ckm_error *err)
{
    ckm_i_solver *solver = p->solver;
    const ckm_dataflow *df = solver->df;
    ckm_status status = CKM_OK;
    ckm_i_moving_model model = {0};
    ckm_i_milp_result result = {0};
    double longest = solver->best_schedule != NULL ? (double)solver->best_cost
                                                   : longest_factor * (double)df->total_cost;
    CKM_I_CHECK(ckm_i_moving_model_build(df, solver->budget_bytes, cuts, n_cuts, longest, &model, err));
    ckm_i_milp_options options = {.relax = true,
                                  .seconds = fmax(until - ckm_i_clock_seconds(), 0.05),
                                  .cutoff = INFINITY,
                                  .threads = 1,
                                  .separate = ckm_i_sepa_moving_paths,
                                  .context = &model,
                                  .enough = solver->best_schedule != NULL ? longest / model.cost_scale : INFINITY,
                                  .known = -INFINITY,
                                  .stop = solver->options->stop,
                                  .user = solver->options->user};
    CKM_I_TRY(ckm_i_milp_solve(&model.milp, &options, &result, err));
    double bound = fmin(result.proven * model.cost_scale * (1.0 - 1e-9), longest);
    ckm_i_solver_log(solver, CKM_LOG_INFO, "moving-bound: from %d, %d cuts, %d columns, %d rows: %.6g; %s", cuts[0],
                     n_cuts, model.milp.n_cols, model.milp.n_rows, bound, result.detail);
    *proven = bound;
    if (bound > 0.0 && bound < INFINITY) {
        ckm_i_solver_bound(solver, bound, CKM_BOUND_ORDER, "moving-bound");
    }
cleanup:
    ckm_i_milp_result_dispose(&result);
    ckm_i_moving_model_dispose(&model);
    return status;
}

static bool is_late(const ckm_i_solver *solver, int32_t n_cuts, double until)
{
    const ckm_dataflow *df = solver->df;
    double columns = (double)n_cuts * (2.0 * df->n_ops + 6.0 * df->n_tensors);
    return ckm_i_clock_seconds() >= until || ckm_i_solver_should_stop(solver) || columns > most_columns;
}

// A place, and what a cut there alone proves.
typedef struct place {
    int32_t at;  // position among those over the budget
    double proven;
} place;

static bool is_apart(const place *places, int n, int32_t at, int32_t distance)
{
    for (int i = 0; i < n; i++) {
        int32_t from = places[i].at > at ? places[i].at - at : at - places[i].at;
        if (from <= distance) {
            return false;
        }
    }
    return true;
}

static ckm_status try_place(proof *p, int32_t at, double until, place *places, int *n_tried, ckm_error *err)
{
    places[*n_tried].at = at;
    CKM_I_CHECK(prove(p, &p->over[at], 1, until, &places[*n_tried].proven, err));
    (*n_tried)++;
    return CKM_OK;
}

static ckm_status try_places(proof *p, double until, place *places, int *n_tried, ckm_error *err)
{
    const double *promise = p->promise;
    const int32_t *over = p->over;
    *n_tried = 0;
    for (int i = 0; i < n_places && !is_late(p->solver, 1, until); i++) {
        int32_t next = -1;
        for (int32_t at = 0; at < p->n_over; at++) {
            bool better = next < 0 || promise[over[at]] > promise[over[next]];
            next = better && is_apart(places, *n_tried, at, p->n_over / first_apart) ? at : next;
        }
        if (next < 0) {
            break;
        }
        CKM_I_CHECK(try_place(p, next, until, places, n_tried, err));
    }
    for (int i = 0; *n_tried > 0 && i < n_neighbours && !is_late(p->solver, 1, until); i++) {
        int32_t best = 0;
        for (int k = 0; k < *n_tried; k++) {
            best = places[k].proven > places[best].proven ? k : best;
        }
        int32_t at = places[best].at + neighbours[i];
        if (at >= 0 && at < p->n_over && is_apart(places, *n_tried, at, 0)) {
            CKM_I_CHECK(try_place(p, at, until, places, n_tried, err));
        }
    }
    return CKM_OK;
}

static int by_proven(const void *left, const void *right)
{
    const place *a = left;
    const place *b = right;
    return a->proven != b->proven ? (a->proven > b->proven ? -1 : 1) : (a->at > b->at) - (a->at < b->at);
}

// The best places together, one more each time; in `cuts`, ascending.
static ckm_status prove_together(proof *p, const place *places, int n_tried, double until, ckm_error *err)
{
    place taken[most_together];
    int32_t cuts[most_together];
    int n = 0;
    for (int i = 0; i < n_tried && n < most_together && !is_late(p->solver, n + 1, until); i++) {
        if (!is_apart(taken, n, places[i].at, p->n_over / least_apart)) {
            continue;
        }
        int k = n++;
        for (; k > 0 && taken[k - 1].at > places[i].at; k--) {
            taken[k] = taken[k - 1];
        }
        taken[k] = places[i];
        for (k = 0; k < n; k++) {
            cuts[k] = p->over[taken[k].at];
        }
        double proven;
        CKM_I_CHECK(n > 1 ? prove(p, cuts, n, until, &proven, err) : CKM_OK);
    }
    return CKM_OK;
}

ckm_status ckm_i_moving_bound(ckm_i_solver *solver, double until, ckm_error *err)
{
    ckm_status status = CKM_OK;
    place places[n_places + n_neighbours];
    int n_tried = 0;
    size_t n = (size_t)solver->df->n_ops;
    proof p = {.solver = solver};
    p.over = ckm_i_malloc(n, sizeof *p.over);
    p.promise = ckm_i_malloc(n, sizeof *p.promise);
    if (p.over == NULL || p.promise == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(find_over(solver, p.over, &p.n_over, err));
    CKM_I_TRY(ckm_i_cut_prices(solver->df, solver->budget_bytes, p.promise, err));
    if (p.n_over > 0) {
        double now = ckm_i_clock_seconds();
        CKM_I_TRY(try_places(&p, now + 0.6 * (until - now), places, &n_tried, err));
        qsort(places, (size_t)n_tried, sizeof *places, by_proven);
        CKM_I_TRY(prove_together(&p, places, n_tried, until, err));
    }
cleanup:
    free(p.over);
    free(p.promise);
    return status;
}
