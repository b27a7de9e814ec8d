// SPDX-License-Identifier: Apache-2.0
// Profiling: runs steps of a session and times every call.
#include "run/train/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "run/session/session.h"

enum { LEAST_STEPS = 3, MOST_ATTEMPTS = 4 };

// A step is counted when it took at most this many times as long as the fastest.
static const double most_over_fastest = 1.2;
// A measurement is steady when as many such steps were found as were wanted, or most were, and when they take hardly
// longer than the sum of the medians of their operators (and the time to read the clock): when threads wait for
// processors that run other programs, every step is delayed somewhere, but each operator only in a few steps.
static const double most_over_operators = 1.1;
static const double per_call_ns = 1000.0;

static int by_value(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

// The value that `part` of n > 0 sorted ones are below, interpolated.
static int64_t quantile(const int64_t *sorted, int64_t n, double part)
{
    double at = part * (double)(n - 1);
    int64_t low = (int64_t)at;
    int64_t high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (int64_t)((at - (double)low) * (double)(sorted[high] - sorted[low]) + 0.5);
}

// Samples of all calls: `steps` rows of one column a call.
typedef struct samples {
    int64_t n_calls, n_steps;
    int64_t *ns, *step_ns;
    int64_t n_wanted, n_kept;
    int64_t *kept;  // rows that are counted
} samples;

// Real constants are 1 rather than 0, so that nothing is divided by it or raised to it.
static ckm_status set_constants(ckm_session *session, ckm_error *err)
{
    float ones[256];
    for (size_t k = 0; k < sizeof ones / sizeof ones[0]; k++) {
        ones[k] = 1.0F;
    }
    for (int32_t i = 0; i < session->n_tensors; i++) {
        const ckm_session_tensor *tensor = &session->tensors[i];
        bool real = tensor->role == CKM_ROLE_CONSTANT && tensor->dtype == CKM_F32;
        for (int64_t at = 0; real && at < tensor->bytes; at += (int64_t)sizeof ones) {
            int64_t left = tensor->bytes - at;
            int64_t n = left < (int64_t)sizeof ones ? left : (int64_t)sizeof ones;
            CKM_I_CHECK(ckm_session_write(session, i, at, n, ones, err));
        }
    }
    return CKM_OK;
}

static ckm_status allocate(samples *out, int64_t n_calls, int64_t most, ckm_error *err)
{
    size_t row = (size_t)n_calls * sizeof *out->ns;
    out->n_calls = n_calls;
    out->ns = ckm_i_malloc((size_t)most, row > 0 ? row : 1);
    out->step_ns = ckm_i_malloc((size_t)most, sizeof *out->step_ns);
    out->kept = ckm_i_malloc((size_t)most, sizeof *out->kept);
    return out->ns != NULL && out->step_ns != NULL && out->kept != NULL ? CKM_OK : ckm_i_error_memory(err);
}

// Chooses the steps that are counted: those that took hardly longer than the fastest. Other programs only ever add time,
// and to all operators of a step that they share the machine with.
static void keep_undisturbed(samples *taken)
{
    int64_t least = INT64_MAX;
    for (int64_t i = 0; i < taken->n_steps; i++) {
        least = taken->step_ns[i] < least ? taken->step_ns[i] : least;
    }
    taken->n_kept = 0;
    for (int64_t i = 0; i < taken->n_steps; i++) {
        if ((double)taken->step_ns[i] <= most_over_fastest * (double)least) {
            taken->kept[taken->n_kept++] = i;
        }
    }
}

// One step; `stopped` if it was ended and earlier steps can be used.
static ckm_status time_step(ckm_session *session, const ckm_profile_options *options, int64_t fill_step, bool have_some,
                            ckm_step_result *result, bool *stopped, ckm_error *err)
{
    // The same step again and again: kernels that draw random numbers do the same work in each.
    CKM_I_CHECK(options->fill != NULL ? options->fill(session, fill_step, options->user, err) : CKM_OK);
    ckm_status status = ckm_session_step(session, 0, 0.0, result, err);
    *stopped = status == CKM_ERR_STOPPED && have_some;
    return *stopped ? CKM_OK : status;
}

static ckm_status take_samples(ckm_session *session, const ckm_profile_options *options, samples *out, ckm_error *err)
{
    int64_t wanted = options->steps > LEAST_STEPS ? options->steps : LEAST_STEPS;
    int64_t most = MOST_ATTEMPTS * wanted;
    out->n_wanted = wanted;
    double start = ckm_i_clock_seconds();
    double waited_before = 0.0;
    CKM_I_CHECK(ckm_i_session_time_calls(session, err));
    CKM_I_CHECK(allocate(out, session->n_calls, most, err));
    CKM_I_CHECK(set_constants(session, err));
    CKM_I_CHECK(ckm_session_fill(session, 1, 0, err));
    for (int64_t step = -(int64_t)options->warmup_steps; out->n_kept < wanted && out->n_steps < most; step++) {
        ckm_step_result result;
        bool late = options->time_limit_seconds > 0.0 && out->n_steps >= LEAST_STEPS &&
                    ckm_i_clock_seconds() - start > options->time_limit_seconds;
        if (late) {
            break;
        }
        bool stopped = false;
        CKM_I_CHECK(
            time_step(session, options, step + options->warmup_steps, out->n_steps > 0, &result, &stopped, err));
        if (stopped) {
            break;
        }
        // Time spent waiting for a transfer belongs to no operator.
        double waited = ckm_session_get_transfers(session).waited_seconds - waited_before;
        waited_before += waited;
        if (step >= 0) {
            memcpy(out->ns + out->n_steps * out->n_calls, session->call_nanoseconds,
                   (size_t)out->n_calls * sizeof *out->ns);
            out->step_ns[out->n_steps++] = (int64_t)((result.seconds - waited) * 1e9);
            keep_undisturbed(out);
        }
    }
    return CKM_OK;
}

// Times of whole steps, and whether the measurement was undisturbed.
static void summarize_steps(samples *taken, ckm_profile_info *info)
{
    for (int64_t k = 0; k < taken->n_kept; k++) {
        taken->step_ns[k] = taken->step_ns[taken->kept[k]];  // rows are in ascending order
    }
    qsort(taken->step_ns, (size_t)taken->n_kept, sizeof *taken->step_ns, by_value);
    info->step_ns = quantile(taken->step_ns, taken->n_kept, 0.5);
    info->steps = taken->n_kept;
    info->steps_left_out = taken->n_steps - taken->n_kept;
    bool enough = taken->n_kept >= taken->n_wanted || info->steps_left_out <= taken->n_kept;
    info->steady = enough && taken->n_kept >= LEAST_STEPS &&
                   (double)info->step_ns <=
                       most_over_operators * (double)info->predicted_ns + per_call_ns * (double)taken->n_calls;
}

// Quantiles by operator, over its calls in all steps.
static ckm_status summarize(const ckm_session *session, samples *taken, ckm_profile *p, ckm_error *err)
{
    int64_t *calls_of = ckm_i_calloc((size_t)p->n_ops + 1, sizeof *calls_of);
    int64_t *sorted = ckm_i_malloc((size_t)(taken->n_calls * taken->n_kept), sizeof *sorted);
    if (calls_of == NULL || sorted == NULL) {
        free(calls_of);
        free(sorted);
        return ckm_i_error_memory(err);
    }
    for (int64_t c = 0; c < taken->n_calls; c++) {
        calls_of[session->calls[c].call.op + 1] += taken->n_kept;
    }
    for (int32_t v = 0; v < p->n_ops; v++) {
        p->ops[v].runs = calls_of[v + 1];
        calls_of[v + 1] += calls_of[v];
    }
    // Filling moves each operator's beginning to its end.
    for (int64_t c = 0; c < taken->n_calls; c++) {
        for (int64_t k = 0; k < taken->n_kept; k++) {
            sorted[calls_of[session->calls[c].call.op]++] = taken->ns[taken->kept[k] * taken->n_calls + c];
        }
    }
    for (int32_t v = 0; v < p->n_ops; v++) {
        ckm_profile_op *op = &p->ops[v];
        if (op->runs > 0) {
            int64_t *mine = sorted + calls_of[v] - op->runs;
            qsort(mine, (size_t)op->runs, sizeof *mine, by_value);
            op->median_ns = quantile(mine, op->runs, 0.5);
            op->p10_ns = quantile(mine, op->runs, 0.1);
            op->p90_ns = quantile(mine, op->runs, 0.9);
        }
    }
    for (int64_t c = 0; c < taken->n_calls; c++) {
        p->info.predicted_ns += p->ops[session->calls[c].call.op].median_ns;
    }
    summarize_steps(taken, &p->info);
    free(calls_of);
    free(sorted);
    return CKM_OK;
}

static ckm_status create(const ckm_program *program, ckm_profile **out, ckm_error *err)
{
    const ckm_training *t = program->training;
    ckm_profile *p = ckm_i_calloc(1, sizeof *p);
    if (p == NULL) {
        return ckm_i_error_memory(err);
    }
    p->ops = ckm_i_calloc((size_t)t->n_ops, sizeof *p->ops);
    p->names = ckm_i_calloc((size_t)t->n_ops, sizeof *p->names);
    bool complete = p->ops != NULL && p->names != NULL;
    for (; complete && p->n_ops < t->n_ops; p->n_ops++) {
        char *name = ckm_i_strdup(t->ops[p->n_ops].name);
        p->names[p->n_ops] = name;
        p->ops[p->n_ops] = (ckm_profile_op){.name = name, .fixed_ns = NAN, .per_sample_ns = NAN};
        complete = name != NULL;
    }
    if (!complete) {
        ckm_profile_free(p);
        return ckm_i_error_memory(err);
    }
    ckm_i_profile_platform(p->info.platform, sizeof p->info.platform);
    ckm_i_text_copy(p->info.backend, sizeof p->info.backend, ckm_program_backend(program));
    ckm_i_text_copy(p->info.graph, sizeof p->info.graph, t->name);
    p->info.threads = ckm_program_threads(program);
    p->info.batch = t->graph->batch;
    *out = p;
    return CKM_OK;
}

ckm_status ckm_profile_measure(ckm_program *program, const ckm_dataflow *df, const ckm_schedule *s,
                               const ckm_plan *plan, const ckm_profile_options *options, ckm_profile **out,
                               ckm_error *err)
{
    CKM_I_NEED(program, err);
    CKM_I_NEED(df, err);
    CKM_I_NEED(s, err);
    CKM_I_NEED(plan, err);
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_status status;
    ckm_session *session = NULL;
    ckm_profile *p = NULL;
    samples taken = {0};
    ckm_profile_options o = CKM_PROFILE_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_profile_options, &o, user, options, err));
    o.warmup_steps = (int32_t)ckm_i_usual(o.warmup_steps, 2);
    o.steps = (int32_t)ckm_i_usual_count(o.steps, 15);
    o.time_limit_seconds = ckm_i_usual(o.time_limit_seconds, 60);
    ckm_session_options session_options = CKM_SESSION_OPTIONS_INIT;
    // `stop` is polled between operators, so also while the first step touches the memory.
    session_options.prefault = o.stop == NULL || o.warmup_steps < 1;
    CKM_I_TRY(create(program, &p, err));
    ckm_i_session_making making = {.stop = o.stop, .user = o.user};
    CKM_I_TRY(ckm_i_session_create(program, df, s, plan, &session_options, &making, &session, err));
    session->stop = o.stop;
    session->stop_user = o.user;
    CKM_I_TRY(take_samples(session, &o, &taken, err));
    CKM_I_TRY(summarize(session, &taken, p, err));
    *out = p;
    p = NULL;
cleanup:
    ckm_profile_free(p);
    ckm_session_free(session);
    free(taken.ns);
    free(taken.kept);
    free(taken.step_ns);
    return status;
}

void ckm_profile_free(ckm_profile *profile)
{
    if (profile != NULL) {
        for (int32_t v = 0; profile->names != NULL && v < profile->n_ops; v++) {
            free(profile->names[v]);
        }
        free(profile->names);
        free(profile->ops);
        free(profile);
    }
}

const ckm_profile_info *ckm_profile_get_info(const ckm_profile *profile)
{
    return profile != NULL ? &profile->info : NULL;
}

void ckm_profile_explain_unsteady(const ckm_profile_info *info, char *text, size_t room)
{
    if (text == NULL || room == 0) {
        return;
    }
    text[0] = '\0';
    if (info == NULL || info->steady) {
        return;
    }
    double longer = (double)info->step_ns / (double)(info->predicted_ns > 0 ? info->predicted_ns : 1) - 1;
    snprintf(text, room,
             "the machine was busy with other things while the operators were measured (%lld of %lld steps were held "
             "up; a step takes %.0f %% longer than its operators)",
             (long long)info->steps_left_out, (long long)info->steps + (long long)info->steps_left_out, 100.0 * longer);
}

int32_t ckm_profile_op_count(const ckm_profile *profile)
{
    return profile != NULL ? profile->n_ops : 0;
}

ckm_profile_op ckm_profile_get_op(const ckm_profile *profile, int32_t i)
{
    return profile != NULL && i >= 0 && i < profile->n_ops ? profile->ops[i] : (ckm_profile_op){0};
}
