// SPDX-License-Identifier: Apache-2.0
// Reading JSON with errors that name the file, the member and the position; jansson underneath.
#ifndef CKM_SRC_BASE_JSON_H
#define CKM_SRC_BASE_JSON_H

#include <checkmate/base.h>
#include <jansson.h>

#include "base/error.h"

// Parses text. Errors carry line and byte. The caller releases *out with json_decref.
ckm_status ckm_i_json_parse(const char *text, size_t size_bytes, const char *file, json_t **out,
                            ckm_error *err) CKM_NODISCARD;
// The same of a file of at most `max_bytes`. Errors are those of ckm_i_file_read besides, and name the file.
ckm_status ckm_i_json_read(const char *path, int64_t max_bytes, json_t **out, ckm_error *err) CKM_NODISCARD;

// Reads a member of a large object. The value is released after the call; to keep it, take a reference.
typedef ckm_status ckm_i_json_visit(const char *key, json_t *value, void *user, ckm_error *err);

// Calls `visit` for every member of the object that the text is, in their order, and ends with its first failure. At no
// time is there more than one member in memory. Whether keys repeat is left to the caller.
ckm_status ckm_i_json_members(const char *text, size_t size_bytes, const char *file, ckm_i_json_visit *visit,
                              void *user, ckm_error *err) CKM_NODISCARD;

// Path of a value, for messages: "ops[3].inputs[1]".
typedef struct ckm_i_json_place {
    const char *file;
    char path[128];
} ckm_i_json_place;

ckm_i_json_place ckm_i_json_root(const char *file);
ckm_i_json_place ckm_i_json_member(const ckm_i_json_place *parent, const char *key);
ckm_i_json_place ckm_i_json_element(const ckm_i_json_place *parent, size_t i);
// Fails with CKM_ERR_FORMAT: "<path>: <message>".
ckm_status ckm_i_json_error(ckm_error *err, const ckm_i_json_place *place, const char *format, ...) CKM_PRINTF(3, 4);
#define ckm_i_json_error(err, place, ...) ckm_i_error_known(ckm_i_json_error(err, place, __VA_ARGS__), CKM_ERR_FORMAT)

// Typed members of an object. `required` members must be there; absent optional ones leave *out alone.
ckm_status ckm_i_json_get_int(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                              int64_t min, int64_t max, int64_t *out, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_json_get_bool(const json_t *object, const ckm_i_json_place *place, const char *key, bool *out,
                               ckm_error *err) CKM_NODISCARD;
// *out is borrowed from the object.
ckm_status ckm_i_json_get_text(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                               const char **out, ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_json_get_array(const json_t *object, const ckm_i_json_place *place, const char *key, bool required,
                                const json_t **out, ckm_error *err) CKM_NODISCARD;
// An integer value in [min, max].
ckm_status ckm_i_json_int(const json_t *value, const ckm_i_json_place *place, int64_t min, int64_t max, int64_t *out,
                          ckm_error *err) CKM_NODISCARD;
// Members that are none of `names` are ignored, unless they resemble one.
ckm_status ckm_i_json_check_names(const json_t *object, const ckm_i_json_place *place, const char *const *names, int n,
                                  ckm_error *err) CKM_NODISCARD;
// Checks that the root is an object with this format and version 1, or one from 1 to `newest`, which goes to *version.
ckm_status ckm_i_json_check_header(const json_t *root, const char *file, const char *format,
                                   ckm_error *err) CKM_NODISCARD;
ckm_status ckm_i_json_check_versions(const json_t *root, const char *file, const char *format, int newest, int *version,
                                     ckm_error *err) CKM_NODISCARD;

#endif
