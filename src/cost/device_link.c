// SPDX-License-Identifier: Apache-2.0
// Links to a second memory: those that are known by name, and those that files of devices and profiles carry.
#include <checkmate/cost.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

#define MAX_FILE_BYTES (INT64_C(256) << 20)

// Raw rates are of one way, by the standard or the data sheet, and what protocols leave of them is assumed, the same for all: four fifths.
#define MB(raw) ((int64_t)((raw)*1e6 * 4 / 5))

static const ckm_device_link links[] = {
    {"PCIe3", "16 lanes of PCI Express 3, page-locked host memory",
     "raw rate: PCI-SIG, 8 GT/s a lane, 128 of 130 bits; four fifths of it and the latency are assumed", MB(15754),
     MB(15754), 10000},
    {"PCIe4", "16 lanes of PCI Express 4, page-locked host memory",
     "raw rate: PCI-SIG, 16 GT/s a lane, 128 of 130 bits; four fifths of it and the latency are assumed", MB(31508),
     MB(31508), 10000},
    {"PCIe5", "16 lanes of PCI Express 5, page-locked host memory",
     "raw rate: PCI-SIG, 32 GT/s a lane, 128 of 130 bits; four fifths of it and the latency are assumed", MB(63015),
     MB(63015), 10000},
    {"NVLink-C2C", "NVLink-C2C of an NVIDIA GH200, its LPDDR5X memory",
     "raw rate: NVIDIA GH200 data sheet, 900 GB/s both ways together; four fifths of it and the latency are assumed",
     MB(450000), MB(450000), 5000},
    {"flash", "microSD card of class V30 in a Raspberry Pi",
     "out: SD Association, Video Speed Class 30, the least that a card keeps up; in: four fifths of UHS-I SDR104, "
     "assumed, as is the latency",
     30000000, MB(104), 1000000},
};
enum { N_LINKS = sizeof links / sizeof links[0] };

// Which link a built-in device has.
static const char *const of_device[][2] = {{"V100", "PCIe3"}, {"K80", "PCIe3"},  {"T4", "PCIe3"},
                                           {"A100", "PCIe4"}, {"H100", "PCIe5"}, {"H200", "PCIe5"}};

int32_t ckm_device_link_count(void)
{
    return N_LINKS;
}

const ckm_device_link *ckm_device_link_at(int32_t i)
{
    return i >= 0 && i < N_LINKS ? &links[i] : NULL;
}

const ckm_device_link *ckm_device_link_find(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof of_device / sizeof of_device[0]; i++) {
        if (ckm_i_text_same(of_device[i][0], name)) {
            name = of_device[i][1];
            break;
        }
    }
    for (int32_t i = 0; name != NULL && i < N_LINKS; i++) {
        if (ckm_i_text_same(links[i].name, name)) {
            return &links[i];
        }
    }
    return NULL;
}

static ckm_status get_text(const json_t *object, const ckm_i_json_place *place, const char *key, char *to, size_t room,
                           ckm_error *err)
{
    const char *text = "";
    CKM_I_CHECK(ckm_i_json_get_text(object, place, key, false, &text, err));
    ckm_i_text_copy(to, room, text);
    return CKM_OK;
}

static ckm_status read_link(const json_t *link, const ckm_i_json_place *place, ckm_device_link *l, ckm_error *err)
{
    if (!json_is_object(link)) {
        return ckm_i_json_error(err, place,
                                "must be an object with \"out_bytes_per_second\" and \"in_bytes_per_second\"");
    }
    CKM_I_CHECK(get_text(link, place, "name", l->name, sizeof l->name, err));
    CKM_I_CHECK(get_text(link, place, "what", l->what, sizeof l->what, err));
    CKM_I_CHECK(get_text(link, place, "source", l->source, sizeof l->source, err));
    CKM_I_CHECK(
        ckm_i_json_get_int(link, place, "out_bytes_per_second", true, 1, INT64_MAX, &l->out_bytes_per_second, err));
    CKM_I_CHECK(
        ckm_i_json_get_int(link, place, "in_bytes_per_second", true, 1, INT64_MAX, &l->in_bytes_per_second, err));
    return ckm_i_json_get_int(link, place, "latency_ns", false, 0, INT64_C(1) << 40, &l->latency_ns, err);
}

ckm_status ckm_device_link_read(const char *path, ckm_device_link *out, ckm_error *err)
{
    CKM_I_NEED(path, err);
    CKM_I_NEED(out, err);
    json_t *root = NULL;
    ckm_device_link l = {.latency_ns = 0};
    ckm_status status;
    ckm_i_json_place place = ckm_i_json_root(path);
    ckm_i_json_place inner = ckm_i_json_member(&place, "link");
    CKM_I_TRY(ckm_i_json_read(path, MAX_FILE_BYTES, &root, err));
    const char *format = json_string_value(json_object_get(root, "format"));
    bool is_profile = format != NULL && strcmp(format, "checkmate-profile") == 0;
    CKM_I_TRY(ckm_i_json_check_header(root, path, is_profile ? "checkmate-profile" : "checkmate-device", err));
    if (json_object_get(root, "link") == NULL) {
        status = ckm_i_error(err, CKM_ERR_NOT_FOUND,
                             "%s has no \"link\": profiles that a link was measured for have one", path);
        goto cleanup;
    }
    CKM_I_TRY(read_link(json_object_get(root, "link"), &inner, &l, err));
    *out = l;
cleanup:
    json_decref(root);
    return status;
}
