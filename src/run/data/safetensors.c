// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files.
#include "run/data/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/graph.h"
#include "run/data/data.h"

// The format's own limit on headers.
static const int64_t max_header_bytes = 100 * 1000 * 1000;

static const struct {
    const char *name;
    ckm_dtype dtype;
} types[] = {
    {"F32", CKM_F32}, {"F16", CKM_F16}, {"BF16", CKM_BF16}, {"F64", CKM_F64}, {"I8", CKM_I8},
    {"U8", CKM_U8},   {"I16", CKM_I16}, {"I32", CKM_I32},   {"I64", CKM_I64}, {"BOOL", CKM_BOOL},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

// Writing.

static const char *type_name(ckm_dtype dtype)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == dtype) {
            return types[i].name;
        }
    }
    return "U8";
}

// Tensors of eight-byte elements come first, then those of four, and so on: every one is aligned in the file.
static const int64_t sizes_in_order[] = {8, 4, 2, 1};
enum { N_SIZES = sizeof sizes_in_order / sizeof sizes_in_order[0] };

static void write_entries(const ckm_i_safetensor *tensors, int32_t n, FILE *to)
{
    int64_t at = 0;
    for (int s = 0; s < N_SIZES; s++) {
        for (int32_t i = 0; i < n; i++) {
            const ckm_i_safetensor *t = &tensors[i];
            if (ckm_i_dtype_bytes(t->dtype) != sizes_in_order[s]) {
                continue;
            }
            putc(',', to);
            ckm_json_write_text(to, t->name);
            fprintf(to, ":{\"dtype\":\"%s\",\"shape\":[", type_name(t->dtype));
            for (int32_t d = 0; d < t->shape.rank; d++) {
                fprintf(to, "%s%lld", d > 0 ? "," : "", (long long)t->shape.dims[d]);
            }
            int64_t end = at + t->bytes;
            fprintf(to, "],\"data_offsets\":[%lld,%lld]}", (long long)at, (long long)end);
            at = end;
        }
    }
}

static ckm_status write_values(const ckm_i_safetensor *t, ckm_i_safetensors_source source, void *user, FILE *to,
                               ckm_error *err)
{
    char piece[16 << 10];
    if (t->data != NULL) {
        fwrite(t->data, 1, (size_t)t->bytes, to);
        return CKM_OK;
    }
    for (int64_t at = 0; at < t->bytes; at += (int64_t)sizeof piece) {
        int64_t left = t->bytes - at;
        int64_t n = left < (int64_t)sizeof piece ? left : (int64_t)sizeof piece;
        CKM_I_CHECK(source(user, t, at, n, piece, err));
        fwrite(piece, 1, (size_t)n, to);
    }
    return CKM_OK;
}

static ckm_status write_all_values(const ckm_i_safetensor *tensors, int32_t n, ckm_i_safetensors_source source,
                                   void *user, FILE *to, ckm_error *err)
{
    for (int s = 0; s < N_SIZES; s++) {
        for (int32_t i = 0; i < n; i++) {
            if (ckm_i_dtype_bytes(tensors[i].dtype) == sizes_in_order[s]) {
                CKM_I_CHECK(write_values(&tensors[i], source, user, to, err));
            }
        }
    }
    return CKM_OK;
}

// More than the header can take: every byte of a name as an escape of six, every number with all its digits.
static size_t header_room(const ckm_i_safetensor *tensors, int32_t n_tensors, const ckm_i_safetensors_pair *metadata,
                          int32_t n_metadata)
{
    size_t room = 64;
    for (int32_t i = 0; i < n_metadata; i++) {
        room += 6 * (strlen(metadata[i].key) + strlen(metadata[i].value)) + 16;
    }
    for (int32_t i = 0; i < n_tensors; i++) {
        room += 6 * strlen(tensors[i].name) + 128 + 24 * (size_t)tensors[i].shape.rank;
    }
    return room;
}

// The header as text, its length a multiple of eight. Into a buffer of our own: a stream that grows one loses its head
// when it cannot.
static ckm_status make_header(const ckm_i_safetensor *tensors, int32_t n_tensors,
                              const ckm_i_safetensors_pair *metadata, int32_t n_metadata, char **out, size_t *size,
                              ckm_error *err)
{
    size_t room = header_room(tensors, n_tensors, metadata, n_metadata);
    char *text = ckm_i_malloc(room, 1);
    FILE *stream = text != NULL ? fmemopen(text, room, "w") : NULL;
    if (stream == NULL) {
        free(text);
        return ckm_i_error_memory(err);
    }
    fputs("{\"__metadata__\":{", stream);
    for (int32_t i = 0; i < n_metadata; i++) {
        if (i > 0) {
            putc(',', stream);
        }
        ckm_json_write_text(stream, metadata[i].key);
        putc(':', stream);
        ckm_json_write_text(stream, metadata[i].value);
    }
    putc('}', stream);
    write_entries(tensors, n_tensors, stream);
    putc('}', stream);
    fflush(stream);
    long length = ftell(stream);
    for (; length > 0 && length % 8 != 0; length++) {
        putc(' ', stream);
    }
    bool failed = length <= 0 || fflush(stream) != 0 || ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(text);
        return ckm_i_error_memory(err);
    }
    *out = text;
    *size = (size_t)length;
    return CKM_OK;
}

ckm_status ckm_i_safetensors_write(const char *path, const ckm_i_safetensor *tensors, int32_t n_tensors,
                                   const ckm_i_safetensors_pair *metadata, int32_t n_metadata,
                                   ckm_i_safetensors_source source, void *user, ckm_error *err)
{
    ckm_i_writer writer = {0};
    char *header = NULL;
    size_t header_bytes = 0;
    uint8_t length[8];
    CKM_I_CHECK(make_header(tensors, n_tensors, metadata, n_metadata, &header, &header_bytes, err));
    ckm_status status = CKM_OK;
    CKM_I_TRY(ckm_i_writer_open(&writer, path, err));
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
    }
    fwrite(length, 1, sizeof length, writer.stream);
    fwrite(header, 1, header_bytes, writer.stream);
    CKM_I_TRY(write_all_values(tensors, n_tensors, source, user, writer.stream, err));
    CKM_I_TRY(ckm_i_writer_commit(&writer, err));
cleanup:
    ckm_i_writer_abort(&writer);
    free(header);
    return status;
}

// Reading.

struct ckm_i_safetensors {
    char *path;
    int fd;
    json_t *metadata;  // NULL: none
    ckm_i_safetensor *tensors;
    char **names;  // of the tensors
    int32_t n, cap, n_names, cap_names;
};

void ckm_i_safetensors_close(ckm_i_safetensors *f)
{
    if (f == NULL) {
        return;
    }
    if (f->fd >= 0) {
        close(f->fd);
    }
    json_decref(f->metadata);
    for (int32_t i = 0; i < f->n_names; i++) {
        free(f->names[i]);
    }
    free(f->names);
    free(f->tensors);
    free(f->path);
    free(f);
}

static ckm_status read_shape(const json_t *entry, const ckm_i_json_place *place, ckm_i_safetensor *t, ckm_error *err)
{
    const json_t *shape = NULL;
    ckm_i_json_place list = ckm_i_json_member(place, "shape");
    CKM_I_CHECK(ckm_i_json_get_array(entry, place, "shape", true, &shape, err));
    if (json_array_size(shape) > CKM_MAX_RANK) {
        return ckm_i_json_error(err, &list, "more than %d dimensions", CKM_MAX_RANK);
    }
    for (size_t i = 0; i < json_array_size(shape); i++) {
        ckm_i_json_place element = ckm_i_json_element(&list, i);
        CKM_I_CHECK(ckm_i_json_int(json_array_get(shape, i), &element, 0, INT64_MAX, &t->shape.dims[i], err));
        t->shape.rank++;
    }
    return CKM_OK;
}

static ckm_status read_type(const json_t *entry, const ckm_i_json_place *place, ckm_i_safetensor *t, ckm_error *err)
{
    const char *text = NULL;
    CKM_I_CHECK(ckm_i_json_get_text(entry, place, "dtype", true, &text, err));
    for (int i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].name, text) == 0) {
            t->dtype = types[i].dtype;
            return CKM_OK;
        }
    }
    return ckm_i_json_error(err, place, "dtype \"%.20s\" is not known", text);
}

static ckm_status read_entry(const json_t *entry, const ckm_i_json_place *place, int64_t data_bytes,
                             ckm_i_safetensor *t, ckm_error *err)
{
    const json_t *offsets = NULL;
    ckm_i_json_place list = ckm_i_json_member(place, "data_offsets");
    int64_t begin = 0;
    int64_t end = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
    ckm_status status;
    if (!json_is_object(entry)) {
        return ckm_i_json_error(err, place, "must be an object");
    }
    CKM_I_TRY(read_type(entry, place, t, err));
    CKM_I_TRY(read_shape(entry, place, t, err));
    CKM_I_TRY(ckm_i_json_get_array(entry, place, "data_offsets", true, &offsets, err));
    if (json_array_size(offsets) != 2) {
        return ckm_i_json_error(err, &list, "must be two numbers");
    }
    CKM_I_TRY(ckm_i_json_int(json_array_get(offsets, 0), &list, 0, data_bytes, &begin, err));
    CKM_I_TRY(ckm_i_json_int(json_array_get(offsets, 1), &list, begin, data_bytes, &end, err));
    CKM_I_TRY(ckm_i_shape_elements(&t->shape, &elements, err));
    if (!ckm_i_mul(elements, ckm_i_dtype_bytes(t->dtype), &bytes) || bytes != end - begin) {
        return ckm_i_json_error(err, &list, "%lld bytes do not hold the tensor's shape", (long long)(end - begin));
    }
    t->at = begin;
    t->bytes = bytes;
cleanup:
    return status;
}

static int by_place(const void *a, const void *b)
{
    const ckm_i_safetensor *x = a;
    const ckm_i_safetensor *y = b;
    if (x->at != y->at) {
        return x->at < y->at ? -1 : 1;
    }
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const ckm_i_safetensor *)a)->name, ((const ckm_i_safetensor *)b)->name);
}

// All of the data belongs to exactly one tensor.
static ckm_status check_cover(const ckm_i_safetensors *f, int64_t data_bytes, ckm_error *err)
{
    int64_t at = 0;
    for (int32_t i = 0; i < f->n; i++) {
        if (f->tensors[i].at != at) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1, "tensor \"%.200s\" %s", f->tensors[i].name,
                                  f->tensors[i].at < at ? "overlaps another" : "leaves a gap before it");
        }
        at += f->tensors[i].bytes;
    }
    if (at != data_bytes) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1, "%lld bytes at the end belong to no tensor",
                              (long long)(data_bytes - at));
    }
    return CKM_OK;
}

typedef struct header {
    ckm_i_safetensors *file;
    int64_t data_bytes;
} header;

static ckm_status take_member(const char *name, json_t *entry, void *user, ckm_error *err)
{
    header *h = user;
    ckm_i_safetensors *f = h->file;
    ckm_i_json_place root = ckm_i_json_root(f->path);
    ckm_i_json_place place = ckm_i_json_member(&root, name);
    if (strcmp(name, "__metadata__") == 0) {
        if (!json_is_object(entry)) {
            return ckm_i_json_error(err, &place, "must be an object");
        }
        if (f->metadata != NULL) {
            return ckm_i_json_error(err, &root, "not valid JSON: duplicate object key \"%s\"", name);
        }
        f->metadata = json_incref(entry);
        return CKM_OK;
    }
    if (!CKM_I_GROW(f->tensors, f->n, f->cap) || !CKM_I_GROW(f->names, f->n_names, f->cap_names)) {
        return ckm_i_error_memory(err);
    }
    ckm_i_safetensor *t = &f->tensors[f->n];
    *t = (ckm_i_safetensor){.name = NULL};
    CKM_I_CHECK(read_entry(entry, &place, h->data_bytes, t, err));
    char *copy = ckm_i_strdup(name);
    if (copy == NULL) {
        return ckm_i_error_memory(err);
    }
    f->names[f->n_names++] = copy;
    t->name = copy;
    f->n++;
    return CKM_OK;
}

static ckm_status read_entries(ckm_i_safetensors *f, const char *text, size_t size_bytes, int64_t data_at,
                               int64_t data_bytes, ckm_error *err)
{
    header h = {f, data_bytes};
    CKM_I_CHECK(ckm_i_json_members(text, size_bytes, f->path, take_member, &h, err));
    if (f->n > 0) {
        qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_name);
    }
    for (int32_t i = 1; i < f->n; i++) {
        if (strcmp(f->tensors[i - 1].name, f->tensors[i].name) == 0) {
            return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, -1,
                                  "not valid JSON: duplicate object key \"%.200s\"", f->tensors[i].name);
        }
    }
    if (f->n > 0) {
        qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_place);
    }
    CKM_I_CHECK(check_cover(f, data_bytes, err));
    if (f->n > 0) {
        qsort(f->tensors, (size_t)f->n, sizeof *f->tensors, by_name);
    }
    for (int32_t i = 0; i < f->n; i++) {
        f->tensors[i].at += data_at;
    }
    return CKM_OK;
}

static ckm_status read_header(ckm_i_safetensors *f, int64_t size, ckm_error *err)
{
    uint8_t length[8];
    uint64_t header_bytes = 0;
    if (size < 8) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, 0, "is not a safetensors file: it has %lld bytes",
                              (long long)size);
    }
    CKM_I_CHECK(ckm_i_data_pread(f->fd, f->path, 0, 8, length, err));
    for (int i = 0; i < 8; i++) {
        header_bytes |= (uint64_t)length[i] << (8 * i);
    }
    if (header_bytes > (uint64_t)max_header_bytes || (int64_t)header_bytes > size - 8) {
        return ckm_i_error_at(err, CKM_ERR_FORMAT, f->path, 0, 0,
                              "is not a safetensors file: its header would have %llu bytes",
                              (unsigned long long)header_bytes);
    }
    ckm_status status = CKM_OK;
    int64_t data_at = 8 + (int64_t)header_bytes;
    char *text = ckm_i_malloc((size_t)header_bytes, 1);
    if (text == NULL) {
        return ckm_i_error_memory(err);
    }
    CKM_I_TRY(ckm_i_data_pread(f->fd, f->path, 8, (int64_t)header_bytes, text, err));
    CKM_I_TRY(read_entries(f, text, (size_t)header_bytes, data_at, size - data_at, err));
cleanup:
    free(text);
    return status;
}

ckm_status ckm_i_safetensors_open(const char *path, ckm_i_safetensors **out, ckm_error *err)
{
    int64_t size = 0;
    ckm_i_safetensors *f = ckm_i_calloc(1, sizeof *f);
    if (f == NULL) {
        return ckm_i_error_memory(err);
    }
    f->fd = -1;
    f->path = ckm_i_strdup(path);
    ckm_status status = CKM_OK;
    if (f->path == NULL) {
        status = ckm_i_error_memory(err);
        goto cleanup;
    }
    CKM_I_TRY(ckm_i_file_open(path, &f->fd, &size, err));
    CKM_I_TRY(read_header(f, size, err));
    *out = f;
    f = NULL;
cleanup:
    ckm_i_safetensors_close(f);
    return ckm_i_error_in_file(err, status, path);
}

int32_t ckm_i_safetensors_count(const ckm_i_safetensors *f)
{
    return f->n;
}

const ckm_i_safetensor *ckm_i_safetensors_at(const ckm_i_safetensors *f, int32_t i)
{
    return &f->tensors[i];
}

const ckm_i_safetensor *ckm_i_safetensors_find(const ckm_i_safetensors *f, const char *name)
{
    ckm_i_safetensor key = {.name = name};
    return f->n > 0 ? bsearch(&key, f->tensors, (size_t)f->n, sizeof *f->tensors, by_name) : NULL;
}

const char *ckm_i_safetensors_metadata(const ckm_i_safetensors *f, const char *key)
{
    return json_string_value(json_object_get(f->metadata, key));
}

void ckm_i_safetensors_each_pair(const ckm_i_safetensors *f,
                                 void (*take)(void *user, const char *key, const char *value), void *user)
{
    const char *key;
    json_t *value;
    json_object_foreach(f->metadata, key, value)
    {
        if (json_is_string(value)) {
            take(user, key, json_string_value(value));
        }
    }
}

ckm_status ckm_i_safetensors_read_part(const ckm_i_safetensors *f, const ckm_i_safetensor *tensor, int64_t at,
                                       int64_t bytes, void *out, ckm_error *err)
{
    return ckm_i_data_pread(f->fd, f->path, tensor->at + at, bytes, out, err);
}

ckm_status ckm_i_safetensors_read(const ckm_i_safetensors *f, const ckm_i_safetensor *tensor, void *out, ckm_error *err)
{
    return ckm_i_data_pread(f->fd, f->path, tensor->at, tensor->bytes, out, err);
}
