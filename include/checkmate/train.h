// SPDX-License-Identifier: Apache-2.0
// Training: learning rates, the loop over steps, and checkpoint files from which training can be resumed.
#ifndef CHECKMATE_TRAIN_H
#define CHECKMATE_TRAIN_H

#include <checkmate/base.h>
#include <checkmate/data.h>
#include <checkmate/graph.h>
#include <checkmate/run.h>

#ifdef __cplusplus
extern "C" {
#endif

// Learning rates.

typedef enum ckm_rate_kind {
    CKM_RATE_CONSTANT,
    CKM_RATE_STEP,    // times `factor` after every `every` steps
    CKM_RATE_LINEAR,  // falls to `least` at step `steps`
    CKM_RATE_COSINE   // the same along half a cosine (Loshchilov and Hutter 2017, without restarts)
} ckm_rate_kind;

typedef struct ckm_rate_schedule {
    size_t size;  // set by CKM_RATE_SCHEDULE_INIT
    ckm_rate_kind kind;
    double rate;           // after the warm-up; 0: 0.01; CKM_NONE: 0
    int64_t warmup_steps;  // the rate rises in a line: rate * (step + 1) / warmup_steps
    int64_t every;         // CKM_RATE_STEP, counted from step 0
    double factor;         // CKM_RATE_STEP; 0: 0.1; CKM_NONE: 0
    int64_t steps;         // of the whole training, for CKM_RATE_LINEAR and CKM_RATE_COSINE
    double least;
} ckm_rate_schedule;
#define CKM_RATE_SCHEDULE_INIT CKM_SIZED(ckm_rate_schedule)

// The rate of a step, from 0. Depends on nothing else. 0 for a schedule that was not begun with CKM_RATE_SCHEDULE_INIT or
// that asks for more than this library knows.
CKM_API double ckm_rate_at(const ckm_rate_schedule *schedule, int64_t step);

// What data a network needs.

typedef struct ckm_train_fields {
    int32_t n_inputs;
    ckm_data_field inputs[CKM_DATA_MAX_INPUTS];  // names are borrowed from the training graph
    ckm_data_field labels;
} ckm_train_fields;

// The data inputs and the labels of an op-level training graph, with the ranges of integers as far as they are known.
// Errors: CKM_ERR_ARGUMENT when there is no loss; CKM_ERR_UNSUPPORTED beyond CKM_DATA_MAX_INPUTS inputs, and when an input
// or the labels do not have the batch as their first dimension.
CKM_API ckm_status ckm_train_describe_data(const ckm_training *training, ckm_train_fields *out,
                                           ckm_error *err) CKM_NODISCARD;

// Fetches the batch of `step` into the session's data buffers.
CKM_API ckm_status ckm_train_fetch(ckm_session *session, ckm_data *data, int64_t step, ckm_error *err) CKM_NODISCARD;

// Files: safetensors, parameters and states by name, the position in the training in the file's metadata. Written to a
// temporary name first, so that a file is always complete.

typedef struct ckm_train_place {
    int64_t step;   // the next one
    uint64_t seed;  // of the session and the order of the data
    int64_t batch;
    char network[128];    // its name
    char optimizer[128];  // human-readable; compared when training is resumed
} ckm_train_place;

// Writes everything that resuming needs. Errors, CKM_ERR_IO and, where a parameter or state is not finite,
// CKM_ERR_ARGUMENT, leave the old file as it was.
CKM_API ckm_status ckm_train_save(const ckm_session *session, const char *path, const ckm_train_place *place,
                                  ckm_error *err) CKM_NODISCARD;
// Writes parameters and running statistics only, with the same errors.
CKM_API ckm_status ckm_train_export(const ckm_session *session, const char *path, ckm_error *err) CKM_NODISCARD;
// Reads a file that ckm_train_save wrote: all parameters and states of the session must be in it with their shapes. On
// failure the session is as it was (the file is checked before anything is read), unless the disk fails meanwhile.
CKM_API ckm_status ckm_train_load(ckm_session *session, const char *path, ckm_train_place *place,
                                  ckm_error *err) CKM_NODISCARD;
// Reads only the position.
CKM_API ckm_status ckm_train_read_place(const char *path, ckm_train_place *place, ckm_error *err) CKM_NODISCARD;
// Reads weights from any safetensors file: parameters and running statistics that it has under their names, whose shapes
// must match. *n_read is how many were found.
CKM_API ckm_status ckm_train_load_weights(ckm_session *session, const char *path, int32_t *n_read,
                                          ckm_error *err) CKM_NODISCARD;
// Is this tensor an optimizer's state? (Its name is a parameter's followed by ":<what>".)
CKM_API bool ckm_train_is_optimizer_state(const ckm_session *session, int32_t tensor);

// A text that a file of ckm_train_save or ckm_trainer_export holds in addition to the tensors, to `out` of `size` bytes, truncated to
// fit: how samples were prepared, and the names of the classes (docs/FORMATS.md). *found is false where the file has none.
// Errors: CKM_ERR_IO, CKM_ERR_FORMAT.
CKM_API ckm_status ckm_train_read_note(const char *path, const char *key, char *out, size_t size, bool *found,
                                       ckm_error *err) CKM_NODISCARD;

// The names of the classes in such a file, in the order of their numbers; *n is 0 and *out NULL where it has none. The caller
// owns them (ckm_train_free_class_names). Errors: CKM_ERR_IO, CKM_ERR_FORMAT.
CKM_API ckm_status ckm_train_read_class_names(const char *path, char ***out, int64_t *n, ckm_error *err) CKM_NODISCARD;
CKM_API void ckm_train_free_class_names(char **names, int64_t n);

// The loop.

typedef enum ckm_train_on_nan {
    CKM_NAN_STOP,  // a loss that is NaN or infinite ends training with an error; nothing more is saved
    CKM_NAN_GO_ON  // it is reported like any other; values that are not finite are still not saved
} ckm_train_on_nan;

// After every step.
typedef struct ckm_train_progress {
    int64_t step, last_step;  // this one; the first that will not be run
    int64_t epoch, epoch_step, epoch_steps;
    double loss, learning_rate;
    double mean_loss;           // over the epoch so far
    double accuracy;            // over the epoch so far; NaN when the step does not count
    double step_seconds;        // computing
    double wait_seconds;        // for data
    double samples_per_second;  // over the last steps, everything included
    double seconds_left;        // at that speed
} ckm_train_progress;

typedef enum ckm_train_event {
    CKM_TRAIN_SAVED,       // `path` holds the state after `step` steps
    CKM_TRAIN_SAVE_FAILED  // it does not, for the reason in `why`; training continues with the old file in place
} ckm_train_event;

// The result of a validation.
typedef struct ckm_train_validation {
    int64_t step;     // steps trained
    int64_t epoch;    // the one that they end in, from 0
    int64_t samples;  // looked at
    int64_t judged;   // predictions: a sample's, or those of its positions that have a label
    int64_t correct;  // of these; -1 when the step does not count them
    double loss;      // the mean over them
    double accuracy;  // NaN when the step does not count
    double seconds;   // that it took
    bool best;        // the least loss so far, that of a resumed training included
} ckm_train_validation;

typedef struct ckm_train_options {
    size_t size;                    // set by CKM_TRAIN_OPTIONS_INIT
    int64_t first_step, last_step;  // steps [first, last)
    const ckm_rate_schedule *rate;  // NULL: all defaults. Read at the call
    const char *save_path;          // NULL: nothing is saved
    int64_t save_every;             // steps; 0: only at the end
    ckm_train_place place;          // what to save in addition to the step
    ckm_train_on_nan on_nan;
    void (*progress)(const ckm_train_progress *progress, void *user);  // may be NULL
    void (*event)(ckm_train_event event, const char *path, int64_t step, const ckm_error *why,
                  void *user);  // may be NULL
    ckm_stop_fn stop;           // may be NULL; ends the training after the current step, which is then saved
    void *user;
    // After every epoch and at the end, where there are samples for validation (checkmate/trainer.h). May be NULL.
    void (*validated)(const ckm_train_validation *validation, void *user);
    const char *best_path;  // the state is saved here whenever a validation is the best so far; NULL: it is not
} ckm_train_options;
#define CKM_TRAIN_OPTIONS_INIT CKM_SIZED(ckm_train_options)

typedef struct ckm_train_result {
    int64_t steps;       // run
    int64_t next_step;   // where to resume
    int64_t saved_step;  // steps in the file; -1: none was written
    bool stopped;        // by `stop`
    double first_loss, last_loss;
    double mean_loss, accuracy;    // over the last epoch, or what was run of it
    double seconds, step_seconds;  // wall; computing only
    double median_step_seconds;    // of the last 1024 steps
    int64_t correct, samples;      // of the last epoch
} ckm_train_result;

// Trains for some steps. A save that fails is reported (`event`) and tried again at the next occasion; if the last one fails,
// so does the call. Errors: the back end's, the data's; CKM_ERR_ARGUMENT when the loss is NaN or infinite and on_nan says
// to stop, or when a state to be saved is not finite, which never replaces a good file.
CKM_API ckm_status ckm_train_run(ckm_session *session, ckm_data *data, const ckm_train_options *options,
                                 ckm_train_result *result, ckm_error *err) CKM_NODISCARD;

#ifdef __cplusplus
}
#endif
#endif
