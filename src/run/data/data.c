// SPDX-License-Identifier: Apache-2.0
// Data: finding the format, the order of the samples, batches, and the thread that reads one batch ahead.
#include "run/data/data.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/options.h"
#include "base/rng.h"
#include "graph/graph.h"

static const ckm_i_data_format *const formats[] = {
    &ckm_i_data_format_synthetic, &ckm_i_data_format_idx,  &ckm_i_data_format_cifar,  &ckm_i_data_format_npy,
    &ckm_i_data_format_images,    &ckm_i_data_format_text, &ckm_i_data_format_tokens,
};
enum { N_FORMATS = sizeof formats / sizeof formats[0] };

// What the reading thread needs of a stack: libjpeg's and libpng's frames, with room to spare.
enum { STACK_BYTES = 512 * 1024 };

// Apart from the numbers that order the samples.
static const uint64_t AUGMENTATION = UINT64_C(0x6175676d656e7400);

struct ckm_data {
    ckm_data_options options;
    ckm_data_field inputs[CKM_DATA_MAX_INPUTS];
    char *names[CKM_DATA_MAX_INPUTS + 1];
    ckm_i_data_source source;
    int64_t batches, bytes;
    ckm_i_data_share share;
    int64_t first, samples;  // of all the source's, by the order that `share` chooses them in
    // The batch read ahead. Guarded by `lock`, except that the thread alone touches buffers and error while
    // wanted != staged.
    void *staged_inputs[CKM_DATA_MAX_INPUTS];
    void *staged_labels;
    ckm_status staged_status;
    ckm_error staged_error;
    int64_t wanted, staged;  // steps; -1: none
    int64_t stride;          // from one step that is asked for to the next
    bool started;
    ckm_i_left_out left_out;
    uint8_t *damaged;  // by sample, where some may be left out
    atomic_bool quit;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, ready;
};

int32_t ckm_data_format_count(void)
{
    return N_FORMATS;
}

const char *ckm_data_format_name(int32_t i)
{
    return i >= 0 && i < N_FORMATS ? formats[i]->name : NULL;
}

const char *ckm_data_format_summary(int32_t i)
{
    return i >= 0 && i < N_FORMATS ? formats[i]->summary : NULL;
}

// Order.

static uint64_t mix(uint64_t x)
{
    ckm_i_rng rng = {x};
    return ckm_i_rng_next(&rng);
}

// A Feistel network on the least even number of bits that holds n, walked until it comes out below n.
int64_t ckm_i_data_shuffle(int64_t i, int64_t n, uint64_t seed, int64_t epoch)
{
    enum { ROUNDS = 7 };
    int half = 1;
    while (half < 31 && (INT64_C(1) << (2 * half)) < n) {
        half++;
    }
    uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t key = mix(mix(seed) ^ (uint64_t)epoch);
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half;
        uint64_t right = x & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t next = left ^ (mix(key + round * UINT64_C(0xd1342543de82ef95) + right) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

// Batches.

// Of the source's samples, the one at this place of an epoch.
static int64_t sample_at(const ckm_data *d, int64_t at, int64_t epoch)
{
    enum { NO_EPOCH = -1 };
    const ckm_data_options *o = &d->options;
    if (!o->keep_order && !d->share.validates) {
        at = ckm_i_data_shuffle(at, d->samples, o->seed, epoch);
    }
    at += d->first;
    bool chosen = d->share.fraction > 0 && !o->keep_order && !d->source.format->continuous;
    return chosen ? ckm_i_data_shuffle(at, d->source.samples, o->seed, NO_EPOCH) : at;
}

// Random number for the augmentation of a training sample, independent of what was read before; 0: none.
static uint64_t draw_of(const ckm_data *d, int64_t sample, int64_t epoch)
{
    const ckm_data_options *o = &d->options;
    if (d->share.validates || !(o->flip || o->crop > 0)) {
        return 0;
    }
    uint64_t draw = mix(mix(mix(o->seed ^ AUGMENTATION) ^ (uint64_t)epoch) ^ (uint64_t)sample);
    return draw != 0 ? draw : 1;
}

// The first epoch begins where the text does.
static uint64_t shift_of(const ckm_data *d, int64_t epoch)
{
    const ckm_data_options *o = &d->options;
    bool moves = d->source.format->continuous && epoch > 0 && !o->keep_order && !d->share.validates;
    return moves ? mix(mix(o->seed ^ AUGMENTATION) ^ (uint64_t)epoch) : 0;
}

// A place of the last batch that no sample is left for: labels of -1 count for nothing.
static void leave_empty(const ckm_data *d, void *const *inputs, void *labels)
{
    const ckm_data_options *o = &d->options;
    for (int32_t f = 0; f < o->n_inputs; f++) {
        if (inputs[f] != NULL) {
            memset(inputs[f], 0, (size_t)ckm_i_data_field_bytes(&o->inputs[f]));
        }
    }
    memset(labels, 0xff, (size_t)ckm_i_data_field_bytes(&o->labels));
}

static bool may_be_left_out(const ckm_data *d, ckm_status status)
{
    return d->damaged != NULL && (status == CKM_ERR_FORMAT || status == CKM_ERR_IO);
}

// The sample at place `at` of an epoch. Where it cannot be read, the next that can be takes its place; for validation, nothing.
static ckm_status read_sample(ckm_data *d, int64_t at, int64_t epoch, void *const *inputs, void *labels, ckm_error *err)
{
    ckm_error why = CKM_ERROR_INIT;
    for (int64_t k = 0; k < d->samples; k++) {
        int64_t sample = sample_at(d, (at + k) % d->samples, epoch);
        ckm_status status = CKM_ERR_FORMAT;
        if (d->damaged == NULL || d->damaged[sample] == 0) {
            d->source.draw = draw_of(d, sample, epoch);
            d->source.shift = shift_of(d, epoch);
            status = d->source.format->read(&d->source, sample, inputs, labels, &why);
        }
        if (status == CKM_OK || !may_be_left_out(d, status)) {
            if (status != CKM_OK && err != NULL) {
                *err = why;
            }
            return status;
        }
        if (d->damaged[sample] == 0) {
            d->damaged[sample] = 1;
            ckm_i_data_leave_out(&d->source, &why);
        }
        if (d->share.validates) {
            leave_empty(d, inputs, labels);
            return CKM_OK;
        }
    }
    return ckm_i_error(err, CKM_ERR_FORMAT, "none of the %lld samples can be read", (long long)d->samples);
}

// Reads one batch into the staging buffers. The thread's part.
static ckm_status fill(ckm_data *d, int64_t step, ckm_error *err)
{
    const ckm_data_options *o = &d->options;
    int64_t epoch = step / d->batches;
    int64_t first = step % d->batches * o->batch;
    for (int64_t i = 0; i < o->batch; i++) {
        void *inputs[CKM_DATA_MAX_INPUTS] = {NULL};
        void *labels = (char *)d->staged_labels + i * ckm_i_data_field_bytes(&o->labels);
        if (atomic_load(&d->quit)) {
            return CKM_OK;
        }
        for (int32_t f = 0; f < o->n_inputs; f++) {
            inputs[f] = (char *)d->staged_inputs[f] + i * ckm_i_data_field_bytes(&o->inputs[f]);
        }
        if (first + i < d->samples) {
            CKM_I_CHECK(read_sample(d, first + i, epoch, inputs, labels, err));
        } else {
            leave_empty(d, inputs, labels);
        }
    }
    return CKM_OK;
}

static void *read_ahead(void *user)
{
    ckm_data *d = user;
    pthread_mutex_lock(&d->lock);
    while (!atomic_load(&d->quit)) {
        if (d->wanted == d->staged) {
            pthread_cond_wait(&d->work, &d->lock);
            continue;
        }
        int64_t step = d->wanted;
        pthread_mutex_unlock(&d->lock);
        ckm_error error = CKM_ERROR_INIT;
        ckm_status status = fill(d, step, &error);
        pthread_mutex_lock(&d->lock);
        d->staged = step;
        d->staged_status = status;
        d->staged_error = error;
        pthread_cond_signal(&d->ready);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

int64_t ckm_data_left_out(const ckm_data *d)
{
    if (d == NULL) {
        return 0;
    }
    return d->left_out.reported;
}

static ckm_status hand_out(const ckm_data *d, ckm_i_data_take_fn take, void *user, ckm_error *err)
{
    const ckm_data_options *o = &d->options;
    for (int32_t f = 0; f < o->n_inputs; f++) {
        CKM_I_CHECK(take(user, f, d->staged_inputs[f], o->batch * ckm_i_data_field_bytes(&o->inputs[f]), err));
    }
    return take(user, -1, d->staged_labels, o->batch * ckm_i_data_field_bytes(&o->labels), err);
}

void ckm_i_data_set_stride(ckm_data *d, int64_t stride)
{
    pthread_mutex_lock(&d->lock);
    d->stride = stride;
    pthread_mutex_unlock(&d->lock);
}

ckm_status ckm_i_data_fetch_to(ckm_data *d, int64_t step, ckm_i_data_take_fn take, void *user, ckm_error *err)
{
    if (step < 0) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a step cannot be negative");
    }
    pthread_mutex_lock(&d->lock);
    // One at a time: a batch under way that is not the one asked for has to end first.
    while (d->wanted != d->staged) {
        pthread_cond_wait(&d->ready, &d->lock);
    }
    if (d->staged != step && !d->started) {
        d->staged_error = (ckm_error)CKM_ERROR_INIT;
        d->staged_status = fill(d, step, &d->staged_error);
        d->staged = d->wanted = step;
    } else if (d->staged != step) {
        d->wanted = step;
        pthread_cond_signal(&d->work);
        while (d->staged != step) {
            pthread_cond_wait(&d->ready, &d->lock);
        }
    }
    ckm_status status = d->staged_status;
    ckm_i_data_tell_left_out(&d->source);
    if (status == CKM_OK) {
        status = hand_out(d, take, user, err);
        d->wanted = d->started ? step + d->stride : step;
        pthread_cond_signal(&d->work);
    } else {
        if (err != NULL) {
            *err = d->staged_error;
        }
        d->staged = d->wanted = -1;  // a second attempt reads again
    }
    pthread_mutex_unlock(&d->lock);
    return status;
}

typedef struct host_batch {
    void *const *inputs;
    void *labels;
} host_batch;

static ckm_status take_on_host(void *user, int32_t field, const void *values, int64_t bytes, ckm_error *err)
{
    const host_batch *to = user;
    (void)err;
    memcpy(field >= 0 ? to->inputs[field] : to->labels, values, (size_t)bytes);
    return CKM_OK;
}

ckm_status ckm_data_fetch(ckm_data *d, int64_t step, void *const *inputs, void *labels, ckm_error *err)
{
    CKM_I_NEED_NAMED(d, "data", err);
    CKM_I_NEED(inputs, err);
    CKM_I_NEED(labels, err);
    host_batch to = {inputs, labels};
    return ckm_i_data_fetch_to(d, step, take_on_host, &to, err);
}

// Opening.

static ckm_status copy_field(ckm_data *d, int32_t i, ckm_data_field *field, int64_t *bytes, ckm_error *err)
{
    int64_t elements = 0;
    d->names[i] = ckm_i_strdup(field->name != NULL ? field->name : "");
    if (d->names[i] == NULL) {
        return ckm_i_error_memory(err);
    }
    field->name = d->names[i];
    if (field->dtype != CKM_F32 && field->dtype != CKM_I32 && field->dtype != CKM_I64) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED,
                           "input \"%.100s\" holds neither 32-bit reals nor 32- or 64-bit integers", field->name);
    }
    CKM_I_CHECK(ckm_i_shape_elements(&field->shape, &elements, err));
    if (!ckm_i_mul(elements, ckm_i_dtype_bytes(field->dtype), bytes) || !ckm_i_mul(*bytes, d->options.batch, bytes) ||
        *bytes > INT64_MAX / 16) {
        return ckm_i_error(err, CKM_ERR_OVERFLOW, "a batch of \"%.100s\" is too large", field->name);
    }
    return CKM_OK;
}

static ckm_status stage(ckm_data *d, int64_t bytes, void **buffer, ckm_error *err)
{
    *buffer = ckm_i_calloc((size_t)bytes, 1);
    d->bytes += bytes;
    return *buffer != NULL ? CKM_OK : ckm_i_error_memory(err);
}

// Copies the options and makes the staging buffers.
static ckm_status prepare(ckm_data *d, const ckm_data_options *options, ckm_error *err)
{
    int64_t bytes = 0;
    d->options = *options;
    if (options->n_inputs < 1 || options->n_inputs > CKM_DATA_MAX_INPUTS || options->batch < 1) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a batch needs at least one sample and 1 to %d inputs",
                           CKM_DATA_MAX_INPUTS);
    }
    memcpy(d->inputs, options->inputs, (size_t)options->n_inputs * sizeof d->inputs[0]);
    d->options.inputs = d->inputs;
    for (int32_t i = 0; i < options->n_inputs; i++) {
        CKM_I_CHECK(copy_field(d, i, &d->inputs[i], &bytes, err));
        CKM_I_CHECK(stage(d, bytes, &d->staged_inputs[i], err));
    }
    CKM_I_CHECK(copy_field(d, CKM_DATA_MAX_INPUTS, &d->options.labels, &bytes, err));
    return stage(d, bytes, &d->staged_labels, err);
}

static ckm_status choose_format(const char *path, const ckm_i_data_format **out, ckm_error *err)
{
    struct stat facts;
    bool made_up = strcmp(path, ckm_i_data_format_synthetic.name) == 0;
    if (!made_up && stat(path, &facts) != 0) {
        return ckm_i_error_at(err, CKM_ERR_IO, path, 0, -1, "cannot open: %s", strerror(errno));
    }
    if (!made_up && !S_ISDIR(facts.st_mode) && !S_ISREG(facts.st_mode)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "is not a folder; give the folder that holds the data, or a file that is a text");
    }
    for (size_t i = 0; i < N_FORMATS; i++) {
        if (made_up ? formats[i] == &ckm_i_data_format_synthetic : formats[i]->detect(path)) {
            *out = formats[i];
            return CKM_OK;
        }
    }
    char problem[600];
    ckm_i_data_images_problem(path, problem, sizeof problem);
    if (problem[0] != '\0') {
        return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1, "%s", problem);
    }
    return ckm_i_error_at(err, CKM_ERR_UNSUPPORTED, path, 0, -1,
                          "holds no data of a known format: IDX (train-images-idx3-ubyte and train-labels-idx1-ubyte), "
                          "CIFAR (data_batch_1.bin or train.bin), NumPy (x.npy and y.npy), one folder of PNG or "
                          "JPEG images for every class, or .txt files");
}

ckm_status ckm_data_count_classes(const char *path, int64_t *out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    const ckm_i_data_format *format = NULL;
    int64_t classes = 0;
    CKM_I_CHECK(choose_format(path, &format, err));
    if (format->count_classes != NULL) {
        CKM_I_CHECK(format->count_classes(path, &classes, err));
    }
    *out = classes;
    return CKM_OK;
}

ckm_status ckm_data_count_tokens(const char *path, int64_t *out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    const ckm_i_data_format *format = NULL;
    int64_t tokens = 0;
    CKM_I_CHECK(choose_format(path, &format, err));
    if (format == &ckm_i_data_format_text || format == &ckm_i_data_format_tokens) {
        CKM_I_CHECK(format->count_classes(path, &tokens, err));
    }
    *out = tokens;
    return CKM_OK;
}

// Without the thread, batches are read when they are asked for.
static ckm_status start_thread(ckm_data *d, ckm_error *err)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    if (pthread_attr_init(&attributes) != 0) {
        return ckm_i_error_memory(err);
    }
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    // Signals are the main thread's: one that ends training must not land here.
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&d->thread, &attributes, read_ahead, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed == 0) {
        d->started = true;
        d->bytes += STACK_BYTES;
    }
    return CKM_OK;
}

static ckm_status open_folder(ckm_data *d, const char *path, ckm_error *err)
{
    CKM_I_CHECK(choose_format(path, &d->source.format, err));
    return d->source.format->open(path, &d->source, err);
}

// Which of the source's samples are this one's.
static void share_out(ckm_data *d)
{
    int64_t all = d->source.samples;
    double held = (double)all * d->share.fraction;
    int64_t n = d->share.fraction > 0 ? (int64_t)(held + 0.5) : 0;
    n = d->share.fraction > 0 && n < 1 ? 1 : n;
    n = n > all ? all : n;
    d->first = d->share.validates && d->share.fraction > 0 ? all - n : 0;
    d->samples = !d->share.validates ? all - n : d->share.fraction > 0 ? n : all;
}

// Does what was opened suit the network? `path` for errors.
static ckm_status check_source(ckm_data *d, const char *path, ckm_error *err)
{
    const ckm_data_options *o = &d->options;
    if (!(o->crop >= 0 && o->crop <= 1)) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT,
                           "`crop` is %g: it is the least share of the area, above 0 and at most 1", o->crop);
    }
    if ((o->crop > 0 || o->flip) && !d->share.validates && !d->source.pictures) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "the samples are no pictures of 8 bits with one class each, so they cannot be augmented");
    }
    bool whole = d->share.validates && d->options.labels.dtype == CKM_I32;
    share_out(d);
    if (d->samples < (whole ? 1 : d->options.batch)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1,
                              "holds %lld samples%s, which is less than one batch of %lld", (long long)d->samples,
                              d->share.validates      ? " for validation"
                              : d->share.fraction > 0 ? " besides those for validation"
                                                      : "",
                              (long long)d->options.batch);
    }
    int64_t limit = d->options.labels.limit;
    if (limit > 0 && d->options.labels.dtype == CKM_I32 && d->source.classes > limit) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, path, 0, -1, "holds %lld classes, but the network has only %lld",
                              (long long)d->source.classes, (long long)limit);
    }
    d->source.learnt = d->samples;
    if (o->skip_damaged && d->source.format->files) {
        d->damaged = ckm_i_calloc((size_t)d->source.samples, sizeof *d->damaged);
        if (d->damaged == NULL) {
            return ckm_i_error_memory(err);
        }
        d->bytes += d->source.samples;
    }
    d->batches = d->samples / d->options.batch + (whole && d->samples % d->options.batch > 0);
    d->bytes += d->source.bytes;
    return CKM_OK;
}

// From a folder or, where that is NULL, from the caller.
ckm_status ckm_i_data_open_share(const char *path, const ckm_data_source *caller, const ckm_data_options *options,
                                 const ckm_i_data_share *share, ckm_data **out, ckm_error *err)
{
    CKM_I_NEED(options, err);
    CKM_I_NEED(out, err);
    ckm_data_options o = CKM_DATA_OPTIONS_INIT;
    CKM_I_CHECK(CKM_I_OPTIONS_READ(ckm_data_options, &o, synthetic_samples, options, err));
    o.batch = ckm_i_usual_count(o.batch, 1);
    if (o.labels.name == NULL) {
        o.labels.name = "labels";
        o.labels.dtype = CKM_I32;
    }
    CKM_I_NEED_NAMED(o.inputs, "options->inputs", err);
    ckm_data *d = ckm_i_calloc(1, sizeof *d);
    if (d == NULL) {
        return ckm_i_error_memory(err);
    }
    d->wanted = d->staged = -1;
    d->stride = 1;
    atomic_init(&d->quit, false);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->work, NULL);
    pthread_cond_init(&d->ready, NULL);
    ckm_status status = CKM_OK;
    CKM_I_TRY(prepare(d, &o, err));
    d->source.options = &d->options;
    d->source.left_out = &d->left_out;
    d->share = *share;
    d->source.validates = share->validates && !(share->fraction > 0);
    d->source.trained_on = share->trained_on != NULL ? &share->trained_on->source : NULL;
    // The samples held back are from the same data as those for training, for which the warnings have been given.
    d->options.note = share->validates && share->fraction > 0 ? NULL : o.note;
    CKM_I_TRY(path != NULL ? open_folder(d, path, err) : ckm_i_data_open_caller(caller, &d->source, err));
    CKM_I_TRY(check_source(d, path != NULL ? path : "the caller's data", err));
    ckm_i_data_tell_left_out(&d->source);
    d->options.note = o.note;
    CKM_I_TRY(start_thread(d, err));
    *out = d;
    d = NULL;
cleanup:
    ckm_data_close(d);
    return status;
}

ckm_status ckm_data_open(const char *path, const ckm_data_options *options, ckm_data **out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    return ckm_i_data_open_share(path, NULL, options, &(ckm_i_data_share){0}, out, err);
}

ckm_status ckm_data_open_source(const ckm_data_source *source, const ckm_data_options *options, ckm_data **out,
                                ckm_error *err)
{
    CKM_I_NEED(source, err);
    return ckm_i_data_open_share(NULL, source, options, &(ckm_i_data_share){0}, out, err);
}

void ckm_data_close(ckm_data *d)
{
    if (d == NULL) {
        return;
    }
    if (d->started) {
        atomic_store(&d->quit, true);
        pthread_mutex_lock(&d->lock);
        pthread_cond_signal(&d->work);
        pthread_mutex_unlock(&d->lock);
        pthread_join(d->thread, NULL);
    }
    if (d->source.format != NULL) {
        d->source.format->close(&d->source);
    }
    pthread_cond_destroy(&d->ready);
    pthread_cond_destroy(&d->work);
    pthread_mutex_destroy(&d->lock);
    for (int32_t i = 0; i <= CKM_DATA_MAX_INPUTS; i++) {
        free(d->names[i]);
    }
    for (int32_t i = 0; i < CKM_DATA_MAX_INPUTS; i++) {
        free(d->staged_inputs[i]);
    }
    free(d->staged_labels);
    free(d->damaged);
    free(d);
}

ckm_data_facts ckm_data_get_facts(const ckm_data *d)
{
    if (d == NULL) {
        return (ckm_data_facts){.format = ""};
    }
    return (ckm_data_facts){d->source.format->name, d->samples, d->batches, d->source.classes, d->bytes, d->started};
}

const char *ckm_data_class_name(const ckm_data *d, int64_t i)
{
    bool named = d != NULL && d->source.format->class_name != NULL && i >= 0 && i < d->source.classes;
    return named ? d->source.format->class_name(&d->source, i) : NULL;
}
