// SPDX-License-Identifier: Apache-2.0
// Relaxations with a single cut, to find the best place for it; relaxations with further cuts where their points ask for
// them, branched on where they gain little, then integer programs with more and more cuts, as far as time goes.
// Where the order is open, chains of twice as many cuts each time follow, around the best place.
#include "solve/bounds/prover.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/bounds/window_run.h"
#include "solve/bounds/cut_points.h"
#include "solve/core/component_registry.h"
#include "solve/core/structure.h"

// Rows of the first relaxation and of the largest one worth a try, and the same of integer programs.
static const int64_t first_rows = 4000, most_rows = 1000000, first_program_rows = 3000, most_program_rows = 60000;

// Share of the time left that a program may take. A relaxation that took more than this share is the last one.
static const double program_share = 0.6, program_share_background = 0.85, relaxation_share = 0.5;

// Share of the time left in which another place for a cut is tried.
static const double trial_share = 0.1;

// The same where the order is open, the places tried there at most, and the rows of the largest relaxation. A chain that took more than
// this share of the time left is the last one.
static const double open_trial_share = 0.15, most_open_rows = 400000.0, chain_share = 0.3;
enum { most_open_trials = 64 };

// Relaxations go on unless this many with further cuts, one after the other, each close less than this share of the gap.
static const double worthwhile = 0.01;
enum { idle_runs = 3 };

// Rounds of cutting planes that have to pay together where a trial or a relaxation is not the last: most of what they gain,
// the first two do.
enum { brief_rounds = 2 };

// A relaxation is rounded when it closes this share of the gap.
static const double rounding_share = 0.1;

// Where only a single cut makes a program small enough to begin with, and its relaxation leaves this many times the gap that there is,
// there are no programs: larger ones have larger trees.
static const double hopeless = 2.0;

// A program that ended without a proof is tried again with this many times the time.
static const double patience = 1.5;

// Where there is no limit, shares are taken of this.
static const double unlimited_seconds = 3600.0;

// Time between two looks at the child.
static const double poll_seconds = 0.003;

// BEST: the relaxation with the best single cut, whose trial was brief.
const ckm_i_component ckm_i_component_relaxations = {
    .name = "relaxations",
    .kind = CKM_COMPONENT_BOUNDS,
    .summary = "linear relaxations of stages between cuts, with cutting planes",
};
const ckm_i_component ckm_i_component_branching = {
    .name = "branching",
    .kind = CKM_COMPONENT_BOUNDS,
    .summary = "relaxations are branched on where further cuts gain little",
};
const ckm_i_component ckm_i_component_programs = {
    .name = "programs",
    .kind = CKM_COMPONENT_SOLVES,
    .summary = "integer programs of stages between cuts",
};

typedef enum phase { TRIALS, BEST, RELAXATIONS, PROGRAMS, CHAINS } phase;

struct ckm_i_prover {
    ckm_i_solver *solver;
    bool programs;  // whether integer programs follow
    phase phase;
    bool done;
    ckm_i_cut_points places;
    ckm_i_open_places open;     // the same where the order is
    int32_t *cuts;              // of the run under way
    int32_t n_here;             // how many they are
    int32_t n_cuts;             // of the integer program or chain under way, or the next one
    bool spread;                // and whether its cuts are evenly spread, not the earliest of the ladder
    int idle;                   // relaxations that closed little, one after the other
    double trial_end_seconds;   // no place is tried beyond; 0 before the first
    ckm_i_window_run *run;      // NULL: none is under way
    ckm_i_milp_helper *helper;  // that runs them from the first time it was attached on; NULL: children
    ckm_i_window_problem problem;
    double started_seconds, limit_seconds;
    double tried_seconds;  // that a program of n_cuts was given in vain
    double bound_before;   // the run
    double end_seconds;    // no run goes on beyond
    double polled_seconds;
    bool polling;
    ckm_i_spans *rounded;  // of the last relaxation worth it, until it is taken; NULL
    double rounded_bound;  // the bound then; 0: none was worth it
    ckm_status status;
    ckm_error error;
};

static double time_left(const ckm_i_prover *p)
{
    double left = fmin(p->solver->deadline_seconds, p->end_seconds) - ckm_i_clock_seconds();
    return isfinite(left) ? fmax(left, 0.0) : unlimited_seconds;
}

// The largest power of two of cuts with at most this many rows, at least 1.
static int32_t cuts_for_rows(const ckm_dataflow *df, int64_t rows)
{
    int32_t n = 1;
    while (n < df->n_ops - ckm_i_window_first(df) && ckm_i_window_rows(df, 2 * n) <= rows) {
        n *= 2;
    }
    return n;
}

// Whether a program with a single cut, whose relaxation has been solved, would have to make up for more than trees do.
static bool is_hopeless(const ckm_i_prover *p, int32_t n_cuts)
{
    const ckm_i_solver *solver = p->solver;
    if (n_cuts > 1 || p->places.best < 0 || solver->best_schedule == NULL) {
        return false;
    }
    int64_t gcd;
    double scale = ckm_i_cost_scale(solver->df, &gcd);
    double single = (double)solver->df->total_cost + p->places.score[p->places.best] * scale;
    return (double)solver->best_cost - single > hopeless * ((double)solver->best_cost - solver->bound_cost);
}

// With as many cuts, the earliest of the ladder prove more, and evenly spread ones have the solutions that make better
// schedules: first the ones, then the others. A single cut is the best place either way.
static void set_n_cuts(ckm_i_prover *p, int32_t n_cuts)
{
    p->n_cuts = n_cuts;
    p->spread = n_cuts == 1 || n_cuts > p->places.n_current;
}

static void begin_programs(ckm_i_prover *p)
{
    p->phase = PROGRAMS;
    set_n_cuts(p, cuts_for_rows(p->solver->df, first_program_rows));
    p->done = !p->programs || ckm_i_window_rows(p->solver->df, p->n_cuts) > most_program_rows ||
              is_hopeless(p, p->n_cuts);
}

static double open_rows(const ckm_dataflow *df, int32_t n_cuts)
{
    return (double)n_cuts * (2.0 * (double)df->n_edges + 3.0 * df->n_ops + 2.0 * df->n_tensors);
}

static ckm_status create(ckm_i_solver *solver, const ckm_i_window_problem *problem, ckm_i_prover **out, ckm_error *err)
{
    ckm_i_prover *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    p->solver = solver;
    p->problem = *problem;
    p->end_seconds = INFINITY;
    p->n_cuts = 1;
    p->cuts = ckm_i_malloc((size_t)problem->df->n_ops, sizeof *p->cuts);
    if (p->cuts == NULL) {
        free(p);
        return ckm_i_error_memory(err);
    }
    *out = p;
    return CKM_OK;
}

ckm_status ckm_i_prover_create_open(ckm_i_solver *solver, const ckm_dataflow *df, int64_t budget_bytes,
                                    ckm_i_prover **out, ckm_error *err)
{
    ckm_i_prover *p = NULL;
    CKM_I_CHECK(create(solver, &(ckm_i_window_problem){df, budget_bytes, true}, &p, err));
    ckm_status status = CKM_OK;
    p->done = df->n_ops == 0 || open_rows(df, 1) > most_open_rows ||
              ckm_i_component_is_left_out(solver, &ckm_i_component_relaxations);
    if (!p->done) {
        CKM_I_TRY(ckm_i_open_places_init(df, budget_bytes, &p->open, err));
    }
    *out = p;
    p = NULL;
cleanup:
    ckm_i_prover_free(p);
    return status;
}

ckm_status ckm_i_prover_create(ckm_i_solver *solver, bool programs, ckm_i_prover **out, ckm_error *err)
{
    ckm_i_prover *p = NULL;
    CKM_I_CHECK(create(solver, &(ckm_i_window_problem){solver->df, solver->budget_bytes, false}, &p, err));
    ckm_status status = CKM_OK;
    p->programs = programs && !ckm_i_component_is_left_out(solver, &ckm_i_component_programs);
    p->done = solver->df->n_ops == 0 || ckm_i_window_rows(solver->df, 1) > most_rows;
    CKM_I_TRY(ckm_i_cut_points_init(solver->df, solver->budget_bytes, ckm_i_window_first(solver->df), &p->places, err));
    if (!p->done && ckm_i_component_is_left_out(solver, &ckm_i_component_relaxations)) {
        begin_programs(p);
    }
    *out = p;
    p = NULL;
cleanup:
    ckm_i_prover_free(p);
    return status;
}

void ckm_i_prover_free(ckm_i_prover *p)
{
    if (p != NULL) {
        ckm_i_window_run_abandon(p->run);
        ckm_i_milp_helper_end(p->helper);
        ckm_i_cut_points_dispose(&p->places);
        ckm_i_open_places_dispose(&p->open);
        free(p->cuts);
        ckm_i_spans_free(p->rounded, p->solver->df->n_tensors);
        free(p);
    }
}

// After the best single cut: from there on, or from as many cuts as a small program has.
static void begin_ladder(ckm_i_prover *p, const ckm_i_window_found *found)
{
    p->phase = RELAXATIONS;
    ckm_i_cut_points_begin(&p->places, cuts_for_rows(p->solver->df, first_rows));
    if (p->places.n_current == 1 && found->excess != NULL) {
        ckm_i_cut_points_refine(&p->places, found->excess, found->slack);
    }
}

static void refine(ckm_i_prover *p, double took, const ckm_i_window_found *found)
{
    const ckm_i_solver *solver = p->solver;
    double gained = solver->bound_cost - p->bound_before;
    bool slow = took > relaxation_share * (time_left(p) + took);
    bool idle = solver->best_schedule != NULL && p->programs &&
                gained < worthwhile * ((double)solver->best_cost - solver->bound_cost);
    p->idle = idle ? p->idle + 1 : 0;
    bool more = found->excess != NULL && ckm_i_cut_points_refine(&p->places, found->excess, found->slack);
    bool large = ckm_i_window_rows(solver->df, p->places.n_current) > most_rows;
    if (!more || slow || large || p->idle >= idle_runs) {
        begin_programs(p);
    }
}

static void climb(ckm_i_prover *p, double took)
{
    const ckm_dataflow *df = p->solver->df;
    if (took >= p->limit_seconds) {
        p->tried_seconds = p->limit_seconds;
        return;
    }
    p->tried_seconds = 0.0;
    if (!p->spread) {
        p->spread = true;
    } else {
        p->done = p->n_cuts >= df->n_ops - ckm_i_window_first(df) ||
                  ckm_i_window_rows(df, 2 * p->n_cuts) > most_program_rows;
        set_n_cuts(p, 2 * p->n_cuts);
    }
}

static void lengthen(ckm_i_prover *p, double took)
{
    const ckm_i_solver *solver = p->solver;
    bool slow = took > chain_share * (time_left(p) + took);
    double gap = (double)solver->best_cost - solver->bound_cost;
    bool idle = p->n_cuts > 2 && solver->best_schedule != NULL &&
                solver->bound_cost - p->bound_before < worthwhile * gap;
    bool last = p->n_here < p->n_cuts || open_rows(p->problem.df, 2 * p->n_cuts) > most_open_rows;
    p->done = slow || idle || last;
    p->n_cuts *= 2;
}

static void score(ckm_i_prover *p, const ckm_i_window_found *found)
{
    if (p->problem.is_open) {
        ckm_i_open_places_score(&p->open, p->cuts[0], found->cost);
    } else {
        ckm_i_cut_points_score(&p->places, p->cuts[0], found->bound);
    }
}

// What comes after the run that has ended.
static void go_further(ckm_i_prover *p, double took, const ckm_i_window_found *found)
{
    switch (p->phase) {
    case TRIALS:
        score(p, found);
        break;
    case BEST:
        begin_ladder(p, found);
        break;
    case RELAXATIONS:
        refine(p, took, found);
        break;
    case PROGRAMS:
        climb(p, took);
        break;
    case CHAINS:
        lengthen(p, took);
        break;
    }
    p->done = p->done || (p->problem.is_open && (found->missing || p->solver->infeasible));
}

// What a program may take. While a search runs nothing else waits for the time, but CBC needs some to come to an end.
static double program_seconds(const ckm_i_prover *p)
{
    return (p->solver->background != NULL ? program_share_background : program_share) * time_left(p);
}

// The next single cut to try, -1 when time for that is over or there is none.
static int32_t next_trial(ckm_i_prover *p)
{
    bool is_open = p->problem.is_open;
    double now = ckm_i_clock_seconds();
    if (p->trial_end_seconds == 0.0) {
        p->trial_end_seconds = now + (is_open ? open_trial_share : trial_share) * time_left(p);
    }
    if (now >= p->trial_end_seconds) {
        return -1;
    }
    if (!is_open) {
        return ckm_i_cut_points_next(&p->places);
    }
    return p->open.n_tried < most_open_trials ? ckm_i_open_places_next(&p->open) : -1;
}

// The cuts of the next run: another single one to try, those of the ladder, or as many as a program or chain is to have. Returns
// their number; 0 where no chain is left.
static int32_t next_cuts(ckm_i_prover *p)
{
    if (p->phase == TRIALS) {
        p->cuts[0] = next_trial(p);
        if (p->cuts[0] >= 0) {
            return 1;
        }
        p->phase = p->problem.is_open ? CHAINS : p->places.best >= 0 ? BEST : RELAXATIONS;
    }
    if (p->phase == CHAINS) {
        return ckm_i_open_places_chain(&p->open, p->n_cuts, p->cuts);
    }
    if (p->phase == BEST) {
        return ckm_i_cut_points_choose(&p->places, 1, p->cuts);
    }
    if (p->phase == PROGRAMS) {
        return p->spread ? ckm_i_cut_points_choose(&p->places, p->n_cuts, p->cuts)
                         : ckm_i_cut_points_earliest(&p->places, p->n_cuts, p->cuts);
    }
    if (p->places.n_current == 0) {
        ckm_i_cut_points_begin(&p->places, cuts_for_rows(p->solver->df, first_rows));
    }
    memcpy(p->cuts, p->places.current, (size_t)p->places.n_current * sizeof *p->cuts);
    return p->places.n_current;
}

static void start(ckm_i_prover *p)
{
    p->started_seconds = ckm_i_clock_seconds();
    p->bound_before = p->solver->bound_cost;
    bool integer = p->phase == PROGRAMS;
    p->limit_seconds = integer ? program_seconds(p) : time_left(p);
    p->n_here = next_cuts(p);
    if (p->n_here == 0) {
        p->done = true;
        return;
    }
    ckm_i_window_options options = {
        .problem = &p->problem,
        .cuts = p->cuts,
        .n_cuts = p->n_here,
        .integer = integer,
        .branch = p->phase == RELAXATIONS && !ckm_i_component_is_left_out(p->solver, &ckm_i_component_branching),
        .patience = p->phase == TRIALS || p->phase == RELAXATIONS ? brief_rounds : 0,
        .refine = p->phase == BEST || p->phase == RELAXATIONS,
        .seconds = p->limit_seconds,
        .helper = p->helper,
    };
    p->status = ckm_i_window_run_start(p->solver, &options, &p->run, &p->error);
}

// Whether there is a run to start in the time there is.
static bool has_next(const ckm_i_prover *p)
{
    return (p->phase != PROGRAMS || program_seconds(p) >= patience * p->tried_seconds) &&
           (!p->problem.is_open || time_left(p) > 0.0);
}

// The rounding of the run that has ended, when the bound has come a good deal closer to the best schedule since the last
// one that was worth it: each disturbs the search. The best single cut also counts: its trial was brief, and so is its point.
static void take_rounded(ckm_i_prover *p, ckm_i_spans *rounded)
{
    const ckm_i_solver *solver = p->solver;
    double gap = solver->best_schedule != NULL ? (double)solver->best_cost - p->rounded_bound : 0.0;
    bool worth = p->rounded_bound == 0.0 || p->phase == BEST ||
                 solver->bound_cost > p->rounded_bound + rounding_share * gap;
    if (rounded != NULL && worth && !ckm_i_component_is_left_out(solver, &ckm_i_component_rounding)) {
        ckm_i_spans_free(p->rounded, solver->df->n_tensors);
        p->rounded = rounded;
        p->rounded_bound = solver->bound_cost;
    } else {
        ckm_i_spans_free(rounded, solver->df->n_tensors);
    }
}

static const ckm_i_component *component_of(const ckm_i_prover *p)
{
    return p->phase == PROGRAMS ? &ckm_i_component_programs : &ckm_i_component_relaxations;
}

static void go_on_in_turn(ckm_i_prover *p)
{
    if (p->run == NULL) {
        start(p);
    } else if (ckm_i_window_run_poll(p->solver, p->run)) {
        ckm_i_window_run *run = p->run;
        p->run = NULL;
        ckm_i_window_found found = {.bound = -INFINITY, .cost = -INFINITY};
        p->status = ckm_i_window_run_finish(p->solver, run, &found, &p->error);
        take_rounded(p, found.rounded);
        go_further(p, ckm_i_clock_seconds() - p->started_seconds, &found);
        free(found.excess);
        free(found.slack);
    }
}

// Goes on without waiting. False when nothing is left to do.
static bool go_on(ckm_i_prover *p)
{
    if (p->done || p->status != CKM_OK || (p->run == NULL && !has_next(p))) {
        return false;
    }
    const ckm_i_component *component = component_of(p);
    bool ran = p->run != NULL;
    ckm_i_component_resume(p->solver, component);
    go_on_in_turn(p);
    ckm_i_component_end(p->solver);
    if (ran && p->run == NULL) {
        ckm_i_component_count(p->solver, component, ckm_i_clock_seconds() - p->started_seconds);
    }
    return !p->done && p->status == CKM_OK;
}

ckm_i_spans *ckm_i_prover_take_rounded(ckm_i_prover *p)
{
    ckm_i_spans *rounded = p->rounded;
    p->rounded = NULL;
    return rounded;
}

bool ckm_i_prover_has_ended(const ckm_i_prover *p)
{
    return p->run == NULL && (p->done || p->status != CKM_OK || !has_next(p));
}

static ckm_status report(const ckm_i_prover *p, ckm_error *err)
{
    if (p->status != CKM_OK && err != NULL) {
        *err = p->error;
    }
    return p->status;
}

ckm_status ckm_i_prover_run(ckm_i_prover *p, double seconds, ckm_error *err)
{
    double begin = ckm_i_clock_seconds();
    double end_before = p->end_seconds;
    p->end_seconds = fmin(begin + seconds, end_before);
    while (go_on(p) && !ckm_i_solver_should_stop(p->solver)) {
        double now = ckm_i_clock_seconds();
        if (now >= p->end_seconds && p->run == NULL) {
            break;
        }
        struct timespec nap = {.tv_nsec = now - begin < 0.05 ? 200000L : 3000000L};
        nanosleep(&nap, NULL);
    }
    p->end_seconds = end_before;
    return report(p, err);
}

// The strategy attends often, and handing in a bound makes it do so again.
static void go_on_in_background(void *context)
{
    ckm_i_prover *p = context;
    double now = ckm_i_clock_seconds();
    if (!p->polling && now - p->polled_seconds >= poll_seconds) {
        p->polling = true;
        p->polled_seconds = now;
        go_on(p);
        p->polling = false;
    }
}

ckm_status ckm_i_prover_attach(ckm_i_prover *p, double seconds, ckm_error *err)
{
    if (p->helper == NULL && !p->done) {
        ckm_error problem = CKM_ERROR_INIT;
        ckm_status status = ckm_i_window_helper_start(&p->problem, &p->helper, &problem);
        if (status == CKM_ERR_MEMORY) {
            return ckm_i_error_memory(err);
        }
        if (status != CKM_OK) {
            ckm_i_solver_log(p->solver, CKM_LOG_WARN, "%s; continuing without it", problem.message);
            p->done = true;
        }
    }
    p->end_seconds = ckm_i_clock_seconds() + seconds;
    p->solver->background = go_on_in_background;
    p->solver->background_context = p;
    return CKM_OK;
}

ckm_status ckm_i_prover_detach(ckm_i_prover *p, ckm_error *err)
{
    p->end_seconds = INFINITY;
    p->solver->background = NULL;
    p->solver->background_context = NULL;
    return report(p, err);
}
