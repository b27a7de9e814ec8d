// SPDX-License-Identifier: Apache-2.0
// Fuzz target: the safetensors reader. The input is the file. What is accepted lies within the file, and is the same
// after it was written and read again.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "run/data/safetensors.h"
#include "support/mutate.h"
#include "support/scratch.h"

enum { HEAD = 8, MOST_TENSORS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static void require(int condition)
{
    if (!condition) {
        abort();
    }
}

// The names of the tensors: the reader gives them to those who know them.
static size_t read_names(const uint8_t *data, size_t size, json_t **root, const char **names)
{
    size_t n = 0;
    uint64_t length = 0;
    const char *name;
    json_t *entry;
    for (int i = 0; i < HEAD; i++) {
        length |= (uint64_t)data[i] << (8 * i);
    }
    *root = length <= size - HEAD ? json_loadb((const char *)data + HEAD, (size_t)length, 0, NULL) : NULL;
    json_object_foreach(*root, name, entry)
    {
        if (n < MOST_TENSORS) {
            names[n++] = name;
        }
    }
    return n;
}

static void compare(const char *path, const ckm_i_safetensor *tensors, int32_t n)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_safetensors *again = NULL;
    const ckm_i_safetensors_pair note = {"format", "fuzz"};
    require(ckm_i_safetensors_write(path, tensors, n, &note, 1, NULL, NULL, &err) == CKM_OK);
    require(ckm_i_safetensors_open(path, &again, &err) == CKM_OK);
    require(ckm_i_safetensors_count(again) == n);
    require(strcmp(ckm_i_safetensors_metadata(again, "format"), "fuzz") == 0);
    for (int32_t i = 0; i < n; i++) {
        const ckm_i_safetensor *t = ckm_i_safetensors_find(again, tensors[i].name);
        require(t != NULL && t->bytes == tensors[i].bytes && t->dtype == tensors[i].dtype);
        uint8_t *out = malloc((size_t)t->bytes + 1);
        require(out != NULL && ckm_i_safetensors_read(again, t, out, &err) == CKM_OK);
        require(memcmp(out, tensors[i].data, (size_t)t->bytes) == 0);
        free(out);
    }
    ckm_i_safetensors_close(again);
}

static void read_all(const ckm_i_safetensors *file, const uint8_t *data, size_t size)
{
    const char *names[MOST_TENSORS + 1];
    ckm_i_safetensor found[MOST_TENSORS];
    json_t *root = NULL;
    char path[192];
    int32_t n = 0;
    size_t n_names = read_names(data, size, &root, names);
    names[n_names] = "no such tensor";
    (void)ckm_i_safetensors_metadata(file, "format");
    for (size_t i = 0; i <= n_names; i++) {
        ckm_error err = CKM_ERROR_INIT;
        const ckm_i_safetensor *t = ckm_i_safetensors_find(file, names[i]);
        if (t == NULL) {
            continue;
        }
        require(t->bytes >= 0 && t->bytes <= (int64_t)size && t->shape.rank >= 0 && t->shape.rank <= CKM_MAX_RANK);
        void *out = malloc((size_t)t->bytes + 1);
        require(out != NULL && ckm_i_safetensors_read(file, t, out, &err) == CKM_OK);
        found[n] = *t;
        found[n++].data = out;
    }
    require(n == ckm_i_safetensors_count(file) || n_names == MOST_TENSORS);
    strcpy(path, scratch_path("again.safetensors"));
    compare(path, found, n);
    scratch_drop("again.safetensors");
    for (int32_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)found[i].data);
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_safetensors *file = NULL;
    ckm_status status = ckm_i_safetensors_open(scratch_put("x.safetensors", data, size), &file, &err);
    require((status == CKM_OK) == (file != NULL) && (status == CKM_OK || err.message[0] != '\0'));
    if (file != NULL) {
        read_all(file, data, size);
        ckm_i_safetensors_close(file);
    }
    scratch_drop("x.safetensors");
    return 0;
}

// The header changed as JSON, its length put right, and as much data behind it as before.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    static const char *const words[] = {
        "__metadata__", "dtype", "shape", "data_offsets", "F32", "F16", "BF16", "F64",    "I8",           "U8",
        "I16",          "I32",   "I64",   "BOOL",         "a",   "b",   "w",    "format", "conv1/kernel", NULL};
    uint64_t state = seed;
    uint64_t length = 0;
    for (size_t i = 0; i < HEAD && i < size; i++) {
        length |= (uint64_t)data[i] << (8 * i);
    }
    if (size < HEAD || length > size - HEAD || mutate_pick(&state, 4) == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    size_t rest = size - HEAD - (size_t)length;
    size_t n = (size_t)length;
    uint8_t *header = malloc(max_size + 1);
    require(header != NULL);
    memcpy(header, data + HEAD, n);
    if (HEAD + rest < max_size && mutate_json(header, &n, max_size - HEAD - rest, words, &state)) {
        memmove(data + HEAD + n, data + HEAD + length, rest);
        memcpy(data + HEAD, header, n);
        for (int i = 0; i < HEAD; i++) {
            data[i] = (uint8_t)((uint64_t)n >> (8 * i));
        }
        size = HEAD + n + rest;
    } else {
        size = LLVMFuzzerMutate(data, size, max_size);
    }
    free(header);
    return size;
}
