// SPDX-License-Identifier: Apache-2.0
// The training loop, internal view: steps of several batches.
#ifndef CKM_SRC_RUN_TRAIN_TRAIN_H
#define CKM_SRC_RUN_TRAIN_TRAIN_H

#include <checkmate/ranks.h>
#include <checkmate/train.h>

#include "run/backend/backend.h"

// What has to be the same when a run goes on, beside its place: settings by name, as text. Files keep them as metadata.
enum { CKM_I_TRAIN_SETTINGS = 16, CKM_I_TRAIN_NOTES = 16 };
typedef struct ckm_i_train_settings {
    int32_t n;
    struct {
        const char *name;  // a string literal
        char key[32], value[128];
    } items[CKM_I_TRAIN_SETTINGS];
    // What files say beside that, which is not compared. The texts are the caller's.
    int32_t n_notes;
    struct {
        const char *key, *value;
    } notes[CKM_I_TRAIN_NOTES];
} ckm_i_train_settings;
// A note, unless there are too many.
void ckm_i_train_note(ckm_i_train_settings *settings, const char *key, const char *value);
// Adds one, or changes it.
void ckm_i_train_set(ckm_i_train_settings *settings, const char *name, const char *format, ...) CKM_PRINTF(3, 4);
// An error that names the first setting that is another one in the file, unless `change` has its name. What the file does not
// say is not compared. `change`: names between commas, or NULL.
ckm_status ckm_i_train_compare(const char *path, const ckm_i_train_settings *settings, const char *change,
                               ckm_error *err) CKM_NODISCARD;
// ckm_train_save with settings, which may be NULL.
ckm_status ckm_i_train_save(const ckm_session *session, const char *path, const ckm_train_place *place,
                            const ckm_i_train_settings *settings, ckm_error *err) CKM_NODISCARD;
// ckm_train_export, with optimizer, seed, settings and notes beside the tensors.
ckm_status ckm_i_train_export(const ckm_session *session, const char *path, const ckm_train_place *place,
                              const ckm_i_train_settings *settings, ckm_error *err) CKM_NODISCARD;
// Could the session be saved? An error where two parameters have one name.
ckm_status ckm_i_train_check_names(const ckm_session *session, const char *path, ckm_error *err) CKM_NODISCARD;

// What a step is made of: batches in this process, one after the other, or one in each of several processes.
typedef struct ckm_i_train_parts {
    int64_t batches;                       // in this process, >= 1
    const ckm_ranks *ranks;                // NULL: one process
    ckm_i_exchange *exchange;              // with `ranks`
    const ckm_i_train_settings *settings;  // to save; may be NULL
    // Loss and hits on samples for validation, after every epoch; *done stays false where `stop` ended it. NULL: there are none.
    ckm_status (*validate)(void *user, ckm_stop_fn stop, void *stop_user, ckm_train_validation *out, bool *done,
                           ckm_error *err);
    // Called with a loss of validation: is it the least so far, which files are to say from now on?
    bool (*is_best)(void *user, double loss);
    void *user;  // of both
} ckm_i_train_parts;

// A schedule of learning rates with its defaults filled in; `given` may be NULL. The second is for such a one.
ckm_status ckm_i_rate_read(const ckm_rate_schedule *given, ckm_rate_schedule *own, ckm_error *err) CKM_NODISCARD;
double ckm_i_rate_at(const ckm_rate_schedule *own, int64_t step);

// ckm_train_run for such steps. With `ranks`, all call it, with options that differ in callbacks and files only.
ckm_status ckm_i_train_run(ckm_session *session, ckm_data *data, const ckm_train_options *options,
                           const ckm_i_train_parts *parts, ckm_train_result *result, ckm_error *err) CKM_NODISCARD;

// ckm_train_load_weights; where `valued` is not NULL, sets it for every tensor of the session that the file has.
ckm_status ckm_i_train_load_weights(ckm_session *session, const char *path, bool *valued, int32_t *n_read,
                                    ckm_error *err) CKM_NODISCARD;
// The first parameter or state with a value that is not a finite number: a position in the session, or -1.
ckm_status ckm_i_train_find_not_finite(const ckm_session *session, int32_t *out, ckm_error *err) CKM_NODISCARD;
// An error that names it, where there is one: such values never get into a file.
ckm_status ckm_i_train_check_finite(const ckm_session *session, const char *path, ckm_error *err) CKM_NODISCARD;

#endif
