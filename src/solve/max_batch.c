// SPDX-License-Identifier: Apache-2.0
// Search for the largest batch that fits: an upper bound from memory floors, then bisection with stretching
// of every schedule found.
#include <checkmate/max_batch.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "solve/core/solve_options.h"
#include "solve/core/solver.h"
#include "solve/core/structure.h"
#include "solve/floor/memory_floor.h"
#include "solve/solve_above.h"

enum {
    // Batches tried one by one above the best after a bisection: enough to step over a heuristic's jumps.
    SCAN_WINDOW = 8,
    // About how many of them a search takes, for sharing its time.
    STRONG_FLOORS = 16,
    // The first round of trials may use 1/2^FIRST_SHARE of the time each; every later round doubles that.
    FIRST_SHARE = 4
};

// Positions on the grid are counted from 0; -1 stands for "none".
typedef struct search {
    const ckm_max_batch_options *options;  // whose `solve` is the library's copy too
    ckm_max_batch_build_fn build;
    bool is_published, is_thorough, begins_plain;  // traits of the strategy
    double start_seconds;
    int64_t best, upper;
    ckm_bound_class upper_covers;
    bool grow_together;      // all costs, by the same factor from one batch to another
    ckm_schedule *schedule;  // for position `best`
    int64_t cost, baseline_cost, peak_bytes;
} search;

// A graph with what it may cost and hold.
typedef struct instance {
    ckm_dataflow *df;  // NULL: its sizes overflow, so it cannot fit
    int64_t budget_bytes, cost_limit;
} instance;

static double elapsed(const search *s)
{
    return ckm_i_clock_seconds() - s->start_seconds;
}

static bool should_stop(const search *s)
{
    const ckm_solve_options *o = s->options->solve;
    return (o->time_limit_seconds > 0 && elapsed(s) >= o->time_limit_seconds) || (o->stop != NULL && o->stop(o->user));
}

// The batch at position k, or INT64_MAX when it is beyond all numbers.
static int64_t batch_at(const search *s, int64_t k)
{
    int64_t batch;
    if (!ckm_i_mul(k, s->options->batch_step, &batch) || !ckm_i_add(batch, s->options->batch_min, &batch)) {
        return INT64_MAX;
    }
    return batch;
}

static int64_t cost_limit_of(const search *s, const ckm_dataflow *df)
{
    int64_t total = ckm_dataflow_total_cost(df);
    if (s->options->compute_limit > 0) {
        long double limit = floorl((long double)total * (long double)s->options->compute_limit);
        return limit >= (long double)INT64_MAX ? INT64_MAX : (int64_t)limit;
    }
    int64_t limit = total;
    for (int32_t v = 0; v < ckm_dataflow_op_count(df); v++) {
        ckm_dataflow_op op = ckm_dataflow_get_op(df, v);
        if (op.kind == CKM_OP_FORWARD && !ckm_i_add(limit, op.cost, &limit)) {
            return INT64_MAX;
        }
    }
    return limit;
}

static ckm_status instance_open(const search *s, int64_t k, instance *out, ckm_error *err)
{
    int64_t batch = batch_at(s, k);
    *out = (instance){NULL, 0, 0};
    if (batch == INT64_MAX) {
        return CKM_OK;
    }
    ckm_dataflow *df = NULL;
    ckm_status status = s->build(batch, s->options->user, &df, err);
    if (status != CKM_OK) {
        return status == CKM_ERR_OVERFLOW ? CKM_OK : status;
    }
    out->df = df;
    out->budget_bytes = s->options->memory_bytes;
    if (s->options->accounting == CKM_ACCOUNTING_PAPER && s->is_published) {
        out->budget_bytes -= ckm_dataflow_fixed_bytes(df);
    }
    out->cost_limit = cost_limit_of(s, df);
    return CKM_OK;
}

// Whether position k's memory floor fits: the simple one, or the one of the reverse pebble game.
static ckm_status floor_fits(const search *s, int64_t k, bool strong, bool *fits, ckm_error *err)
{
    instance at;
    CKM_I_CHECK(instance_open(s, k, &at, err));
    ckm_status status = CKM_OK;
    *fits = at.df != NULL && ckm_dataflow_memory_floor(at.df) <= at.budget_bytes;
    if (*fits && strong) {
        double seconds = s->options->solve->time_limit_seconds;
        ckm_i_memory_floor_options options = {
            ckm_i_memory_floor_work(CKM_I_MEMORY_FLOOR_BRIEF, seconds / (double)STRONG_FLOORS), at.budget_bytes};
        ckm_i_memory_floor_result found = {0, 0};
        status = ckm_i_memory_floor(at.df, &options, &found, err);
        *fits = found.floor_bytes <= at.budget_bytes;
    }
    ckm_dataflow_free(at.df);
    return status;
}

// The last position below `high`, which does not fit, whose memory floor fits; position `low` does, or is -1 for none.
static ckm_status last_that_fits(const search *s, int64_t low, int64_t high, bool strong, int64_t *last, ckm_error *err)
{
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        bool fits = false;
        CKM_I_CHECK(floor_fits(s, middle, strong, &fits, err));
        if (fits) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *last = low;
    return CKM_OK;
}

// Sets s->upper to the last position whose memory floor fits.
static ckm_status bound_by_floor(search *s, ckm_error *err)
{
    s->upper = -1;
    s->upper_covers = CKM_BOUND_ANY;
    bool fits = false;
    CKM_I_CHECK(floor_fits(s, 0, false, &fits, err));
    if (!fits) {
        return CKM_OK;
    }
    int64_t low = 0;
    int64_t high = 1;
    for (;;) {
        if (high >= INT64_C(1) << 40) {
            return ckm_i_error(err, CKM_ERR_ARGUMENT,
                               "the memory floor does not grow with the batch: "
                               "a batch of %lld still fits",
                               (long long)batch_at(s, low));
        }
        CKM_I_CHECK(floor_fits(s, high, false, &fits, err));
        if (!fits) {
            break;
        }
        low = high;
        high *= 2;
    }
    CKM_I_CHECK(last_that_fits(s, low, high, false, &s->upper, err));
    // The strong floor takes longer, and often says the same: first of all at the bound itself.
    CKM_I_CHECK(floor_fits(s, s->upper, true, &fits, err));
    return fits ? CKM_OK : last_that_fits(s, -1, s->upper, true, &s->upper, err);
}

// Whether a schedule found for another batch fits here.
static ckm_status schedule_fits(const search *s, const ckm_schedule *schedule, int64_t k, bool *fits,
                                ckm_simulation *facts, int64_t *baseline_cost, ckm_error *err)
{
    instance at;
    *fits = false;
    CKM_I_CHECK(instance_open(s, k, &at, err));
    if (at.df == NULL) {
        return CKM_OK;
    }
    ckm_status status = ckm_schedule_simulate(at.df, schedule, NULL, facts, err);
    if (status == CKM_OK) {
        *fits = facts->peak_bytes <= at.budget_bytes && facts->cost <= at.cost_limit;
        *baseline_cost = ckm_dataflow_total_cost(at.df);
    } else if (status == CKM_ERR_OVERFLOW || (status == CKM_ERR_FORMAT && ckm_schedule_transfer_count(schedule) > 0)) {
        status = CKM_OK;  // a second memory may hold less than is moved for a larger batch
    }
    ckm_dataflow_free(at.df);
    return status;
}

// Takes a schedule that fits position k, and stretches it to the last position where it still fits.
static ckm_status accept(search *s, ckm_schedule *schedule, int64_t k, ckm_error *err)
{
    int64_t low = k;
    int64_t high = s->upper + 1;
    bool fits = false;
    int64_t baseline_cost = -1;
    int64_t low_baseline = -1;
    ckm_simulation facts = {.cost = 0};
    ckm_simulation low_facts = {.cost = 0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(schedule_fits(s, schedule, k, &fits, &low_facts, &low_baseline, err));
    if (!fits) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL, "the schedule for batch %lld exceeds its limits",
                             (long long)batch_at(s, k));
        goto cleanup;
    }
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        CKM_I_TRY(schedule_fits(s, schedule, middle, &fits, &facts, &baseline_cost, err));
        if (fits) {
            low = middle;
            low_facts = facts;
            low_baseline = baseline_cost;
        } else {
            high = middle;
        }
    }
    ckm_schedule_free(s->schedule);
    s->schedule = schedule;
    schedule = NULL;
    s->best = low;
    s->cost = low_facts.cost;
    s->peak_bytes = low_facts.peak_bytes;
    s->baseline_cost = low_baseline;
cleanup:
    ckm_schedule_free(schedule);
    return status;
}

// Something to start from at once: running without rematerialization, as far as that goes.
static ckm_status seed(search *s, ckm_error *err)
{
    instance at;
    ckm_schedule *schedule = NULL;
    ckm_simulation facts;
    ckm_status status = CKM_OK;
    CKM_I_CHECK(instance_open(s, 0, &at, err));
    if (at.df == NULL) {
        return CKM_OK;
    }
    CKM_I_TRY(ckm_schedule_baseline(at.df, &schedule, err));
    CKM_I_TRY(ckm_schedule_simulate(at.df, schedule, NULL, &facts, err));
    if (facts.peak_bytes <= at.budget_bytes) {
        status = accept(s, schedule, 0, err);
        schedule = NULL;
    }
cleanup:
    ckm_schedule_free(schedule);
    ckm_dataflow_free(at.df);
    return status;
}

// The floor of one trial, for a share of its time: heuristics that are tried by the dozen do without.
static ckm_status trial_floor(const instance *at, double seconds, int64_t *floor_bytes, ckm_error *err)
{
    ckm_i_memory_floor_options options = {ckm_i_memory_floor_work(CKM_I_MEMORY_FLOOR_BRIEF, seconds), at->budget_bytes};
    ckm_i_memory_floor_result found = {0, 0};
    CKM_I_CHECK(ckm_i_memory_floor(at->df, &options, &found, err));
    *floor_bytes = found.floor_bytes;
    return CKM_OK;
}

static ckm_status solve_instance(const search *s, const instance *at, double seconds, ckm_solve_result *result,
                                 ckm_error *err)
{
    ckm_solve_options options = *s->options->solve;
    options.budget_bytes = at->budget_bytes;
    options.cost_limit = at->cost_limit;
    options.time_limit_seconds = seconds;
    int64_t floor_bytes = ckm_dataflow_memory_floor(at->df);
    if (s->is_thorough) {
        CKM_I_CHECK(trial_floor(at, seconds, &floor_bytes, err));
    }
    return ckm_i_solve_above(at->df, &options, floor_bytes, result, err);
}

// Whether all costs of b are those of a times one factor, exactly.
static bool are_in_proportion(const ckm_dataflow *a, const ckm_dataflow *b)
{
    int64_t divisor = ckm_i_gcd(a->total_cost, b->total_cost);
    if (a->n_ops != b->n_ops || divisor == 0) {
        return a->n_ops == b->n_ops;
    }
    int64_t from = a->total_cost / divisor;
    int64_t to = b->total_cost / divisor;
    for (int32_t v = 0; v < a->n_ops; v++) {
        int64_t one;
        int64_t other;
        if (!ckm_i_mul(a->ops[v].cost, to, &one) || !ckm_i_mul(b->ops[v].cost, from, &other) || one != other) {
            return false;
        }
    }
    return true;
}

// Whether the costs at the upper bound are those of the first position times one factor. What costs too much there then
// costs too much at every larger batch: a schedule's cost and the limit are sums of the same costs. Costs that have a part
// that does not depend on the batch, as a launch of a kernel has, prove nothing of other batches; nor do those of transfers.
static ckm_status compare_costs(search *s, ckm_error *err)
{
    instance low = {NULL, 0, 0};
    instance high = {NULL, 0, 0};
    ckm_status status = CKM_OK;
    CKM_I_TRY(instance_open(s, 0, &low, err));
    CKM_I_TRY(instance_open(s, s->upper, &high, err));
    s->grow_together = low.df != NULL && high.df != NULL && are_in_proportion(low.df, high.df) &&
                       !ckm_dataflow_get_second_memory(high.df, NULL);
cleanup:
    ckm_dataflow_free(low.df);
    ckm_dataflow_free(high.df);
    return status;
}

// Solves position k within `seconds` and what is left of the search's time (<= 0: no limit). *timed_out:
// more time might have found more.
static ckm_status try_position(search *s, int64_t k, double seconds, bool *timed_out, ckm_error *err)
{
    instance at;
    CKM_I_CHECK(instance_open(s, k, &at, err));
    if (at.df == NULL) {
        s->upper = k - 1;
        return CKM_OK;
    }
    if (seconds > 0) {
        seconds = fmax(fmin(seconds, s->options->solve->time_limit_seconds - elapsed(s)), 1e-3);
    }
    ckm_solve_result result;
    ckm_status status = solve_instance(s, &at, seconds, &result, err);
    ckm_dataflow_free(at.df);
    CKM_I_CHECK(status);
    ckm_solve_status outcome = result.status;
    bool found = result.schedule != NULL && result.cost <= at.cost_limit;
    if (found) {
        status = accept(s, result.schedule, k, err);
        result.schedule = NULL;
        CKM_I_TRY(status);
    } else if (outcome == CKM_SOLVE_INFEASIBLE || result.bound_cost > (double)at.cost_limit) {
        outcome = CKM_SOLVE_INFEASIBLE;
        if (result.floor_bytes > at.budget_bytes || s->grow_together) {
            s->upper = k - 1;
        }
        s->upper_covers = result.bound_covers != CKM_BOUND_NONE ? result.bound_covers : CKM_BOUND_ANY;
    } else {
        outcome = CKM_SOLVE_UNKNOWN;
        *timed_out = *timed_out || (seconds > 0 && result.seconds >= 0.9 * seconds);
    }
    if (s->options->trial != NULL) {
        s->options->trial(batch_at(s, k), outcome, s->best < 0 ? 0 : batch_at(s, s->best),
                          s->upper < 0 ? 0 : batch_at(s, s->upper), elapsed(s), s->options->user);
    }
cleanup:
    ckm_solve_result_dispose(&result);
    return status;
}

// Bisects between the best and `high`, the last position worth trying.
static ckm_status bisect(search *s, int64_t high, double seconds, bool *timed_out, ckm_error *err)
{
    while (s->best < high && !should_stop(s)) {
        int64_t k = s->best + (high - s->best + 1) / 2;
        CKM_I_CHECK(try_position(s, k, seconds, timed_out, err));
        high = s->best < k ? k - 1 : high;
        high = high > s->upper ? s->upper : high;
    }
    return CKM_OK;
}

// The first round: the upper bound itself, as it is often met, then a bisection.
static ckm_status first_round(search *s, double seconds, bool *timed_out, ckm_error *err)
{
    int64_t high = s->upper;
    CKM_I_CHECK(try_position(s, high, seconds, timed_out, err));
    if (s->best == high) {
        return CKM_OK;
    }
    return bisect(s, high - 1 < s->upper ? high - 1 : s->upper, seconds, timed_out, err);
}

// Later rounds have more time for each trial. The best of the round before is a good guess, so they walk
// away from it in growing steps and bisect the last one.
static ckm_status later_round(search *s, double seconds, bool *timed_out, ckm_error *err)
{
    for (int64_t step = 1; s->best < s->upper && !should_stop(s); step *= 2) {
        int64_t k = s->upper - s->best < step ? s->upper : s->best + step;
        CKM_I_CHECK(try_position(s, k, seconds, timed_out, err));
        if (s->best < k) {
            return bisect(s, k - 1 < s->upper ? k - 1 : s->upper, seconds, timed_out, err);
        }
    }
    return CKM_OK;
}

// Tries the positions above the best, one by one, until a window of them brings nothing.
static ckm_status scan(search *s, double seconds, bool *timed_out, ckm_error *err)
{
    int64_t tried = s->best + 1;  // where the bisection ended
    while (tried < s->upper && tried < s->best + SCAN_WINDOW && !should_stop(s)) {
        tried++;
        CKM_I_CHECK(try_position(s, tried, seconds, timed_out, err));
        if (s->best > tried) {
            tried = s->best;
        }
    }
    return CKM_OK;
}

static ckm_status run_rounds(search *s, ckm_error *err)
{
    double limit = s->options->solve->time_limit_seconds;
    for (int round = 0; s->best < s->upper && !should_stop(s); round++) {
        bool timed_out = false;
        double seconds = limit > 0 ? limit / (double)(INT64_C(1) << (round < FIRST_SHARE ? FIRST_SHARE - round : 0))
                                   : 0;
        CKM_I_CHECK(round == 0 ? first_round(s, seconds, &timed_out, err) : later_round(s, seconds, &timed_out, err));
        if (!timed_out) {
            // What failed failed for good, at these batches: look a little above, and be done.
            CKM_I_CHECK(scan(s, seconds, &timed_out, err));
        }
        if (!timed_out) {
            break;
        }
    }
    return CKM_OK;
}

static ckm_status check_options(const ckm_max_batch_options *o, ckm_error *err)
{
    if (o->memory_bytes < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "the memory must be at least 0 bytes");
    }
    if (isnan(o->compute_limit) || (o->compute_limit != 0 && o->compute_limit < 1)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "the compute limit must be at least 1 (times the cost of a run "
                           "without rematerialization), got %g",
                           o->compute_limit);
    }
    if (o->batch_min < 1 || o->batch_step < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "batch_min and batch_step must be at least 1");
    }
    return CKM_OK;
}

// The verifier has the last word on what is handed out.
static ckm_status check_schedule(const search *s, ckm_error *err)
{
    instance at;
    CKM_I_CHECK(instance_open(s, s->best, &at, err));
    ckm_verdict verdict = {.cost = -1, .peak_bytes = -1};
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_schedule_verify(at.df, s->schedule, at.budget_bytes, &verdict, err));
    if (!verdict.ok || verdict.cost != s->cost || verdict.peak_bytes != s->peak_bytes) {
        status = ckm_i_error(err, CKM_ERR_INTERNAL, "the verifier refuses the schedule for batch %lld: %s",
                             (long long)batch_at(s, s->best), verdict.ok ? "cost or peak differ" : verdict.why);
        goto cleanup;
    }
    ckm_schedule_info info = *ckm_schedule_get_info(s->schedule);
    info.budget_bytes = at.budget_bytes;
    info.cost = s->cost;
    info.peak_bytes = s->peak_bytes;
    info.baseline_cost = s->baseline_cost;
    info.bound_cost = NAN;  // it was proven for the batch that was solved, not for this one
    info.bound_covers = CKM_BOUND_NONE;
    info.optimal = false;
    ckm_schedule_set_info(s->schedule, &info);
cleanup:
    ckm_dataflow_free(at.df);
    return status;
}

ckm_status ckm_max_batch(const ckm_max_batch_options *options, ckm_max_batch_build_fn build,
                         ckm_max_batch_result *result, ckm_error *err)
{
    CKM_I_NEED(options, err);
    CKM_I_NEED(build, err);
    CKM_I_NEED(result, err);
    ckm_max_batch_options o = CKM_MAX_BATCH_OPTIONS_INIT;
    ckm_solve_options solve;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_max_batch_options, &o, user, options, err));
    CKM_I_CHECK(ckm_i_solve_options_read(o.solve, CKM_I_DEFAULT_SECONDS, &solve, err));
    o.batch_min = ckm_i_usual_count(o.batch_min, 1);
    o.batch_step = ckm_i_usual_count(o.batch_step, 1);
    o.solve = &solve;
    const ckm_i_strategy *strategy = ckm_i_strategy_find(solve.strategy);
    search s = {.options = &o,
                .build = build,
                .best = -1,
                .upper = -1,
                .upper_covers = CKM_BOUND_ANY,
                .cost = -1,
                .baseline_cost = -1,
                .peak_bytes = -1,
                .start_seconds = ckm_i_clock_seconds(),
                .is_published = strategy != NULL && strategy->is_published,
                .is_thorough = strategy != NULL && strategy->is_thorough,
                .begins_plain = strategy != NULL && strategy->begins_plain};
    ckm_status status = CKM_OK;
    CKM_I_TRY(check_options(&o, err));
    CKM_I_TRY(bound_by_floor(&s, err));
    if (s.upper >= 0) {
        CKM_I_TRY(compare_costs(&s, err));
    }
    if (s.upper >= 0 && s.begins_plain) {
        CKM_I_TRY(seed(&s, err));
    }
    CKM_I_TRY(run_rounds(&s, err));
    if (s.best >= 0) {
        CKM_I_TRY(check_schedule(&s, err));
    }
    *result = (ckm_max_batch_result){
        .status = s.best < 0 ? (s.upper < 0 ? CKM_SOLVE_INFEASIBLE : CKM_SOLVE_UNKNOWN)
                             : (s.best == s.upper ? CKM_SOLVE_OPTIMAL : CKM_SOLVE_FEASIBLE),
        .max_batch = s.best < 0 ? 0 : batch_at(&s, s.best),
        .upper_bound = s.upper < 0 ? 0 : batch_at(&s, s.upper),
        .bound_covers = s.upper_covers,
        .schedule = s.schedule,
        .cost = s.cost,
        .baseline_cost = s.baseline_cost,
        .peak_bytes = s.peak_bytes,
        .seconds = elapsed(&s),
    };
    s.schedule = NULL;
cleanup:
    ckm_schedule_free(s.schedule);
    return status;
}

void ckm_max_batch_result_dispose(ckm_max_batch_result *result)
{
    if (result != NULL) {
        ckm_schedule_free(result->schedule);
        result->schedule = NULL;
    }
}
