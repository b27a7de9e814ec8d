// SPDX-License-Identifier: Apache-2.0
// The metadata of an ONNX file (metadata_props).
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "import/import.h"
#include "import/onnx_wire.h"

enum { MODEL_NOTE = 14, NOTE_KEY = 1, NOTE_VALUE = 2, MOST_TEXT = 1 << 24 };

// Sets *out to the value if the entry has this key.
static ckm_status read_entry(ckm_i_onnx_source *source, const ckm_i_wire_field *entry, const char *key, char **out,
                             ckm_error *err)
{
    char name[64] = "";
    ckm_i_wire_field value = {0};
    for (int64_t at = entry->at; at < entry->at + entry->bytes;) {
        ckm_i_wire_field field;
        CKM_I_CHECK(ckm_i_wire_next(source, &at, entry->at + entry->bytes, "metadata", &field, err));
        if (field.type != CKM_I_WIRE_BYTES) {
            continue;
        }
        if (field.number == NOTE_KEY && field.bytes < (int64_t)sizeof name) {
            CKM_I_CHECK(ckm_i_wire_text(source, &field, name, sizeof name, err));
        } else if (field.number == NOTE_VALUE) {
            value = field;
        }
    }
    if (strcmp(name, key) != 0 || value.number != NOTE_VALUE) {
        return CKM_OK;
    }
    if (value.bytes >= MOST_TEXT) {
        return ckm_i_error(err, CKM_ERR_UNSUPPORTED, "the metadata entry \"%.60s\" is too long", key);
    }
    char *text = ckm_i_malloc((size_t)value.bytes + 1, 1);
    if (text == NULL) {
        return ckm_i_error_memory(err);
    }
    ckm_status status = ckm_i_wire_text(source, &value, text, (size_t)value.bytes + 1, err);
    if (status != CKM_OK) {
        free(text);
        return status;
    }
    free(*out);
    *out = text;
    return CKM_OK;
}

ckm_status ckm_i_import_read_note(const char *path, const char *key, char **out, ckm_error *err)
{
    ckm_i_onnx_source source;
    char *found = NULL;
    CKM_I_CHECK(ckm_i_onnx_source_open(&source, path, err));
    ckm_status status = CKM_OK;
    for (int64_t at = 0; at < source.size_bytes;) {
        ckm_i_wire_field field;
        CKM_I_TRY(
            ckm_i_error_in_file(err, ckm_i_wire_next(&source, &at, source.size_bytes, "model", &field, err), path));
        if (field.number == MODEL_NOTE && field.type == CKM_I_WIRE_BYTES) {
            CKM_I_TRY(ckm_i_error_in_file(err, read_entry(&source, &field, key, &found, err), path));
        }
    }
    *out = found;
    found = NULL;
cleanup:
    free(found);
    ckm_i_onnx_source_close(&source);
    return status;
}
