// SPDX-License-Identifier: Apache-2.0
// The second memory of a processor: what goes out comes back, and what goes wrong says so.
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "quoted.h"
#include "run/backend/transfers.h"
#include "scratch.h"

static const ckm_i_second_memory *const second = &ckm_i_second_memory_file;

static ckm_i_transfers *open_in(const char *folder, int64_t bytes, int32_t slots)
{
    ckm_i_transfers *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    if (second->open(NULL, folder, bytes, slots, &t, &err) != CKM_OK) {
        fail_msg("%s: %s", err.file, err.message);
    }
    return t;
}

static void good(ckm_status status, const ckm_error *err)
{
    if (status != CKM_OK) {
        fail_msg("%s: %s", err->file, err->message);
    }
}

// Sizes around those of blocks and pieces, all under way at once, each from an address that no block begins at.
static void what_goes_out_comes_back(void **state)
{
    static const int64_t sizes[] = {0, 1, 31, 4095, 4096, 4097, 262143, 262144, 262145, 1000003};
    enum { N = sizeof sizes / sizeof sizes[0], ROOM = 1 << 20 };
    const scratch *s = *state;
    ckm_i_transfers *t = open_in(s->folder, (int64_t)N * ROOM, N);
    ckm_error err = CKM_ERROR_INIT;
    char *data = malloc((size_t)N * ROOM + 64);
    char *back = malloc((size_t)N * ROOM + 64);
    assert_non_null(data);
    assert_non_null(back);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < (size_t)N * ROOM + 64; i++) {
            data[i] = (char)((i * 2654435761U + (size_t)round) >> 13);
        }
        for (int32_t i = 0; i < N; i++) {
            const ckm_i_transfer what = {i, data + (size_t)i * ROOM + 3, (int64_t)i * ROOM, sizes[i]};
            good(t->begin(t, &what, true, &err), &err);
        }
        for (int32_t i = N - 1; i >= 0; i--) {
            good(t->wait(t, i, &err), &err);
        }
        memset(back, 0, (size_t)N * ROOM + 64);
        // Twice: a copy can be read as often as asked for.
        for (int again = 0; again < 2; again++) {
            for (int32_t i = 0; i < N; i++) {
                const ckm_i_transfer what = {i, back + (size_t)i * ROOM + 7, (int64_t)i * ROOM, sizes[i]};
                good(t->begin(t, &what, false, &err), &err);
            }
            for (int32_t i = 0; i < N; i++) {
                good(t->wait(t, i, &err), &err);
                assert_memory_equal(back + (size_t)i * ROOM + 7, data + (size_t)i * ROOM + 3, (size_t)sizes[i]);
                assert_int_equal(back[(size_t)i * ROOM + 7 + (size_t)sizes[i]], 0);  // and nothing behind it
            }
        }
    }
    t->settle(t);
    t->close(t);
    free(data);
    free(back);
}

static void the_file_has_no_name(void **state)
{
    const scratch *s = *state;
    ckm_i_transfers *t = open_in(s->folder, 8192, 2);
    assert_int_equal(count_files(s->folder), 0);
    t->close(t);
    assert_int_equal(count_files(s->folder), 0);
}

// A second way to the file that the process has open in the folder.
static int reopen_moved(void)
{
    DIR *open_files = opendir("/proc/self/fd");
    assert_non_null(open_files);
    int fd = -1;
    for (struct dirent *entry = readdir(open_files); entry != NULL && fd < 0; entry = readdir(open_files)) {
        char link[300];
        char path[4096];
        snprintf(link, sizeof link, "/proc/self/fd/%s", entry->d_name);
        ssize_t n = readlink(link, path, sizeof path - 1);
        path[n > 0 ? n : 0] = '\0';
        fd = strstr(path, "/.checkmate-moved-") != NULL ? open(link, O_RDWR) : -1;
    }
    closedir(open_files);
    assert_true(fd >= 0);
    return fd;
}

static ckm_status there_and_back(ckm_i_transfers *t, bool damage, ckm_error *err)
{
    static char data[20000];
    const ckm_i_transfer what = {0, data, 0, sizeof data};
    memset(data, 'x', sizeof data);
    good(t->begin(t, &what, true, err), err);
    good(t->wait(t, 0, err), err);
    int fd = reopen_moved();
    if (damage) {
        assert_int_equal(pwrite(fd, "y", 1, 12345), 1);
        assert_int_equal(fsync(fd), 0);
    } else {
        assert_int_equal(ftruncate(fd, 4096), 0);
    }
    close(fd);
    good(t->begin(t, &what, false, err), err);
    return t->wait(t, 0, err);
}

static void damaged_bytes_are_noticed(void **state)
{
    const scratch *s = *state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_transfers *t = open_in(s->folder, 1 << 16, 1);
    assert_int_equal(there_and_back(t, true, &err), CKM_ERR_IO);
    assert_error(&err, CKM_ERR_IO, "checksums differ");
    assert_string_equal(err.file, s->folder);
    // And from then on nothing is moved any more.
    char byte = 0;
    const ckm_i_transfer what = {0, &byte, 0, 1};
    assert_int_equal(t->begin(t, &what, true, &err), CKM_ERR_IO);
    t->settle(t);
    t->close(t);
}

static void a_short_file_is_noticed(void **state)
{
    const scratch *s = *state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_transfers *t = open_in(s->folder, 1 << 16, 1);
    assert_int_equal(there_and_back(t, false, &err), CKM_ERR_IO);
    assert_error(&err, CKM_ERR_IO, "in part only");
    t->close(t);
}

static void what_cannot_be_opened_says_why(void **state)
{
    const scratch *s = *state;
    ckm_i_transfers *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    char missing[200];
    snprintf(missing, sizeof missing, "%s/missing", s->folder);
    assert_int_equal(second->open(NULL, missing, 4096, 1, &t, &err), CKM_ERR_IO);
    assert_error(&err, CKM_ERR_IO, "cannot make a file for what is moved out: No such file");
    assert_string_equal(err.file, missing);
    assert_int_equal(second->open(NULL, s->folder, INT64_C(1) << 61, 1, &t, &err), CKM_ERR_IO);
    assert_error(&err, CKM_ERR_IO, "2305843009213693952 bytes for what is moved out cannot be had");
    assert_null(t);
    assert_int_equal(count_files(s->folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_goes_out_comes_back, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(the_file_has_no_name, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(damaged_bytes_are_noticed, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(a_short_file_is_noticed, scratch_set_up, scratch_tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_opened_says_why, scratch_set_up, scratch_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
