// SPDX-License-Identifier: Apache-2.0
// safetensors: what is written is read back, and files that lie are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data_files.h"
#include "run/data/safetensors.h"

typedef struct fixture {
    char folder[64], path[128];
    ckm_error err;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    data_files_folder(f.folder, sizeof f.folder);
    snprintf(f.path, sizeof f.path, "%s/weights", f.folder);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    data_files_remove(f->folder);
    return 0;
}

static void there_and_back(void **state)
{
    fixture *f = *state;
    const float a[] = {1, -2.5F, 3e-30F, 0, 5, 6};
    const int64_t b[] = {INT64_MIN, 7};
    const uint8_t c[] = {1, 2, 3};
    const float d[] = {42};
    float back[6];
    const ckm_i_safetensor tensors[] = {
        {"block/\"conv\":w", CKM_F32, {2, {2, 3}}, sizeof a, a, 0, 0},
        {"c", CKM_U8, {1, {3}}, sizeof c, c, 0, 0},
        {"größe", CKM_I64, {1, {2}}, sizeof b, b, 0, 0},
        {"scalar", CKM_F32, {0, {0}}, sizeof d, d, 0, 0},
        {"empty", CKM_F32, {2, {0, 4}}, 0, a, 0, 0},
    };
    const ckm_i_safetensors_pair metadata[] = {{"step", "12"}, {"note", "a \"quoted\"\nline"}};
    ckm_i_safetensors *file = NULL;
    assert_int_equal(ckm_i_safetensors_write(f->path, tensors, 5, metadata, 2, NULL, NULL, &f->err), CKM_OK);
    if (ckm_i_safetensors_open(f->path, &file, &f->err) != CKM_OK) {
        fail_msg("%s", f->err.message);
    }
    assert_int_equal(ckm_i_safetensors_count(file), 5);
    assert_string_equal(ckm_i_safetensors_metadata(file, "step"), "12");
    assert_string_equal(ckm_i_safetensors_metadata(file, "note"), "a \"quoted\"\nline");
    assert_null(ckm_i_safetensors_metadata(file, "else"));
    assert_null(ckm_i_safetensors_find(file, "nothing"));
    for (int i = 0; i < 5; i++) {
        const ckm_i_safetensor *t = ckm_i_safetensors_find(file, tensors[i].name);
        assert_non_null(t);
        assert_int_equal(t->dtype, tensors[i].dtype);
        assert_int_equal(t->shape.rank, tensors[i].shape.rank);
        assert_int_equal(t->bytes, tensors[i].bytes);
        assert_memory_equal(t->shape.dims, tensors[i].shape.dims, (size_t)t->shape.rank * sizeof t->shape.dims[0]);
        assert_int_equal(ckm_i_safetensors_read(file, t, back, &f->err), CKM_OK);
        assert_memory_equal(back, tensors[i].data, (size_t)t->bytes);
        // Aligned in the file, so that others can map it.
        assert_int_equal(t->at % (t->dtype == CKM_I64 ? 8 : t->dtype == CKM_F32 ? 4 : 1), 0);
    }
    ckm_i_safetensors_close(file);
}

// A disk that is full: the error says so and the file from before is untouched.
static void full_disk(void **state)
{
    fixture *f = *state;
    const float a[] = {1};
    const ckm_i_safetensor tensor = {"a", CKM_F32, {1, {1}}, sizeof a, a, 0, 0};
    assert_int_equal(ckm_i_safetensors_write("/dev/full", &tensor, 1, NULL, 0, NULL, NULL, &f->err), CKM_ERR_IO);
    assert_non_null(strstr(f->err.message, "No space left"));
    assert_int_equal(ckm_i_safetensors_write(f->path, &tensor, 1, NULL, 0, NULL, NULL, &f->err), CKM_OK);
    struct stat before;
    struct stat after;
    assert_int_equal(stat(f->path, &before), 0);
    if (geteuid() != 0) {  // root writes everywhere
        assert_int_equal(chmod(f->folder, 0500), 0);
        assert_int_equal(ckm_i_safetensors_write(f->path, &tensor, 1, NULL, 0, NULL, NULL, &f->err), CKM_ERR_IO);
        assert_int_equal(chmod(f->folder, 0700), 0);
    }
    assert_int_equal(stat(f->path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

// Writes a file with this header and `data` bytes of data; `claimed` is the header's size (-1: the true one).
static void write_file(const fixture *f, const char *header, long long claimed, size_t data)
{
    uint8_t bytes[4096] = {0};
    size_t n = strlen(header);
    uint64_t size = claimed >= 0 ? (uint64_t)claimed : n;
    assert_true(n + 8 + data <= sizeof bytes);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(size >> (8 * i));
    }
    memcpy(bytes + 8, header, n);
    data_files_write(f->folder, "weights", bytes, 8 + n + data);
}

static void hostile_files(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *header;
        long long claimed;
        size_t data;
        const char *why;
    } cases[] = {
        {"", -1, 0, "not valid JSON"},
        {"{", -1, 0, "not valid JSON"},
        {"[]", -1, 0, "must be an object"},
        {"{}", 0x7fffffffffffffffLL, 0, "its header would have"},
        {"{}", 100, 0, "its header would have"},
        {"{}", -1, 4, "belong to no tensor"},
        {"{\"a\":1}", -1, 4, "a: must be an object"},
        {"{\"__metadata__\":[]}", -1, 0, "must be an object"},
        {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", -1, 4, "dtype \"F31\""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", -1, 4, "do not hold the tensor's shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", -1, 4, "a.data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", -1, 4, "a.data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", -1, 4, "a.shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", -1, 4, "must be two numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,4]}}", -1, 4, ""},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", -1, 4, "dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", -1, 8, "leaves a gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         -1, 8, "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         -1, 8, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_i_safetensors *file = NULL;
        write_file(f, cases[i].header, cases[i].claimed, cases[i].data);
        ckm_status status = ckm_i_safetensors_open(f->path, &file, &f->err);
        if (status == CKM_OK || strstr(f->err.message, cases[i].why) == NULL) {
            fail_msg("case %d: got \"%s\", expected \"%s\"", (int)i, f->err.message, cases[i].why);
        }
        assert_null(file);
        assert_string_equal(f->err.file, f->path);
    }
    data_files_write(f->folder, "weights", "\1\2\3", 3);
    ckm_i_safetensors *file = NULL;
    assert_int_equal(ckm_i_safetensors_open(f->path, &file, &f->err), CKM_ERR_FORMAT);
    assert_int_equal(ckm_i_safetensors_open("/nowhere/at/all", &file, &f->err), CKM_ERR_IO);
    assert_int_equal(ckm_i_safetensors_open(f->folder, &file, &f->err), CKM_ERR_IO);
}

// Every prefix of a sound file is refused, and none makes trouble.
static void cut_off(void **state)
{
    fixture *f = *state;
    const float a[] = {1, 2, 3, 4};
    const ckm_i_safetensor tensor = {"a", CKM_F32, {1, {4}}, sizeof a, a, 0, 0};
    uint8_t bytes[1024];
    assert_int_equal(ckm_i_safetensors_write(f->path, &tensor, 1, NULL, 0, NULL, NULL, &f->err), CKM_OK);
    FILE *file = fopen(f->path, "rb");
    assert_non_null(file);
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (size_t k = 0; k < n; k++) {
        ckm_i_safetensors *opened = NULL;
        data_files_write(f->folder, "weights", bytes, k);
        assert_int_equal(ckm_i_safetensors_open(f->path, &opened, &f->err), CKM_ERR_FORMAT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(there_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(full_disk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hostile_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cut_off, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
