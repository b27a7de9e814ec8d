// SPDX-License-Identifier: Apache-2.0
// Data, internal view: what the reader of one format provides, and the helpers readers share.
//
// A reader gives single samples by number; shuffling, batches and reading ahead are data.c's. It is only ever asked
// by one thread at a time.
#ifndef CKM_SRC_RUN_DATA_DATA_H
#define CKM_SRC_RUN_DATA_DATA_H

#include <checkmate/data.h>

typedef struct ckm_i_data_source ckm_i_data_source;

// Pictures that cannot be read: how many, and the first of those that are still to be reported.
enum { CKM_I_LEFT_OUT_KEPT = 8 };
typedef struct ckm_i_left_out {
    int64_t n, reported;
    int32_t kept;
    struct {
        char file[256], message[200];
    } why[CKM_I_LEFT_OUT_KEPT];
} ckm_i_left_out;

// One format: a static const object in data_<format>.c, listed in data.c.
typedef struct ckm_i_data_format {
    const char *name, *summary;
    bool files;  // each sample is a file, and a damaged one can be left out
    bool
        continuous;  // samples follow from each other: those held back are the last ones, and others may begin within `shift`
    // Does the folder hold this format? Only looks at names.
    bool (*detect)(const char *folder);
    // Opens: fills in source->samples, classes, bytes, state. `options` outlives the source.
    ckm_status (*open)(const char *folder, ckm_i_data_source *source, ckm_error *err);
    // Fills the sample's part of every input and of the labels.
    ckm_status (*read)(ckm_i_data_source *source, int64_t sample, void *const *inputs, void *labels, ckm_error *err);
    // ckm_data_count_classes; NULL: the format does not say.
    ckm_status (*count_classes)(const char *folder, int64_t *out, ckm_error *err);
    const char *(*class_name)(const ckm_i_data_source *source, int64_t i);  // NULL: classes have no names
    void (*close)(ckm_i_data_source *source);
} ckm_i_data_format;

struct ckm_i_data_source {
    const ckm_i_data_format *format;
    const ckm_data_options *options;
    // Set before it is opened, where the samples are for validation: of a folder's files, those for that, if it has some.
    bool validates;
    const ckm_i_data_source *trained_on;  // with `validates`: what classes are numbered by
    // Before a sample is read: what decides how it is augmented; 0: it is not.
    uint64_t draw;
    // The same where they are continuous: how far from its place it begins, whole samples not counted.
    uint64_t shift;
    int64_t learnt;  // samples that are learnt from: they end before the first that is held back
    ckm_i_left_out *left_out;
    bool pictures;  // of 8 bits, each with one class: they can be augmented
    int64_t samples, classes;
    int64_t bytes;  // memory that the reader holds, decoding included
    void *state;    // the reader's own
};

extern const ckm_i_data_format ckm_i_data_format_synthetic, ckm_i_data_format_idx, ckm_i_data_format_cifar,
    ckm_i_data_format_npy, ckm_i_data_format_images, ckm_i_data_format_text, ckm_i_data_format_tokens;

// Makes `source` one of the caller's samples (data_caller.c).
ckm_status ckm_i_data_open_caller(const ckm_data_source *caller, ckm_i_data_source *source,
                                  ckm_error *err) CKM_NODISCARD;

// Records a picture that cannot be read, for the next fetch to report.
void ckm_i_data_leave_out(ckm_i_data_source *source, const ckm_error *why);
// Reports those recorded since the last call, as warnings. Only while nothing is being read.
void ckm_i_data_tell_left_out(const ckm_i_data_source *source);
// One more warning.
void ckm_i_data_note(const ckm_data_options *options, const char *format, ...) CKM_PRINTF(2, 3);
// Why a folder without any class is none of images; "" where there is nothing to say.
void ckm_i_data_images_problem(const char *folder, char *buf, size_t size);

// A part of the samples. With `fraction` > 0 this share is held back from training, chosen by the seed, or the last samples
// where the order is kept.
typedef struct ckm_i_data_share {
    double fraction;  // < 1
    bool validates;   // those held back or, without a fraction, all. Every epoch has every sample, in the same order
    const ckm_data *trained_on;  // with `validates`
} ckm_i_data_share;
// ckm_data_open, or with `caller` ckm_data_open_source. What is for validation ends with a batch that may have empty places, whose
// labels are -1; where labels are reals, a rest smaller than a batch is left out.
ckm_status ckm_i_data_open_share(const char *path, const ckm_data_source *caller, const ckm_data_options *options,
                                 const ckm_i_data_share *share, ckm_data **out, ckm_error *err) CKM_NODISCARD;

// Takes one field of a batch: inputs[field], or the labels where field is -1. `bytes` bytes.
typedef ckm_status (*ckm_i_data_take_fn)(void *user, int32_t field, const void *values, int64_t bytes, ckm_error *err);
// ckm_data_fetch for batches that do not go to the host's memory.
ckm_status ckm_i_data_fetch_to(ckm_data *d, int64_t step, ckm_i_data_take_fn take, void *user,
                               ckm_error *err) CKM_NODISCARD;

// How far apart the steps are that are asked for in turn, so that the right one is read ahead; 1 unless it is set.
void ckm_i_data_set_stride(ckm_data *d, int64_t stride);

// The position, from 0, at which the order of `epoch` visits sample `i` of `n`: a permutation that needs no memory.
int64_t ckm_i_data_shuffle(int64_t i, int64_t n, uint64_t seed, int64_t epoch);

// Elements of a field, one sample; and bytes.
int64_t ckm_i_data_elements(const ckm_data_field *field);
int64_t ckm_i_data_field_bytes(const ckm_data_field *field);

// Is `folder`/`name` a readable regular file / a folder?
bool ckm_i_data_has_file(const char *folder, const char *name);
bool ckm_i_data_has_folder(const char *folder, const char *name);
// "<folder>/<name>" on the heap; NULL when memory is exhausted.
char *ckm_i_data_path(const char *folder, const char *name);
// Reads exactly `n` bytes at `at`; `path` for errors.
ckm_status ckm_i_data_pread(int fd, const char *path, int64_t at, int64_t n, void *out, ckm_error *err) CKM_NODISCARD;

// Stores a class into the labels of a network that wants one class a sample. Checks its range.
ckm_status ckm_i_data_store_class(const ckm_i_data_source *source, const char *path, int64_t sample,
                                  int64_t class_number, void *labels, ckm_error *err) CKM_NODISCARD;
// Fails unless the network has one floating input and takes one class a sample; `format` for the message.
ckm_status ckm_i_data_require_classes(const ckm_data_options *options, const char *format,
                                      ckm_error *err) CKM_NODISCARD;

#endif
