// SPDX-License-Identifier: Apache-2.0
// CIFAR in its binary version: records of one label (CIFAR-10) or two (CIFAR-100: coarse, then fine, which is the
// one used) and a 32x32 image, its red, green and blue planes one after the other.
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/file.h"
#include "run/data/data.h"
#include "run/data/data_pixels.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, IMAGE_BYTES = 3 * PLANE, MAX_FILES = 5 };

static const char *const cifar10[MAX_FILES] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                               "data_batch_4.bin", "data_batch_5.bin"};

typedef struct cifar_file {
    char *path;
    int fd;  // -1: not open
    int64_t samples;
} cifar_file;

typedef struct cifar_state {
    int n_files, label_bytes;
    cifar_file files[MAX_FILES];
    ckm_i_pixels sink;
} cifar_state;

// The file of samples that are not for training, if this one `validates` and the folder has it; else NULL.
static const char *test_file(const char *folder, const ckm_i_data_source *source, bool ten)
{
    const char *name = ten ? "test_batch.bin" : "test.bin";
    return source->validates && ckm_i_data_has_file(folder, name) ? name : NULL;
}

static bool detect(const char *folder)
{
    return ckm_i_data_has_file(folder, cifar10[0]) || ckm_i_data_has_file(folder, "train.bin");
}

static ckm_status count_classes(const char *folder, int64_t *out, ckm_error *err)
{
    (void)err;
    *out = ckm_i_data_has_file(folder, cifar10[0]) ? 10 : 100;
    return CKM_OK;
}

static void close_state(ckm_i_data_source *source)
{
    cifar_state *s = source->state;
    if (s == NULL) {
        return;
    }
    for (int i = 0; i < s->n_files; i++) {
        if (s->files[i].fd >= 0) {
            close(s->files[i].fd);
        }
        free(s->files[i].path);
    }
    ckm_i_pixels_dispose(&s->sink);
    free(s);
    source->state = NULL;
}

// Reads the labels of a file, so that a broken one is found before training starts.
static ckm_status check_labels(const ckm_i_data_source *source, const cifar_state *s, const cifar_file *f,
                               ckm_error *err)
{
    int64_t record = s->label_bytes + IMAGE_BYTES;
    for (int64_t i = 0; i < f->samples; i++) {
        uint8_t label;
        int32_t unused;
        CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, i * record + s->label_bytes - 1, 1, &label, err));
        if (label >= source->classes) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, i * record + s->label_bytes - 1,
                                  "sample %lld: label %d is out of range: CIFAR-%lld has %lld classes", (long long)i,
                                  (int)label, (long long)source->classes, (long long)source->classes);
        }
        CKM_I_CHECK(ckm_i_data_store_class(source, f->path, i, label, &unused, err));
    }
    return CKM_OK;
}

static ckm_status add_file(ckm_i_data_source *source, cifar_state *s, const char *folder, const char *name,
                           ckm_error *err)
{
    cifar_file *f = &s->files[s->n_files++];
    int64_t size = 0;
    int64_t record = s->label_bytes + IMAGE_BYTES;
    f->fd = -1;
    f->path = ckm_i_data_path(folder, name);
    if (f->path == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_CHECK(ckm_i_file_open(f->path, &f->fd, &size, err));
    if (size == 0 || size % record != 0) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1,
                              "has %lld bytes, which is not a whole number of records of %lld bytes", (long long)size,
                              (long long)record);
    }
    f->samples = size / record;
    source->samples += f->samples;
    return check_labels(source, s, f, err);
}

static ckm_status open_source(const char *folder, ckm_i_data_source *source, ckm_error *err)
{
    cifar_state *s = ckm_i_calloc(1, sizeof *s);
    source->state = s;
    if (s == NULL) {
        return ckm_i_error_memory(err);
    }
    bool ten = ckm_i_data_has_file(folder, cifar10[0]);
    s->label_bytes = ten ? 1 : 2;
    source->classes = ten ? 10 : 100;
    source->bytes = (int64_t)sizeof *s;
    CKM_I_CHECK(ckm_i_data_require_classes(source->options, "CIFAR", err));
    CKM_I_CHECK(ckm_i_pixels_init(&s->sink, source->options, SIDE, SIDE, 3, err));
    if (!source->options->resize && !ckm_i_pixels_fits(&s->sink, SIDE, SIDE, 3)) {
        return ckm_i_error_at(err, CKM_ERR_ARGUMENT, folder, 0, -1,
                              "the images are 32x32x3 (height, width, channels), but the network takes %lldx%lldx%d; "
                              "give it that input shape, or resize the images",
                              (long long)s->sink.height, (long long)s->sink.width, (int)s->sink.channels);
    }
    const char *test = test_file(folder, source, ten);
    if (test != NULL) {
        CKM_I_CHECK(add_file(source, s, folder, test, err));
    }
    for (int i = 0; ten && test == NULL && i < MAX_FILES; i++) {
        if (ckm_i_data_has_file(folder, cifar10[i])) {
            CKM_I_CHECK(add_file(source, s, folder, cifar10[i], err));
        }
    }
    if (!ten && test == NULL) {
        CKM_I_CHECK(add_file(source, s, folder, "train.bin", err));
    }
    source->pictures = true;
    source->bytes += s->sink.bytes;
    return CKM_OK;
}

static ckm_status read_sample(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels,
                              ckm_error *err)
{
    cifar_state *s = source->state;
    uint8_t record[2 + IMAGE_BYTES];
    uint8_t row[SIDE * 3];
    const cifar_file *f = s->files;
    while (sample >= f->samples) {
        sample -= f->samples;
        f++;
    }
    int64_t record_bytes = s->label_bytes + IMAGE_BYTES;
    CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, sample * record_bytes, record_bytes, record, err));
    const uint8_t *planes = record + s->label_bytes;
    s->sink.draw = source->draw;
    ckm_i_pixels_begin(&s->sink, SIDE, SIDE, 3, inputs[0]);
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            for (int c = 0; c < 3; c++) {
                row[x * 3 + c] = planes[c * PLANE + y * SIDE + x];
            }
        }
        ckm_i_pixels_row(&s->sink, row);
    }
    ckm_i_pixels_end(&s->sink);
    return ckm_i_data_store_class(source, f->path, sample, record[s->label_bytes - 1], labels, err);
}

const ckm_i_data_format ckm_i_data_format_cifar = {
    .name = "cifar",
    .summary = "CIFAR-10 (data_batch_1.bin to data_batch_5.bin) or CIFAR-100 (train.bin), binary version",
    .detect = detect,
    .open = open_source,
    .count_classes = count_classes,
    .read = read_sample,
    .close = close_state,
};
