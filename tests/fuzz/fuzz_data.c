// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the readers of training data. The first byte chooses the format, the second and third how much of the rest
// is the first of two files; what is accepted is read as a batch.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <checkmate/data.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// The files of every format; a second name of NULL gives everything to the first.
static const char *const names[][2] = {
    {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"},
    {"data_batch_1.bin", NULL},
    {"x.npy", "y.npy"},
    {"a/0.png", NULL},
    {"a/0.jpg", NULL},
};
enum { N_FORMATS = sizeof names / sizeof names[0] };

static void put(const char *folder, const char *name, const uint8_t *data, size_t size)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        fwrite(data, 1, size, file);
        fclose(file);
    }
}

static void drop(const char *folder, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    remove(path);
}

static void open_and_read(const char *folder)
{
    const ckm_data_field image = {"image", CKM_F32, {3, {4, 4, 3}}, 0};
    ckm_data_options options = CKM_DATA_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_data *opened = NULL;
    float pixels[4 * 4 * 3];
    int32_t label = -1;
    void *inputs[] = {pixels};
    options.n_inputs = 1;
    options.inputs = &image;
    options.labels.limit = 10;
    options.resize = true;
    ckm_status status = ckm_data_open(folder, &options, &opened, &err);
    if ((status == CKM_OK) != (opened != NULL) || (status != CKM_OK && err.message[0] == '\0')) {
        abort();
    }
    if (opened != NULL) {
        status = ckm_data_fetch(opened, 0, inputs, &label, &err);
        // Labels that the network does not have never get through (-1 stands for none).
        if ((status == CKM_OK && (label < -1 || label >= 10)) || (status != CKM_OK && err.message[0] == '\0')) {
            abort();
        }
        ckm_data_close(opened);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/ckm_fuzz_data_XXXXXX";
    if (size < 3 || mkdtemp(folder) == NULL) {
        return 0;
    }
    const char *const *files = names[data[0] % N_FORMATS];
    size_t first = files[1] != NULL ? (size_t)data[1] << 8 | data[2] : size;
    first = first < size - 3 ? first : size - 3;
    char inner[64];
    snprintf(inner, sizeof inner, "%s/a", folder);
    if (strchr(files[0], '/') != NULL && mkdir(inner, 0700) != 0) {
        return 0;
    }
    put(folder, files[0], data + 3, first);
    if (files[1] != NULL) {
        put(folder, files[1], data + 3 + first, size - 3 - first);
    }
    open_and_read(folder);
    drop(folder, files[0]);
    if (files[1] != NULL) {
        drop(folder, files[1]);
    }
    rmdir(inner);
    rmdir(folder);
    return 0;
}
