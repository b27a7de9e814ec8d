// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the safetensors reader. The input is the file.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_one(const ckm_i_safetensors *file, const char *name, int64_t most)
{
    const ckm_i_safetensor *tensor = ckm_i_safetensors_find(file, name);
    ckm_error err = CKM_ERROR_INIT;
    if (tensor == NULL) {
        return;
    }
    // What the reader accepts lies within the file.
    if (tensor->bytes < 0 || tensor->bytes > most || tensor->shape.rank < 0 || tensor->shape.rank > CKM_MAX_RANK) {
        abort();
    }
    void *out = malloc(tensor->bytes > 0 ? (size_t)tensor->bytes : 1);
    if (out != NULL && ckm_i_safetensors_read(file, tensor, out, &err) != CKM_OK) {
        abort();
    }
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/ckm_fuzz_safetensors_XXXXXX";
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_safetensors *file = NULL;
    int fd = mkstemp(path);
    if (fd < 0) {
        return 0;
    }
    bool whole = write(fd, data, size) == (ssize_t)size;
    close(fd);
    if (whole) {
        ckm_status status = ckm_i_safetensors_open(path, &file, &err);
        if ((status == CKM_OK) != (file != NULL) || (status != CKM_OK && err.message[0] == '\0')) {
            abort();
        }
    }
    if (file != NULL) {
        static const char *const names[] = {"a", "b", "w", "conv1/kernel", ""};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            read_one(file, names[i], (int64_t)size);
        }
        (void)ckm_i_safetensors_metadata(file, "format");
        if (ckm_i_safetensors_count(file) < 0) {
            abort();
        }
        ckm_i_safetensors_close(file);
    }
    unlink(path);
    return 0;
}
