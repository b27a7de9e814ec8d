// SPDX-License-Identifier: Apache-2.0
// Search for the smallest budget that a schedule fits: a lower bound from the memory floor and from proofs, an upper
// one from schedules, bisection in between. With a second memory, schedules that move all that rests, and those of graphs that
// stand in for one where everything is moved, come first, and the bound is the floor of single operators.
#include <checkmate/min_budget.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "solve/core/solve_options.h"
#include "solve/core/solver.h"
#include "solve/moves/moves_expand.h"
#include "solve/moves/moves_greedy.h"
#include "solve/solve_above.h"
#include "solve/runs/pebbling_play.h"
#include "schedule/schedule.h"

// The first round may spend 1/FIRST_SHARE of the time on the lower bound, EASIER times that on each budget above it, where
// something is found soon as a rule, and halves what is open this many times; every later one spends twice as much, and halves
// once more. Each begins with search for schedules of ever smaller peak, for DOWN times what goes into the lower bound.
enum { FIRST_SHARE = 32, EASIER = 4, DOWN = 8, FIRST_HALVINGS = 2 };

// That search where there is no limit.
static const double down_seconds = 5.0;

// Of the time, with a second memory: for a graph where all is moved that can be, and for one where nothing is.
static const double all_share = 0.3, none_share = 0.2;

typedef struct search {
    const ckm_dataflow *df;
    const ckm_solve_options *options;
    ckm_min_budget_fn report;
    double start_seconds;
    ckm_schedule *schedule;
    int64_t best, lower;  // peak of the schedule; proven
    int64_t floor_bytes;  // proven for all schedules, by integer arithmetic alone
    ckm_bound_class covers;
} search;

static double elapsed(const search *s)
{
    return ckm_i_clock_seconds() - s->start_seconds;
}

static bool should_stop(const search *s)
{
    const ckm_solve_options *o = s->options;
    return s->best <= s->lower || (o->time_limit_seconds > 0 && elapsed(s) >= o->time_limit_seconds) ||
           (o->stop != NULL && o->stop(o->user));
}

// What is known, without the schedule.
static ckm_min_budget_result known(const search *s)
{
    return (ckm_min_budget_result){
        .status = s->best == s->lower ? CKM_SOLVE_OPTIMAL : CKM_SOLVE_FEASIBLE,
        .budget_bytes = s->best,
        .lower_bound_bytes = s->lower,
        .bound_covers = s->covers,
        .floor_bytes = s->covers == CKM_BOUND_ANY ? s->lower : s->floor_bytes,
        .seconds = elapsed(s),
    };
}

static void tell(const search *s)
{
    if (s->report != NULL) {
        ckm_min_budget_result so_far = known(s);
        s->report(&so_far, s->options->user);
    }
}

// More than any frontier-advancing schedule costs, so that the first one that fits will do. How long transfers take has no limit.
static int64_t any_cost(const ckm_dataflow *df)
{
    int64_t cost;
    if (ckm_dataflow_get_second_memory(df, NULL)) {
        return INT64_MAX - 1;
    }
    bool fits = ckm_i_mul(ckm_dataflow_total_cost(df), (int64_t)ckm_dataflow_op_count(df) + 1, &cost);
    return fits && cost < INT64_MAX ? cost : INT64_MAX - 1;
}

static ckm_status take(search *s, ckm_schedule *schedule, ckm_error *err)
{
    ckm_simulation facts;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_schedule_try(s->df, schedule, NULL, &facts, err));
    ckm_schedule_free(s->schedule);
    s->schedule = schedule;
    schedule = NULL;
    s->best = facts.peak_bytes;
    if (s->best < s->lower) {
        // Proofs for a class of schedules, or by engines with tolerances: a schedule is worth more.
        s->lower = s->floor_bytes;
        s->covers = CKM_BOUND_ANY;
    }
    tell(s);
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

// The game may have two fifths of the time.
static bool game_is_over(void *context)
{
    const search *s = context;
    double limit = s->options->time_limit_seconds;
    return should_stop(s) || (limit > 0 && elapsed(s) > 0.4 * limit);
}

// The same for one that may be illegal, where operators run only once, or no better.
static ckm_status take_better(search *s, ckm_schedule *schedule, ckm_error *err)
{
    ckm_verdict verdict;
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_verify(s->df, schedule, -1, &verdict, err));
    if (verdict.ok && verdict.peak_bytes < s->best) {
        return take(s, schedule, err);
    }
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

static ckm_schedule *named(ckm_schedule *schedule, const char *strategy)
{
    ckm_schedule_info info = *ckm_schedule_get_info(schedule);
    snprintf(info.strategy, sizeof info.strategy, "%s", strategy);
    ckm_schedule_set_info(schedule, &info);
    return schedule;
}

// The reverse pebble game: a lower bound for every schedule, and a schedule of hardly any memory.
static ckm_status play(search *s, ckm_error *err)
{
    double limit = s->options->time_limit_seconds;
    ckm_i_memory_floor_options limits = {ckm_i_memory_floor_work(CKM_I_MEMORY_FLOOR_LONG, limit), s->best};
    ckm_i_memory_floor_result found;
    ckm_schedule *schedule = NULL;
    ckm_i_pebbling game;
    CKM_I_CHECK(ckm_i_pebbling_init(&game, s->df, err));
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_memory_floor_find(&game, &limits, &found, err));
    s->floor_bytes = found.floor_bytes;
    s->lower = found.floor_bytes;
    tell(s);
    if (game.ancestors != NULL) {
        // The floor knows what runs once; what there is a game to show for does not.
        ckm_i_pebbling_dispose(&game);
        CKM_I_TRY(ckm_i_pebbling_init_again(&game, s->df, err));
        CKM_I_TRY(ckm_i_memory_floor_find(&game, &limits, &found, err));
    }
    CKM_I_TRY(ckm_i_pebbling_least(&game, found.enough_bytes, s->best, limits.work, game_is_over, s, &schedule, err));
    if (schedule != NULL) {
        status = take_better(s, named(schedule, "pebbling"), err);
    }
cleanup:
    ckm_i_pebbling_dispose(&game);
    return status;
}

// Search from the schedule of least peak downwards.
static ckm_status come_down(search *s, double seconds, int round, ckm_error *err)
{
    ckm_solve_options options = *s->options;
    double end = s->start_seconds + options.time_limit_seconds;
    double now = ckm_i_clock_seconds();
    double until = seconds > 0 ? fmin(now + (double)DOWN * seconds, end) : now + down_seconds;
    ckm_i_solver solver;
    ckm_status status = CKM_OK;
    options.seed += (uint64_t)round;
    options.progress = NULL;
    options.log = NULL;
    ckm_i_solver_init(&solver, s->df, &options, s->lower);
    CKM_I_TRY(ckm_i_solver_note_least(&solver, s->schedule, err));
    CKM_I_TRY(ckm_i_least_peak(&solver, ckm_i_strategy_find(NULL), s->lower, until, err));
    ckm_schedule **found = solver.best_schedule != NULL ? &solver.best_schedule : &solver.least_schedule;
    if (*found != NULL) {
        ckm_schedule *schedule = *found;
        *found = NULL;
        status = take_better(s, schedule, err);
    }
cleanup:
    ckm_i_solver_dispose(&solver);
    return status;
}

// Looks for a schedule within `budget` bytes for at most `seconds` (<= 0: no limit). *undecided: neither found nor refuted.
static ckm_status try_budget(search *s, int64_t budget, double seconds, bool *undecided, ckm_error *err)
{
    ckm_solve_options options = *s->options;
    ckm_solve_result result;
    if (seconds > 0) {
        seconds = fmax(fmin(seconds, s->options->time_limit_seconds - elapsed(s)), 1e-3);
    }
    options.budget_bytes = budget;
    options.cost_limit = any_cost(s->df);
    options.time_limit_seconds = seconds;
    options.progress = NULL;
    options.log = NULL;
    const ckm_i_known given = {.bound_cost = NAN, .of_many = true};
    CKM_I_CHECK(ckm_i_solve_known(s->df, &options, s->floor_bytes, &given, &result, err));
    ckm_status status = CKM_OK;
    *undecided = false;
    if (result.schedule != NULL) {
        status = take(s, result.schedule, err);
        result.schedule = NULL;
    } else if (result.status == CKM_SOLVE_INFEASIBLE) {
        s->lower = budget + 1;
        s->covers = result.bound_covers > s->covers ? result.bound_covers : s->covers;
        tell(s);
    } else {
        *undecided = true;
    }
    ckm_solve_result_dispose(&result);
    return status;
}

// The lower bound itself first, which is often met; then bisection of what is above the last failure, until no more than
// `rest` bytes are open: a failure costs all of its time, and close to what is known there is little to win.
static ckm_status run_round(search *s, double seconds, int64_t rest, bool *all_decided, ckm_error *err)
{
    int64_t low = s->lower;  // the smallest budget worth a try in this round
    for (bool first = true; low < s->best && (first || s->best - low > rest) && !should_stop(s); first = false) {
        int64_t budget = first ? low : low + (s->best - low) / 2;
        bool undecided = false;
        CKM_I_CHECK(try_budget(s, budget, first ? seconds : (double)EASIER * seconds, &undecided, err));
        if (undecided) {
            *all_decided = false;
            low = budget + 1;
        }
        low = s->lower > low ? s->lower : low;
    }
    return CKM_OK;
}

static ckm_status run_rounds(search *s, ckm_error *err)
{
    double limit = s->options->time_limit_seconds;
    double seconds = limit > 0 ? limit / (double)FIRST_SHARE : 0;
    bool moves = ckm_dataflow_get_second_memory(s->df, NULL);
    for (int round = 0; !should_stop(s); round++) {
        bool all_decided = true;
        CKM_I_CHECK(moves ? CKM_OK : come_down(s, seconds, round, err));
        int64_t rest = limit > 0 && round < 60 ? (s->best - s->lower) >> (round + FIRST_HALVINGS) : 0;
        CKM_I_CHECK(run_round(s, seconds, rest, &all_decided, err));
        if (!all_decided && limit <= 0) {
            break;  // what gave up without a limit will again
        }
        seconds *= 2;
    }
    return CKM_OK;
}

// More work for the lower bound than the game had, once there is a schedule of hardly any memory.
static ckm_status raise_floor(search *s, ckm_error *err)
{
    const double longer = 5.0;
    double limit = s->options->time_limit_seconds;
    int64_t before = ckm_i_memory_floor_work(CKM_I_MEMORY_FLOOR_LONG, limit);
    ckm_i_memory_floor_options limits = {ckm_i_memory_floor_work(CKM_I_MEMORY_FLOOR_LONG, longer * limit), s->best};
    ckm_i_memory_floor_result found;
    if (limits.work <= before) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_i_memory_floor(s->df, &limits, &found, err));
    if (found.floor_bytes > s->lower) {
        s->floor_bytes = found.floor_bytes;
        s->lower = found.floor_bytes;
        tell(s);
    }
    return CKM_OK;
}

// Moves alone, within ever less, halving what is open.
static ckm_status move_alone(search *s, const bool *can, ckm_error *err)
{
    ckm_status status = CKM_OK;
    bool *moved = ckm_i_malloc((size_t)s->df->n_tensors, sizeof *moved);
    if (moved == NULL) {
        return ckm_i_error_memory(err);
    }
    for (int64_t low = s->lower; low < s->best && !should_stop(s);) {
        ckm_schedule *schedule = NULL;
        int64_t before = s->best;
        // The least of all first: what must be in memory at a time is most often all that is.
        int64_t budget = low == s->lower ? low : low + (s->best - low) / 2;
        CKM_I_TRY(ckm_i_moves_greedy(s->df, can, budget, moved, &schedule, NULL, err));
        CKM_I_TRY(schedule != NULL ? take_better(s, named(schedule, "transfers"), err) : CKM_OK);
        low = s->best < before ? low : budget + 1;
    }
cleanup:
    free(moved);
    return status;
}

static ckm_status find(const ckm_dataflow *df, const ckm_solve_options *o, ckm_min_budget_fn report,
                       ckm_min_budget_result *result, ckm_error *err);

static bool is_found(void *context)
{
    return should_stop(context);
}

// The least schedule of a graph without a second memory, where what has a price of at least 0 can be read back; here it is moved.
static ckm_status stand_in(search *s, const int64_t *price, double share, ckm_error *err)
{
    ckm_i_moves_graph m = {.df = NULL};
    ckm_min_budget_result least = {.schedule = NULL};
    ckm_schedule *schedule = NULL;
    ckm_status status = CKM_OK;
    ckm_solve_options options = *s->options;
    double limit = options.time_limit_seconds;
    options.time_limit_seconds = limit > 0 ? fmax(share * (limit - elapsed(s)), 1e-3) : down_seconds;
    options.stop = is_found;
    options.user = s;
    options.log = NULL;
    options.progress = NULL;
    CKM_I_CHECK(ckm_i_moves_graph_make(s->df, price, &m, err));
    CKM_I_TRY(find(m.stand_in, &options, NULL, &least, err));
    CKM_I_TRY(ckm_i_moves_expand(&m, least.schedule, 0, &schedule, err));
    status = take_better(s, named(schedule, "transfers"), err);
cleanup:
    ckm_min_budget_result_dispose(&least);
    ckm_i_moves_graph_dispose(&m);
    return status;
}

static ckm_status begin_with_moves(search *s, ckm_error *err)
{
    size_t n = (size_t)s->df->n_tensors;
    ckm_status status = CKM_OK;
    bool *can = ckm_i_malloc(n, sizeof *can);
    int64_t *price = ckm_i_malloc(n, sizeof *price);
    if (can == NULL || price == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    ckm_i_moves_which(s->df, can);
    CKM_I_TRY(move_alone(s, can, err));
    for (int32_t x = 0; x < s->df->n_tensors; x++) {
        price[x] = can[x] ? 1 : -1;
    }
    CKM_I_TRY(should_stop(s) ? CKM_OK : stand_in(s, price, all_share, err));
    for (int32_t x = 0; x < s->df->n_tensors; x++) {
        price[x] = -1;
    }
    CKM_I_TRY(should_stop(s) ? CKM_OK : stand_in(s, price, none_share, err));
cleanup:
    free(can);
    free(price);
    return status;
}

static ckm_status begin(search *s, ckm_error *err)
{
    if (ckm_dataflow_get_second_memory(s->df, NULL)) {
        return should_stop(s) ? CKM_OK : begin_with_moves(s, err);
    }
    CKM_I_CHECK(should_stop(s) ? CKM_OK : play(s, err));
    return should_stop(s) ? CKM_OK : raise_floor(s, err);
}

// With options that have been read.
static ckm_status find(const ckm_dataflow *df, const ckm_solve_options *o, ckm_min_budget_fn report,
                       ckm_min_budget_result *result, ckm_error *err)
{
    ckm_status status = CKM_OK;
    ckm_schedule *baseline = NULL;
    search s = {
        .df = df,
        .options = o,
        .report = report,
        .start_seconds = ckm_i_clock_seconds(),
        .lower = ckm_dataflow_memory_floor(df),
        .floor_bytes = ckm_dataflow_memory_floor(df),
        .covers = CKM_BOUND_ANY,
    };
    CKM_I_TRY(ckm_schedule_baseline(df, &baseline, err));
    CKM_I_TRY(take(&s, baseline, err));
    CKM_I_TRY(begin(&s, err));
    CKM_I_TRY(run_rounds(&s, err));
    ckm_verdict verdict;
    CKM_I_TRY(ckm_schedule_verify(df, s.schedule, s.best, &verdict, err));
    if (!verdict.ok) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL, "the verifier refuses the schedule for %lld bytes: %s",
                             (long long)s.best, verdict.why);
        goto cleanup;
    }
    *result = known(&s);
    result->schedule = s.schedule;
    s.schedule = NULL;
cleanup:
    ckm_schedule_free(s.schedule);
    return status;
}

ckm_status ckm_min_budget(const ckm_dataflow *df, const ckm_solve_options *options, ckm_min_budget_fn report,
                          ckm_min_budget_result *result, ckm_error *err)
{
    CKM_I_NEED(df, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(result, err);
    ckm_solve_options o;
    CKM_I_CHECK(ckm_i_solve_options_read(options, CKM_I_DEFAULT_SECONDS, &o, err));
    return find(df, &o, report, result, err);
}

void ckm_min_budget_result_dispose(ckm_min_budget_result *result)
{
    if (result != NULL) {
        ckm_schedule_free(result->schedule);
        result->schedule = NULL;
    }
}
