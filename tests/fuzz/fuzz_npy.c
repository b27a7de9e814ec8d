// SPDX-License-Identifier: Apache-2.0
// Fuzz target: training data in .npy files. The first byte chooses what the network takes, the second whether the files
// are the bytes that follow or are put together from them: type, shape, version, data.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/data_read.h"
#include "support/scratch.h"

enum { MOST_FILE = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A sound header and as much data as it announces, up to a limit, from the bytes.
static void put_built(const char *name, int64_t samples, data_bytes *b)
{
    static const char *const types[] = {"<f4", "<f8", "|u1", "|i1", "|b1", "<u2",
                                        "<i2", "<u4", "<i4", "<i8", ">f4", "<c8"};
    static const int sizes[] = {4, 8, 1, 1, 1, 2, 2, 4, 4, 8, 4, 8};
    static uint8_t file[MOST_FILE + 512];
    char shape[160];
    char header[512];
    uint32_t type = data_byte(b) % 12;
    int version = 1 + data_byte(b) % 3;
    int rank = data_byte(b) % 5;
    int64_t elements = samples;
    int used = snprintf(shape, sizeof shape, "%lld,", (long long)samples);
    for (int i = 0; i < rank; i++) {
        int dim = 1 + data_byte(b) % 6;
        elements *= dim;
        used += snprintf(shape + used, sizeof shape - (size_t)used, " %d,", dim);
    }
    int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", types[type],
                     data_byte(b) == 255 ? "True" : "False", shape);
    size_t start = version == 1 ? 10 : 12;
    memcpy(file, "\x93NUMPY", 6);
    file[6] = (uint8_t)version;
    file[7] = 0;
    file[8] = (uint8_t)n;
    file[9] = (uint8_t)(n >> 8);
    file[10] = file[11] = 0;
    memcpy(file + start, header, (size_t)n);
    size_t bytes = (size_t)elements * (size_t)sizes[type];
    bytes = bytes < MOST_FILE ? bytes : MOST_FILE;
    for (size_t i = 0; i < bytes; i++) {
        // Small numbers, little-endian, so that some are labels.
        file[start + (size_t)n + i] = i % (size_t)sizes[type] == 0 ? data_byte(b) % 12 : 0;
    }
    scratch_put(name, file, start + (size_t)n + bytes);
}

static void choose(uint8_t choice, ckm_data_field *fields, ckm_data_options *o)
{
    data_image_options((uint8_t)(choice >> 4), fields, o);
    o->resize = (choice & 64) != 0;
    o->batch = 1 + (choice >> 7);
    switch (choice & 3) {
    case 0:
        break;
    case 1:
        fields[0] = (ckm_data_field){"x", CKM_F32, {1, {5}}, 0};
        break;
    case 2:
        fields[0] = (ckm_data_field){"x", CKM_I32, {1, {4}}, (choice & 16) != 0 ? 7 : 0};
        break;
    default:
        fields[0] = (ckm_data_field){"a", CKM_F32, {1, {3}}, 0};
        fields[1] = (ckm_data_field){"b", CKM_I64, {1, {2}}, 0};
        o->n_inputs = 2;
    }
    switch (choice >> 2 & 3) {
    case 0:
        o->labels = (ckm_data_field){"labels", CKM_I32, {0}, 10};
        break;
    case 1:
        o->labels = (ckm_data_field){"labels", CKM_I32, {0}, 0};
        break;
    case 2:
        o->labels = (ckm_data_field){"labels", CKM_F32, {1, {2}}, 0};
        break;
    default:
        o->labels = (ckm_data_field){"labels", CKM_I32, {2, {2, 2}}, 4};
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[][2] = {
        {"x.npy", "y.npy"}, {"x_train.npy", "y_train.npy"}, {"images.npy", "labels.npy"}};
    ckm_data_field fields[2];
    ckm_data_options options;
    if (size < 4) {
        return 0;
    }
    choose(data[0], fields, &options);
    const char *const *files = names[data[1] / 2 % 3];
    const char *input = options.n_inputs == 2 ? "a.npy" : files[0];
    data_bytes b = {data + 4, data + size};
    if (data[1] % 2 != 0) {
        int64_t samples = 1 + data[2] % 4;
        put_built(input, samples, &b);
        put_built(files[1], data[3] == 255 ? samples + 1 : samples, &b);
        put_built("b.npy", samples, &b);
    } else {
        size_t first = (size_t)data[2] << 8 | data[3];
        first = first < size - 4 ? first : size - 4;
        scratch_put(input, data + 4, first);
        scratch_put(files[1], data + 4 + first, size - 4 - first);
        scratch_put("b.npy", data + 4, first);
    }
    data_open_and_read(&options);
    scratch_drop(input);
    scratch_drop(files[1]);
    scratch_drop("b.npy");
    return 0;
}
