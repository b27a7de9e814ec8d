// SPDX-License-Identifier: Apache-2.0
// checkmate-device files: a device that is not built in, or this machine as it was measured.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <checkmate/cost.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

enum { MAX_FILE_BYTES = 1 << 20 };

static const char *const class_keys[CKM_DEVICE_CLASSES] = {"conv3", "matrix", "grouped", "stream"};

static ckm_status get_text(const json_t *object, const ckm_i_json_place *place, const char *key, char *to, size_t room,
                           ckm_error *err)
{
    const char *text = "";
    CKM_I_CHECK(ckm_i_json_get_text(object, place, key, false, &text, err));
    if (strlen(text) >= room) {
        return ckm_i_json_error(err, place, "%s has more than %d bytes", key, (int)room - 1);
    }
    memcpy(to, text, strlen(text) + 1);
    return CKM_OK;
}

static ckm_status get_real(const json_t *object, const ckm_i_json_place *place, const char *key, bool may_be_zero,
                           double *to, ckm_error *err)
{
    const json_t *value = json_object_get(object, key);
    double number = json_number_value(value);
    if (!json_is_number(value) || !(number > 0 || (may_be_zero && number >= 0))) {
        return ckm_i_json_error(err, place, "%s must be a number %s", key, may_be_zero ? "of at least 0" : "above 0");
    }
    *to = number;
    return CKM_OK;
}

ckm_status ckm_device_read(const char *path, ckm_device *out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    const json_t *efficiency;
    ckm_device d = {.name = ""};
    ckm_status status;
    ckm_i_json_place place = ckm_i_json_root(path);
    ckm_i_json_place inner = ckm_i_json_member(&place, "efficiency");
    CKM_I_TRY(ckm_i_json_read(path, MAX_FILE_BYTES, &root, err));
    CKM_I_TRY(ckm_i_json_check_header(root, path, "checkmate-device", err));
    CKM_I_TRY(get_text(root, &place, "name", d.name, sizeof d.name, err));
    CKM_I_TRY(get_text(root, &place, "what", d.what, sizeof d.what, err));
    CKM_I_TRY(get_text(root, &place, "source", d.source, sizeof d.source, err));
    CKM_I_TRY(get_real(root, &place, "macs_per_s", false, &d.macs_per_s, err));
    CKM_I_TRY(get_real(root, &place, "matrix_macs_per_s", false, &d.matrix_macs_per_s, err));
    CKM_I_TRY(get_real(root, &place, "bytes_per_s", false, &d.bytes_per_s, err));
    CKM_I_TRY(get_real(root, &place, "launch_ns", true, &d.launch_ns, err));
    efficiency = json_object_get(root, "efficiency");
    for (int i = 0; i < CKM_DEVICE_CLASSES; i++) {
        CKM_I_TRY(get_real(efficiency, &inner, class_keys[i], false, &d.efficiency[i], err));
    }
    *out = d;
cleanup:
    json_decref(root);
    return status;
}

static void write_text(FILE *to, const char *key, const char *value)
{
    fprintf(to, ",\n  \"%s\": ", key);
    ckm_json_write_text(to, value);
}

static void write_real(FILE *to, const char *before, const char *key, double value)
{
    fprintf(to, "%s\"%s\": ", before, key);
    ckm_json_write_number(to, value);
}

ckm_status ckm_device_write(const ckm_device *device, const char *path, ckm_error *err)
{
    CKM_I_NEED(device, err);
    CKM_I_NEED(path, err);
    ckm_i_writer writer = {0};
    bool finite = isfinite(device->macs_per_s) && isfinite(device->matrix_macs_per_s) &&
                  isfinite(device->bytes_per_s) && isfinite(device->launch_ns);
    for (int i = 0; i < CKM_DEVICE_CLASSES; i++) {
        finite = finite && isfinite(device->efficiency[i]);
    }
    if (!finite) {
        return ckm_i_error(err, CKM_ERR_ARGUMENT, "a device with a rate or an efficiency that is not a finite number");
    }
    CKM_I_CHECK(ckm_i_writer_open(&writer, path, err));
    FILE *to = writer.stream;
    fputs("{\n  \"format\": \"checkmate-device\",\n  \"version\": 1", to);
    write_text(to, "name", device->name);
    write_text(to, "what", device->what);
    write_text(to, "source", device->source);
    write_real(to, ",\n  ", "macs_per_s", device->macs_per_s);
    write_real(to, ",\n  ", "matrix_macs_per_s", device->matrix_macs_per_s);
    write_real(to, ",\n  ", "bytes_per_s", device->bytes_per_s);
    write_real(to, ",\n  ", "launch_ns", device->launch_ns);
    fputs(",\n  \"efficiency\": {", to);
    for (int i = 0; i < CKM_DEVICE_CLASSES; i++) {
        write_real(to, i > 0 ? ",\n    " : "\n    ", class_keys[i], device->efficiency[i]);
    }
    fputs("\n  }\n}\n", to);
    ckm_status status = ckm_i_writer_commit(&writer, err);
    ckm_i_writer_abort(&writer);
    return status;
}
