// SPDX-License-Identifier: Apache-2.0
// Fuzz target: training data in IDX files. The first byte chooses what the network takes, the second the names and
// whether the files are the bytes that follow or have sound headers put before them.
#include <stdlib.h>
#include <string.h>

#include "support/data_read.h"
#include "support/scratch.h"

enum { MOST_FILE = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// A file of that many samples of shape `dims`, from the bytes.
static void put_built(const char *name, int rank, const int64_t *dims, data_bytes *b)
{
    static uint8_t file[MOST_FILE + 32];
    int64_t elements = 1;
    file[0] = file[1] = 0;
    file[2] = 8;
    file[3] = (uint8_t)rank;
    for (int i = 0; i < rank; i++) {
        file[4 + 4 * i] = file[5 + 4 * i] = file[6 + 4 * i] = 0;
        file[7 + 4 * i] = (uint8_t)dims[i];
        elements *= dims[i];
    }
    size_t start = 4 + 4 * (size_t)rank;
    size_t n = elements < MOST_FILE ? (size_t)elements : MOST_FILE;
    for (size_t i = 0; i < n; i++) {
        file[start + i] = data_byte(b);
    }
    scratch_put(name, file, start + n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[][2] = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
                                           {"train-images.idx3-ubyte", "train-labels.idx1-ubyte"},
                                           {"images-idx3-ubyte", "labels-idx1-ubyte"},
                                           {"train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"}};
    ckm_data_field field;
    ckm_data_options options;
    if (size < 4) {
        return 0;
    }
    data_image_options(data[0], &field, &options);
    if ((data[0] & 128) != 0) {  // what IDX files do not have
        options.labels = (ckm_data_field){"labels", CKM_F32, {1, {2}}, 0};
    }
    const char *const *files = names[data[1] / 2 % 4];
    data_bytes b = {data + 4, data + size};
    if (data[1] % 2 != 0) {
        int rank = 2 + data[2] % 3;
        const int64_t sides[] = {1, 4, 5, 9};
        const int64_t colours[] = {1, 3, 4, 2};
        int64_t samples = 1 + data_byte(&b) % 6;
        int64_t dims[4] = {samples, sides[data[2] / 4 % 4], sides[data[2] / 16 % 4], colours[data[2] / 64]};
        put_built(files[0], rank, dims, &b);
        int64_t labels = data[3] == 255 ? samples + 1 : samples;
        uint8_t few[8] = {0};
        for (int i = 0; i < 8; i++) {
            few[i] = (uint8_t)(data_byte(&b) % (data[3] % 2 != 0 ? 255 : 10));
        }
        data_bytes l = {few, few + sizeof few};
        put_built(files[1], 1, &labels, &l);
    } else {
        size_t first = (size_t)data[2] << 8 | data[3];
        first = first < size - 4 ? first : size - 4;
        scratch_put(files[0], data + 4, first);
        scratch_put(files[1], data + 4 + first, size - 4 - first);
    }
    data_open_and_read(&options);
    scratch_drop(files[0]);
    scratch_drop(files[1]);
    return 0;
}
