// SPDX-License-Identifier: Apache-2.0
// The training loop, internal view: steps of several batches.
#ifndef CKM_SRC_RUN_TRAIN_TRAIN_H
#define CKM_SRC_RUN_TRAIN_TRAIN_H

#include <checkmate/ranks.h>
#include <checkmate/train.h>

#include "run/backend/backend.h"
#include "run/data/safetensors.h"

// What has to be the same when a run is resumed, in addition to its position: settings by name, as text. Files keep them as metadata.
enum { CKM_I_TRAIN_SETTINGS = 16, CKM_I_TRAIN_NOTES = 16 };
typedef struct ckm_i_train_settings {
    int32_t n;
    struct {
        const char *name;  // a string literal
        char key[32], value[128];
    } items[CKM_I_TRAIN_SETTINGS];
    // Further metadata, which is not compared. The texts are the caller's.
    int32_t n_notes;
    struct {
        const char *key, *value;
    } notes[CKM_I_TRAIN_NOTES];
} ckm_i_train_settings;
// A note, unless there are too many.
void ckm_i_train_note(ckm_i_train_settings *settings, const char *key, const char *value);
// Adds one, or changes it.
void ckm_i_train_set(ckm_i_train_settings *settings, const char *name, const char *format, ...) CKM_PRINTF(3, 4);
// An error that names the first setting that differs in the file, unless `change` has its name. Settings that the file does not
// have are not compared. `change`: names separated by commas, or NULL.
ckm_status ckm_i_train_compare(const char *path, const ckm_i_train_settings *settings, const char *change,
                               ckm_error *err) CKM_NODISCARD;
// ckm_train_read_class_names of a text, which may be NULL; `path` is where it is from.
ckm_status ckm_i_train_parse_class_names(const char *text, const char *path, char ***out, int64_t *n,
                                         ckm_error *err) CKM_NODISCARD;
// ckm_train_save with settings, which may be NULL.
ckm_status ckm_i_train_save(const ckm_session *session, const char *path, const ckm_train_place *place,
                            const ckm_i_train_settings *settings, ckm_error *err) CKM_NODISCARD;
// ckm_train_export, with optimizer, seed, settings and notes in addition to the tensors.
ckm_status ckm_i_train_export(const ckm_session *session, const char *path, const ckm_train_place *place,
                              const ckm_i_train_settings *settings, ckm_error *err) CKM_NODISCARD;
// ---- weights by the names that PyTorch has for them (train_known.c)

void ckm_i_train_free_list(ckm_i_safetensor *list, int32_t n);
// Whether all parameters and running statistics have such a name.
bool ckm_i_train_is_known(const ckm_session *session);
// All of them as a file has them, in no order, and the source of their values (`user`: the session's address).
ckm_status ckm_i_train_list_known(const ckm_session *session, ckm_i_safetensor **out, int32_t *n,
                                  ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_train_known_source(void *user, const ckm_i_safetensor *tensor, int64_t at, int64_t bytes, void *out,
                                    ckm_error *err) CKM_NODISCARD;
// The file's entry for tensor i under such a name, or NULL; sets name and shape of `wanted` to those in the file.
const ckm_i_safetensor *ckm_i_train_find_known(const ckm_session *session, int32_t i, const ckm_i_safetensors *file,
                                               ckm_session_tensor *wanted);
ckm_status ckm_i_train_read_known(ckm_session *session, int32_t i, const ckm_i_safetensors *file,
                                  const ckm_i_safetensor *found, ckm_error *err) CKM_NODISCARD;

// Checks that the session can be saved: an error if two parameters have the same name.
ckm_status ckm_i_train_check_names(const ckm_session *session, const char *path, ckm_error *err) CKM_NODISCARD;

// The batches of a step: in this process, one after the other, or one in each of several processes.
typedef struct ckm_i_train_parts {
    int64_t batches;                       // in this process, >= 1
    const ckm_ranks *ranks;                // NULL: one process
    ckm_i_exchange *exchange;              // with `ranks`
    const ckm_i_train_settings *settings;  // to save; may be NULL
    // Loss and hits on samples for validation, after every epoch; *done stays false where `stop` ended it. NULL: there are none.
    ckm_status (*validate)(void *user, ckm_stop_fn stop, void *stop_user, ckm_train_validation *out, bool *done,
                           ckm_error *err);
    // Called with a loss of validation: whether it is the least so far, which files then record.
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
