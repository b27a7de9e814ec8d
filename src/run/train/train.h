// SPDX-License-Identifier: Apache-2.0
// The training loop, internal view: steps of several batches.
#ifndef CKM_SRC_RUN_TRAIN_TRAIN_H
#define CKM_SRC_RUN_TRAIN_TRAIN_H

#include <checkmate/ranks.h>
#include <checkmate/train.h>

#include "run/backend/backend.h"

// What has to be the same when a run goes on, beside its place: settings by name, as text. Files keep them as metadata.
enum { CKM_I_TRAIN_SETTINGS = 12 };
typedef struct ckm_i_train_settings {
    int32_t n;
    struct {
        const char *name;  // a string literal
        char key[32], value[128];
    } items[CKM_I_TRAIN_SETTINGS];
} ckm_i_train_settings;
// Adds one, or changes it.
void ckm_i_train_set(ckm_i_train_settings *settings, const char *name, const char *format, ...) CKM_PRINTF(3, 4);
// An error that names the first setting that is another one in the file, unless `change` has its name. What the file does not
// say is not compared. `change`: names between commas, or NULL.
ckm_status ckm_i_train_compare(const char *path, const ckm_i_train_settings *settings, const char *change,
                               ckm_error *err) CKM_NODISCARD;
// ckm_train_save with settings, which may be NULL.
ckm_status ckm_i_train_save(const ckm_session *session, const char *path, const ckm_train_place *place,
                            const ckm_i_train_settings *settings, ckm_error *err) CKM_NODISCARD;
// Could the session be saved? An error where two parameters have one name.
ckm_status ckm_i_train_check_names(const ckm_session *session, const char *path, ckm_error *err) CKM_NODISCARD;

// What a step is made of: batches in this process, one after the other, or one in each of several processes.
typedef struct ckm_i_train_parts {
    int64_t batches;                       // in this process, >= 1
    const ckm_ranks *ranks;                // NULL: one process
    ckm_i_exchange *exchange;              // with `ranks`
    const ckm_i_train_settings *settings;  // to save; may be NULL
} ckm_i_train_parts;

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
