// SPDX-License-Identifier: Apache-2.0
// Two schedules of the same step, timed in turns: what slows the machine down for a while slows both, and the median of
// the turns' ratios is left alone by what disturbs a few of them.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/options.h"
#include "run/session/session.h"
#include "run/session/session_moves.h"

// Steps of a turn: the first brings the session's own data back to the caches and is not counted.
enum { TURN_STEPS = 3, LEAST_ROUNDS = 3 };

typedef struct side {
    ckm_session *session;
    double *steps;  // seconds of all that are counted
    double *turns;  // by round: the faster of its steps; disturbances only ever add
    int64_t n_steps, n_turns;
    int64_t *calls;  // nanoseconds by counted step and call
} side;

// The value that `part` of n > 0 sorted ones are below, interpolated.
static double quantile(const double *sorted, int64_t n, double part)
{
    double at = part * (double)(n - 1);
    int64_t low = (int64_t)at;
    int64_t high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

static ckm_status side_open(side *x, ckm_program *program, const ckm_dataflow *df, const ckm_session_side *given,
                            const ckm_timing_options *options, ckm_error *err)
{
    ckm_session_options session_options = CKM_SESSION_OPTIONS_INIT;
    session_options.seed = options->seed;
    session_options.prefault = true;
    x->steps = ckm_i_malloc((size_t)options->rounds * (TURN_STEPS - 1), sizeof *x->steps);
    x->turns = ckm_i_malloc((size_t)options->rounds, sizeof *x->turns);
    if (x->steps == NULL || x->turns == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_session_create(program, df, given->schedule, given->plan, &session_options, &x->session, err));
    size_t row = (size_t)x->session->n_calls * sizeof *x->calls;
    x->calls = ckm_i_malloc((size_t)options->rounds * (TURN_STEPS - 1), row > 0 ? row : 1);
    return x->calls != NULL ? ckm_i_session_time_calls(x->session, err) : ckm_i_error_memory(err);
}

static void side_close(side *x)
{
    ckm_session_free(x->session);
    free(x->steps);
    free(x->turns);
    free(x->calls);
}

static ckm_status take_turn(side *x, int64_t step, const ckm_timing_options *options, ckm_error *err)
{
    double least = 0.0;
    for (int64_t k = 0; k < TURN_STEPS; k++) {
        ckm_step_result result;
        if (options->fill != NULL) {
            CKM_I_CHECK(options->fill(x->session, step + k, options->user, err));
        } else {
            CKM_I_CHECK(ckm_session_fill(x->session, 1, step + k, err));
        }
        CKM_I_CHECK(ckm_session_step(x->session, step + k, options->learning_rate, &result, err));
        if (k > 0) {
            memcpy(x->calls + x->n_steps * x->session->n_calls, x->session->call_nanoseconds,
                   (size_t)x->session->n_calls * sizeof *x->calls);
            x->steps[x->n_steps++] = result.seconds;
            least = k == 1 || result.seconds < least ? result.seconds : least;
        }
    }
    x->turns[x->n_turns++] = least;
    return CKM_OK;
}

static ckm_timing_side summarize(side *x)
{
    qsort(x->steps, (size_t)x->n_steps, sizeof *x->steps, ckm_i_compare_double);
    return (ckm_timing_side){quantile(x->steps, x->n_steps, 0.5), quantile(x->steps, x->n_steps, 0.1),
                             quantile(x->steps, x->n_steps, 0.9)};
}

// What steps of `to` take by the operator times of `from`: its medians for every computation, plus what its steps take
// in addition to them. `medians` has room for all steps, `by_op` for all operators.
static double predict(const side *from, double from_step_seconds, const side *to, double *medians, double *by_op)
{
    const ckm_session *session = from->session;
    double known = 0.0;
    for (int64_t c = 0; c < session->n_calls; c++) {
        for (int64_t k = 0; k < from->n_steps; k++) {
            medians[k] = (double)from->calls[k * session->n_calls + c] * 1e-9;
        }
        qsort(medians, (size_t)from->n_steps, sizeof *medians, ckm_i_compare_double);
        double median = quantile(medians, from->n_steps, 0.5);
        known += median;
        if (session->calls[c].call.first) {
            by_op[session->calls[c].call.op] = median;
        }
    }
    return ckm_i_session_makespan(to->session, by_op) + (from_step_seconds > known ? from_step_seconds - known : 0.0);
}

static ckm_timing conclude(side *first, side *second)
{
    int64_t n = first->n_turns;
    ckm_timing timing = {.rounds = n, .first = summarize(first), .second = summarize(second)};
    double *ratios = first->turns;
    for (int64_t i = 0; i < n; i++) {
        ratios[i] = second->turns[i] / first->turns[i];
    }
    qsort(ratios, (size_t)n, sizeof *ratios, ckm_i_compare_double);
    timing.ratio = quantile(ratios, n, 0.5);
    timing.ratio_p25 = quantile(ratios, n, 0.25);
    timing.ratio_p75 = quantile(ratios, n, 0.75);
    return timing;
}

ckm_status ckm_session_time(ckm_program *program, const ckm_dataflow *df, const ckm_session_side *first,
                            const ckm_session_side *second, const ckm_timing_options *options, ckm_timing *out,
                            ckm_error *err)
{
    CKM_I_NEED(program, err);
    CKM_I_NEED(df, err);
    CKM_I_NEED(first, err);
    CKM_I_NEED_NAMED(first->schedule, "first->schedule", err);
    CKM_I_NEED_NAMED(first->plan, "first->plan", err);
    CKM_I_NEED(second, err);
    CKM_I_NEED_NAMED(second->schedule, "second->schedule", err);
    CKM_I_NEED_NAMED(second->plan, "second->plan", err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_status status;
    side sides[2] = {{0}, {0}};
    double *medians = NULL;
    double *by_op = NULL;
    double start = ckm_i_clock_seconds();
    ckm_timing_options o = CKM_TIMING_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_timing_options, &o, user, options, err));
    o.rounds = ckm_i_usual_count(o.rounds, 15);
    o.time_limit_seconds = ckm_i_usual(o.time_limit_seconds, 60);
    if (o.rounds < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "timing takes at least one round, not %lld", (long long)o.rounds);
    }
    CKM_I_TRY(side_open(&sides[0], program, df, first, &o, err));
    CKM_I_TRY(side_open(&sides[1], program, df, second, &o, err));
    for (int64_t round = 0; round < o.rounds; round++) {
        bool late = o.time_limit_seconds > 0.0 && round >= LEAST_ROUNDS &&
                    ckm_i_clock_seconds() - start > o.time_limit_seconds;
        if (late || (round > 0 && o.stop != NULL && o.stop(o.user))) {
            break;
        }
        // First, second; second, first: a machine that grows slower favours neither.
        for (int turn = 0; turn < 2; turn++) {
            CKM_I_TRY(take_turn(&sides[(round + turn) % 2], round * TURN_STEPS, &o, err));
        }
    }
    medians = ckm_i_malloc((size_t)sides[0].n_steps, sizeof *medians);
    by_op = ckm_i_calloc((size_t)program->n_ops, sizeof *by_op);
    if (medians == NULL || by_op == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    *out = conclude(&sides[0], &sides[1]);
    out->second_predicted_seconds = predict(&sides[0], out->first.median_seconds, &sides[1], medians, by_op);
cleanup:
    free(medians);
    free(by_op);
    side_close(&sides[0]);
    side_close(&sides[1]);
    return status;
}
