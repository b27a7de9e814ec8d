// SPDX-License-Identifier: Apache-2.0
// The training loop: fetch, step, report, save.
#include "run/train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/compare.h"
#include "base/error.h"
#include "base/options.h"
#include "run/data/data.h"
#include "run/ranks/ranks.h"
#include "run/session/session.h"

// Step times that the median is taken of, and over how many of them the speed is.
enum { KEPT_TIMES = 1024, SPEED_WINDOW = 16 };

typedef struct loop {
    ckm_session *session;
    ckm_data *data;
    const ckm_train_options *options;  // the library's copies, of which the rate is another
    ckm_rate_schedule rate;
    const ckm_i_train_parts *parts;
    const ckm_ranks *ranks;      // of `parts`
    bool stop;                   // some rank is to stop after the step under way
    struct share *shares;        // one a rank
    int64_t step_batches;        // of a step, in all processes
    int64_t epoch_steps, batch;  // batch: samples of a step, in all processes
    int64_t judged;              // predictions a step: samples, or positions of all of them
    ckm_train_result result;
    double began;
    double epoch_loss;  // sum
    int64_t epoch_n;    // steps of this epoch that were run
    double step_times[KEPT_TIMES];
    double ends[SPEED_WINDOW];  // when the last steps ended
} loop;

// What a rank contributes to the report of a step.
typedef struct share {
    double loss;
    int64_t correct;
    int64_t stop;
} share;

static void notify(const loop *l, ckm_train_event event, const char *path, int64_t step, const ckm_error *why)
{
    if (l->options->event != NULL) {
        l->options->event(event, path, step, why, l->options->user);
    }
}

// How to continue after a loss that is not a number.
static ckm_status not_finite(const loop *l, int64_t step, const char *what, const char *name, ckm_error *err)
{
    char good[600] = "nothing was saved before (saving every few steps prevents that)";
    if (l->options->save_path == NULL) {
        snprintf(good, sizeof good, "nothing is saved");
    } else if (l->result.saved_step >= 0) {
        snprintf(good, sizeof good, "\"%.400s\" holds the state after %lld steps", l->options->save_path,
                 (long long)l->result.saved_step);
    }
    return ckm_i_error(err, CKM_ERR_ARGUMENT,
                       "step %lld: %s%.200s is not a finite number; training stops, %s. A lower learning rate or a "
                       "warm-up may help",
                       (long long)step, what, name, good);
}

// Saves the state before step `step`. A failure of the disk is an error only for the last save.
static ckm_status save(loop *l, int64_t step, bool last, ckm_error *err)
{
    ckm_train_place place = l->options->place;
    ckm_error why = CKM_ERROR_INIT;
    if (l->options->save_path == NULL || l->result.saved_step == step || step < l->options->first_step) {
        return CKM_OK;
    }
    int32_t broken = -1;
    if (l->options->on_nan == CKM_NAN_STOP) {
        CKM_I_CHECK(ckm_i_train_find_not_finite(l->session, &broken, err));
    }
    if (broken >= 0) {
        return not_finite(l, step, "parameter ", ckm_session_get_tensor(l->session, broken).name, err);
    }
    place.step = step;
    ckm_status status = ckm_i_train_save(l->session, l->options->save_path, &place, l->parts->settings, &why);
    if (status == CKM_OK) {
        l->result.saved_step = step;
        notify(l, CKM_TRAIN_SAVED, l->options->save_path, step, NULL);
        return CKM_OK;
    }
    notify(l, CKM_TRAIN_SAVE_FAILED, l->options->save_path, step, &why);
    if (last && err != NULL) {
        *err = why;
    }
    return last ? status : CKM_OK;
}

static void finish(loop *l)
{
    int64_t n = l->result.steps < KEPT_TIMES ? l->result.steps : KEPT_TIMES;
    if (n > 0) {
        qsort(l->step_times, (size_t)n, sizeof l->step_times[0], ckm_i_compare_double);
        l->result.median_step_seconds = l->step_times[n / 2];
    }
    l->result.seconds = ckm_i_clock_seconds() - l->began;
}

// Counts one step in and reports it.
static void account(loop *l, int64_t step, const ckm_step_result *done, double waited, double rate)
{
    ckm_train_result *r = &l->result;
    int64_t epoch_step = step % l->epoch_steps;
    double now = ckm_i_clock_seconds();
    if (epoch_step == 0 || r->steps == 0) {
        l->epoch_loss = 0.0;
        l->epoch_n = 0;
        r->correct = 0;
        r->samples = 0;
    }
    l->epoch_loss += done->loss;
    l->epoch_n++;
    r->correct += done->correct >= 0 ? done->correct : 0;
    r->samples += l->judged;
    r->first_loss = r->steps == 0 ? done->loss : r->first_loss;
    r->last_loss = done->loss;
    r->mean_loss = l->epoch_loss / (double)l->epoch_n;
    r->accuracy = done->correct >= 0 ? (double)r->correct / (double)r->samples : (double)NAN;
    r->step_seconds += done->seconds;
    l->step_times[r->steps % KEPT_TIMES] = done->seconds;
    // Time from the end of the step that left the window (or from the beginning) until now.
    int64_t counted = r->steps + 1 < SPEED_WINDOW ? r->steps + 1 : SPEED_WINDOW;
    double since = r->steps < SPEED_WINDOW ? l->began : l->ends[r->steps % SPEED_WINDOW];
    double step_seconds = (now - since) / (double)counted;
    l->ends[r->steps % SPEED_WINDOW] = now;
    r->steps++;
    r->next_step = step + 1;
    if (l->options->progress != NULL) {
        ckm_train_progress p = {
            .step = step,
            .last_step = l->options->last_step,
            .epoch = step / l->epoch_steps,
            .epoch_step = epoch_step,
            .epoch_steps = l->epoch_steps,
            .loss = done->loss,
            .learning_rate = rate,
            .mean_loss = r->mean_loss,
            .accuracy = r->accuracy,
            .step_seconds = done->seconds,
            .wait_seconds = waited,
            .samples_per_second = step_seconds > 0 ? (double)l->batch / step_seconds : 0.0,
            .seconds_left = step_seconds * (double)(l->options->last_step - step - 1),
        };
        l->options->progress(&p, l->options->user);
    }
}

// A step has batches of one epoch; those that are too few for a step are left out.
static int64_t batch_of(const loop *l, int64_t step, int64_t part)
{
    int64_t rank = l->ranks != NULL ? l->ranks->rank : 0;
    int64_t epoch = step / l->epoch_steps;
    return epoch * ckm_data_get_facts(l->data).batches + step % l->epoch_steps * l->step_batches + part + rank;
}

static bool wants_to_stop(const loop *l)
{
    return l->options->stop != NULL && l->options->stop(l->options->user);
}

// The losses and hits of all ranks, in their order, and whether one of them is to stop.
static ckm_status bring_together(loop *l, ckm_step_result *done, ckm_error *err)
{
    if (l->ranks == NULL) {
        return CKM_OK;
    }
    const share mine = {done->loss, done->correct, wants_to_stop(l)};
    CKM_I_CHECK(ckm_i_ranks_gather(l->ranks, &mine, sizeof mine, l->shares, err));
    done->loss = 0;
    done->correct = mine.correct >= 0 ? 0 : -1;
    for (int32_t r = 0; r < l->ranks->count; r++) {
        done->loss += l->shares[r].loss;
        done->correct += mine.correct >= 0 ? l->shares[r].correct : 0;
        l->stop = l->stop || l->shares[r].stop != 0;
    }
    return CKM_OK;
}

static ckm_status fetch(loop *l, int64_t step, int64_t part, double *waited, ckm_error *err)
{
    double before = ckm_i_clock_seconds();
    ckm_status status = ckm_train_fetch(l->session, l->data, batch_of(l, step, part), err);
    status = ckm_ranks_agree(l->ranks, status, err);
    *waited += ckm_i_clock_seconds() - before;
    if (status != CKM_OK && part == 0) {
        // If data cannot be read, the state is saved first, unless a part of the step has already changed running statistics.
        ckm_status saved = save(l, step, false, NULL);
        (void)saved;
    }
    return status;
}

static ckm_status one_step(loop *l, int64_t step, ckm_error *err)
{
    ckm_step_result done = {.correct = -1};
    double rate = ckm_i_rate_at(&l->rate, step);
    double waited = 0;
    ckm_i_step_part part = {
        .step = step, .parts = l->parts->batches, .learning_rate = rate, .exchange = l->parts->exchange};
    for (; part.part < part.parts; part.part++) {
        ckm_step_result one = {0};
        CKM_I_CHECK(fetch(l, step, part.part, &waited, err));
        part.batch = batch_of(l, step, part.part);
        // Where it fails, some parameters may have had their update and others not: the file saved last stays.
        ckm_status status = ckm_i_session_step_part(l->session, &part, &one, err);
        if (status != CKM_OK && l->ranks != NULL) {
            l->ranks->abort(l->ranks->user, err);  // the others are within the step
        }
        CKM_I_CHECK(status);
        done.loss += one.loss;
        done.correct = one.correct < 0 ? -1 : (part.part > 0 ? done.correct : 0) + one.correct;
        done.seconds += one.seconds;
    }
    CKM_I_CHECK(bring_together(l, &done, err));
    done.loss /= (double)l->step_batches;
    account(l, step, &done, waited, rate);
    return !isfinite(done.loss) && l->options->on_nan == CKM_NAN_STOP ? not_finite(l, step, "the loss", "", err)
                                                                      : CKM_OK;
}

static int64_t judged_per_step(const ckm_session *session)
{
    int32_t labels = ckm_session_labels(session);
    return labels >= 0 ? ckm_session_get_tensor(session, labels).bytes / (int64_t)sizeof(int32_t) : 1;
}

// Saves the best state so far, with its loss. A failure to write it does not end training.
static void save_best(const loop *l, int64_t step)
{
    ckm_train_place place = l->options->place;
    ckm_error why = CKM_ERROR_INIT;
    if (l->options->best_path == NULL) {
        return;
    }
    place.step = step;
    bool saved = ckm_i_train_save(l->session, l->options->best_path, &place, l->parts->settings, &why) == CKM_OK;
    notify(l, saved ? CKM_TRAIN_SAVED : CKM_TRAIN_SAVE_FAILED, l->options->best_path, step, saved ? NULL : &why);
}

// After `step` steps: at the end of an epoch, or of the run.
static ckm_status validate(const loop *l, int64_t step, ckm_error *err)
{
    ckm_train_validation v = {.step = step, .epoch = (step - 1) / l->epoch_steps};
    bool done = false;
    if (l->parts->validate == NULL || (step % l->epoch_steps != 0 && step != l->options->last_step)) {
        return CKM_OK;
    }
    CKM_I_CHECK(ckm_ranks_agree(
        l->ranks, l->parts->validate(l->parts->user, l->options->stop, l->options->user, &v, &done, err), err));
    if (!done) {
        return CKM_OK;
    }
    v.best = isfinite(v.loss) && l->parts->is_best(l->parts->user, v.loss);
    if (v.best) {
        save_best(l, step);
    }
    if (l->options->validated != NULL) {
        l->options->validated(&v, l->options->user);
    }
    return CKM_OK;
}

static ckm_status run_steps(loop *l, ckm_error *err)
{
    const ckm_train_options *options = l->options;
    for (int64_t step = options->first_step; step < options->last_step; step++) {
        if (l->ranks == NULL ? wants_to_stop(l) : l->stop) {
            l->result.stopped = true;
            break;
        }
        CKM_I_CHECK(one_step(l, step, err));
        CKM_I_CHECK(validate(l, step + 1, err));
        if (options->save_every > 0 && (step + 1) % options->save_every == 0) {
            CKM_I_CHECK(ckm_ranks_agree(l->ranks, save(l, step + 1, false, err), err));
        }
    }
    return ckm_ranks_agree(l->ranks, save(l, l->result.next_step, true, err), err);
}

static ckm_status set_up(loop *l, const ckm_i_train_parts *parts, ckm_error *err)
{
    int64_t batches = ckm_data_get_facts(l->data).batches;
    l->parts = parts;
    l->ranks = parts->ranks;
    l->step_batches = l->ranks != NULL ? l->ranks->count : parts->batches;
    l->epoch_steps = batches / l->step_batches;
    if (l->epoch_steps < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a step takes %lld batches, and an epoch of the data has only %lld",
                           (long long)l->step_batches, (long long)batches);
    }
    l->batch = (l->options->place.batch > 0 ? l->options->place.batch : 1) * l->step_batches;
    l->judged = judged_per_step(l->session) * l->step_batches;
    if (l->ranks != NULL) {
        l->shares = ckm_i_calloc((size_t)l->ranks->count, sizeof *l->shares);
        ckm_i_data_set_stride(l->data, l->ranks->count);
    }
    return l->ranks == NULL || l->shares != NULL ? CKM_OK : ckm_i_error_memory(err);
}

static ckm_status check_names(const loop *l, ckm_error *err)
{
    const char *path = l->options->save_path != NULL ? l->options->save_path : l->options->best_path;
    return path != NULL ? ckm_i_train_check_names(l->session, path, err) : CKM_OK;
}

ckm_status ckm_i_train_run(ckm_session *session, ckm_data *data, const ckm_train_options *given,
                           const ckm_i_train_parts *parts, ckm_train_result *result, ckm_error *err)
{
    ckm_train_options own = CKM_TRAIN_OPTIONS_INIT;
    const ckm_train_options *options = &own;
    ckm_rate_schedule rate;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_train_options, &own, user, given, err));
    CKM_I_CHECK(ckm_i_rate_read(own.rate, &rate, err));
    ckm_status status = CKM_OK;
    loop *l = ckm_i_calloc(1, sizeof *l);
    if (l == NULL) {
        return ckm_i_error_memory(err);
    }
    *l = (loop){.session = session, .data = data, .options = options, .rate = rate};
    CKM_I_TRY(set_up(l, parts, err));
    CKM_I_TRY(ckm_ranks_agree(l->ranks, check_names(l, err), err));
    l->result = (ckm_train_result){.next_step = options->first_step,
                                   .saved_step = -1,
                                   .accuracy = (double)NAN,
                                   .first_loss = (double)NAN,
                                   .last_loss = (double)NAN,
                                   .mean_loss = (double)NAN};
    l->began = ckm_i_clock_seconds();
    CKM_I_TRY(run_steps(l, err));
    finish(l);
    *result = l->result;
cleanup:
    free(l->shares);
    free(l);
    return status;
}

ckm_status ckm_train_run(ckm_session *session, ckm_data *data, const ckm_train_options *given, ckm_train_result *result,
                         ckm_error *err)
{
    CKM_I_NEED(session, err);
    CKM_I_NEED(data, err);
    CKM_I_NEED_NAMED(given, "options", err);
    CKM_I_NEED(result, err);
    const ckm_i_train_parts whole = {.batches = 1};
    return ckm_i_train_run(session, data, given, &whole, result, err);
}
