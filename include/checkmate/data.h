// SPDX-License-Identifier: Apache-2.0
// Training data: labelled samples in a folder, or a text, delivered as batches in an order that depends on the seed alone.
//
// A folder's format is found by its content (ckm_data_format_name lists them). One batch is read ahead by a separate
// thread, if one can be started, while the last one is being trained on; all memory this takes is fixed when the
// data are opened.
#ifndef CHECKMATE_DATA_H
#define CHECKMATE_DATA_H

#include <checkmate/base.h>
#include <checkmate/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ckm_data ckm_data;

// One tensor that a batch fills, as the network wants it.
typedef struct ckm_data_field {
    const char *name;
    ckm_dtype dtype;  // CKM_F32, CKM_I32 or CKM_I64
    ckm_shape shape;  // of one sample, without the batch
    int64_t limit;    // integers must be in [0, limit): classes, vocabulary; 0: any
} ckm_data_field;

// How 8-bit pixel values are scaled.
typedef enum ckm_data_scaling {
    CKM_SCALING_SYMMETRIC,  // to [-1, 1]
    CKM_SCALING_UNIT,       // to [0, 1]
    CKM_SCALING_IMAGENET    // to [0, 1], then less the mean and over the deviation of ImageNet, per colour
} ckm_data_scaling;

typedef struct ckm_data_options {
    size_t size;       // set by CKM_DATA_OPTIONS_INIT
    int64_t batch;     // 0: 1
    int32_t n_inputs;  // at most CKM_DATA_MAX_INPUTS
    const ckm_data_field *inputs;
    ckm_data_field labels;  // CKM_I32: a class, per sample or per element of `shape`, -1 where there is none;
                            // CKM_F32: targets. Without a name: "labels", CKM_I32
    ckm_layout layout;      // position of the channels in image inputs
    ckm_data_scaling scaling;
    ckm_task task;  // what "synthetic" makes up: classes, texts, noise
    bool resize;    // bring images of other sizes and colours to the input's (always done for a folder of images)
    bool keep_order;
    uint64_t seed;              // of the order; every epoch has its own
    int64_t synthetic_samples;  // how many samples "synthetic" has; 0: 1024
    // Augmentation: training pictures are changed at random, depending on the seed, the epoch and the number of the sample alone.
    // Those for validation are not. CKM_ERR_ARGUMENT where the samples are no pictures of 8 bits.
    double
        crop;  // > 0: a part with at least this share of the picture's area, and 3/4 to 4/3 as wide as high, is brought to
               // the input's size; 0.08 is usual. At most 1
    bool flip;          // half of them are mirrored, left and right
    bool skip_damaged;  // a picture of a folder that cannot be read is left out, not an error: ckm_data_left_out
    char reserved[6];
    // Warnings: pictures that are left out, and folders that are no class. From the thread that opens and fetches. May be NULL.
    ckm_log_fn note;
    void *user;
} ckm_data_options;
#define CKM_DATA_MAX_INPUTS 8
#define CKM_DATA_OPTIONS_INIT CKM_SIZED(ckm_data_options)

typedef struct ckm_data_facts {
    const char *format;        // "idx", "images", ...
    int64_t samples, batches;  // batches an epoch; a rest smaller than a batch waits for another epoch
    int64_t classes;           // in the data; 0: unknown
    int64_t bytes;             // of memory held: the batch read ahead, tables, decoding
    bool reads_ahead;          // false: no thread could be started, and batches are read when they are fetched
} ckm_data_facts;

// Opens a folder, a text, or "synthetic": generated images, texts or noisy images that a network can learn. Everything that can be
// checked without reading the samples is checked now. `options` is copied; the fields' names are not kept. Errors:
// CKM_ERR_IO, CKM_ERR_FORMAT, CKM_ERR_ARGUMENT (the data do not fit the network: shapes, classes, too few
// samples), CKM_ERR_UNSUPPORTED (no known format).
CKM_API ckm_status ckm_data_open(const char *path, const ckm_data_options *options, ckm_data **out,
                                 ckm_error *err) CKM_NODISCARD;
// Samples of the caller's own, say in memory.
typedef struct ckm_data_source {
    int64_t samples;
    int64_t classes;  // 0: unknown
    int64_t bytes;    // of memory that belongs to reading and is to be counted within a budget
    // Writes sample `sample`, from 0, dense: inputs[i] and labels as options->inputs[i] and labels describe them. Called by
    // the thread that reads ahead, one call at a time. Integers are checked against their limits afterwards.
    ckm_status (*read)(void *user, int64_t sample, void *const *inputs, void *labels, ckm_error *err);
    void *user;
} ckm_data_source;
// `source` is copied. Errors as above.
CKM_API ckm_status ckm_data_open_source(const ckm_data_source *source, const ckm_data_options *options, ckm_data **out,
                                        ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_data_close(ckm_data *data);
// Classes of the samples in a folder, before there is a network to open it for: its folders of images, those of CIFAR's format, or
// the greatest label and one more, for which all labels are read. 0: "synthetic", or labels that are no integers. Errors:
// CKM_ERR_IO, CKM_ERR_FORMAT, CKM_ERR_UNSUPPORTED.
CKM_API ckm_status ckm_data_count_classes(const char *path, int64_t *out, ckm_error *err) CKM_NODISCARD;
// The vocabulary that a text needs: 256 where bytes are the tokens, or the greatest token of an array and one more. 0: the samples
// are no text. Errors as above.
CKM_API ckm_status ckm_data_count_tokens(const char *path, int64_t *out, ckm_error *err) CKM_NODISCARD;
// What the file next to an array of tokens says about it (checkmate-tokens, docs/FORMATS.md): "tokens.json" of "tokens.npy". All 0 where
// there is none. Errors: CKM_ERR_IO, CKM_ERR_FORMAT.
typedef struct ckm_data_token_notes {
    int64_t vocabulary;  // tokens that the tokenizer knows
    int64_t tokens;      // in the array
    int64_t bytes;       // of the texts that they stand for
} ckm_data_token_notes;
CKM_API ckm_status ckm_data_read_token_notes(const char *path, ckm_data_token_notes *out, ckm_error *err) CKM_NODISCARD;
// How many tokens an array (.npy) has, in *n, and the first of them, as many as there is `room` for; `tokens` may be NULL with a room
// of 0. Errors: CKM_ERR_IO, CKM_ERR_FORMAT; CKM_ERR_ARGUMENT for a token below 0 or of more than 31 bits.
CKM_API ckm_status ckm_data_read_tokens(const char *path, int32_t *tokens, int64_t room, int64_t *n,
                                        ckm_error *err) CKM_NODISCARD;
CKM_API ckm_data_facts ckm_data_get_facts(const ckm_data *data);
// Pictures that were left out because they cannot be read, so far. Damage behind a picture's header is found when it is read; then
// the next one of the epoch takes its place or, for validation, nothing.
CKM_API int64_t ckm_data_left_out(const ckm_data *data);
// Name of a class: the folder it comes from; NULL when it has none.
CKM_API const char *ckm_data_class_name(const ckm_data *data, int64_t i);

// The sub-folder of a folder of images that holds samples not to be trained on: "val", "valid", "validation" or, without one of
// these, "test". False, and `out` empty, where there is none, or no folder "train" next to it.
CKM_API bool ckm_data_find_validation(const char *path, char *out, size_t size);

// Copies the batch of training step `step` (from 0; its epoch is step / batches) into the buffers given, one an
// input and one for the labels, dense and in the order of the fields. The same step always gives the same bytes.
// Then reads the next one ahead. Errors name the file and the sample.
CKM_API ckm_status ckm_data_fetch(ckm_data *data, int64_t step, void *const *inputs, void *labels,
                                  ckm_error *err) CKM_NODISCARD;

// The formats, in the order in which they are looked for. `summary` is one line for a person.
CKM_API int32_t ckm_data_format_count(void);
CKM_API const char *ckm_data_format_name(int32_t i);
CKM_API const char *ckm_data_format_summary(int32_t i);

#ifdef __cplusplus
}
#endif
#endif
