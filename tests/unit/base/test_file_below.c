// SPDX-License-Identifier: Apache-2.0
// Paths that must stay below a folder, kept there by the kernel and by our own walk: both answer alike.
#define _GNU_SOURCE  // O_PATH
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_below.h"

typedef struct tree {
    char root[64];
    int folder;  // root/inner, open
} tree;

static void put_file(const tree *t, const char *path)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", t->root, path);
    FILE *file = fopen(full, "wb");
    assert_non_null(file);
    fputs(path, file);
    assert_int_equal(fclose(file), 0);
}

static void put_folder(const tree *t, const char *path)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", t->root, path);
    assert_int_equal(mkdir(full, 0700), 0);
}

static void put_link(const tree *t, const char *to, const char *path)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", t->root, path);
    assert_int_equal(symlink(to, full), 0);
}

static int set_up(void **state)
{
    static tree t;
    char full[256];
    snprintf(t.root, sizeof t.root, "/tmp/ckm-test-below-XXXXXX");
    if (mkdtemp(t.root) == NULL) {
        return -1;
    }
    put_folder(&t, "inner");
    put_folder(&t, "inner/sub");
    put_file(&t, "secret");
    put_file(&t, "inner/file");
    put_file(&t, "inner/sub/file");
    put_link(&t, "file", "inner/to_file");
    put_link(&t, "to_file", "inner/to_link");
    put_link(&t, "sub", "inner/to_sub");
    put_link(&t, "sub/", "inner/to_sub_slash");
    put_link(&t, "../file", "inner/sub/up");
    put_link(&t, "sub/../sub/./file", "inner/winding");
    put_link(&t, "../secret", "inner/out");
    put_link(&t, "out", "inner/to_out");
    put_link(&t, "..", "inner/folder_out");
    put_link(&t, "../inner/file", "inner/out_and_in");
    snprintf(full, sizeof full, "%s/inner/file", t.root);
    put_link(&t, full, "inner/absolute");
    put_link(&t, "/proc/self/root", "inner/magic");
    put_link(&t, "loop", "inner/loop");
    put_link(&t, "nowhere", "inner/dangling");
    snprintf(full, sizeof full, "%s/inner/pipe", t.root);
    assert_int_equal(mkfifo(full, 0600), 0);
    snprintf(full, sizeof full, "%s/inner", t.root);
    t.folder = open(full, O_PATH | O_DIRECTORY);
    *state = &t;
    return t.folder >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    tree *t = *state;
    char command[128];
    close(t->folder);
    snprintf(command, sizeof command, "rm -rf '%s'", t->root);
    return system(command);
}

// What the file holds is its own path from the root; NULL: the path leads out.
static const struct {
    const char *path, *content;
} cases[] = {
    {"file", "inner/file"},
    {"./file", "inner/file"},
    {"sub//file", "inner/sub/file"},
    {"to_file", "inner/file"},
    {"to_link", "inner/file"},
    {"to_sub/file", "inner/sub/file"},
    {"to_sub_slash/file", "inner/sub/file"},
    {"sub/up", "inner/file"},
    {"winding", "inner/sub/file"},
    {"sub/../file", "inner/file"},
    {"out", NULL},
    {"to_out", NULL},
    {"folder_out/secret", NULL},
    {"folder_out/inner/file", NULL},
    {"out_and_in", NULL},
    {"absolute", NULL},
    {"magic/etc/hostname", NULL},
    {"../secret", NULL},
    {"../inner/file", NULL},
    {"/etc/hostname", NULL},
    {"sub/../../secret", NULL},
};

static void stays_below(const tree *t, ckm_i_below how)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char got[64] = "";
        int fd = -1;
        int64_t size = -1;
        ckm_error err = CKM_ERROR_INIT;
        ckm_status status = ckm_i_file_open_below(t->folder, cases[i].path, "shown", how, &fd, &size, &err);
        if (cases[i].content == NULL) {
            if (status != CKM_ERR_ARGUMENT) {
                fail_msg("%s: status %d, %s", cases[i].path, (int)status, err.message);
            }
            assert_int_equal(fd, -1);
            continue;
        }
        if (status != CKM_OK) {
            fail_msg("%s: %s", cases[i].path, err.message);
        }
        assert_int_equal(size, strlen(cases[i].content));
        assert_int_equal(read(fd, got, sizeof got - 1), size);
        assert_string_equal(got, cases[i].content);
        close(fd);
    }
}

static void other_failures(const tree *t, ckm_i_below how)
{
    static const struct {
        const char *path, *why;
    } failures[] = {
        {"missing", "cannot open: No such file"}, {"dangling", "cannot open: No such file"},
        {"file/more", "cannot open: Not a dir"},  {"loop", "cannot open: Too many levels"},
        {"pipe", "is a pipe, not a file"},        {"sub", "is a directory, not a file"},
    };
    alarm(20);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        int fd = -1;
        int64_t size = -1;
        ckm_error err = CKM_ERROR_INIT;
        assert_int_equal(ckm_i_file_open_below(t->folder, failures[i].path, "shown", how, &fd, &size, &err),
                         CKM_ERR_IO);
        assert_string_equal(err.file, "shown");
        if (strstr(err.message, failures[i].why) == NULL) {
            fail_msg("%s: %s", failures[i].path, err.message);
        }
        assert_int_equal(fd, -1);
    }
    alarm(0);
}

// No descriptor stays open, whichever way it ends.
static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void the_kernel_keeps_it(void **state)
{
    int before = open_descriptors();
    stays_below(*state, CKM_I_BELOW_KERNEL);
    other_failures(*state, CKM_I_BELOW_KERNEL);
    assert_int_equal(open_descriptors(), before);
}

static void the_walk_keeps_it(void **state)
{
    int before = open_descriptors();
    stays_below(*state, CKM_I_BELOW_WALK);
    other_failures(*state, CKM_I_BELOW_WALK);
    assert_int_equal(open_descriptors(), before);
}

// Deeper than any weights lie: an error, not a way out.
static void a_deep_path_is_an_error(void **state)
{
    const tree *t = *state;
    char path[1024] = "";
    int folder = dup(t->folder);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(mkdirat(folder, "d", 0700), 0);
        int next = openat(folder, "d", O_PATH | O_DIRECTORY);
        close(folder);
        folder = next;
        strcat(path, "d/");
    }
    close(folder);
    strcat(path, "file");
    assert_int_equal(ckm_i_below_open(t->folder, path, CKM_I_BELOW_WALK), -1);
    assert_int_equal(errno, ENAMETOOLONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_keeps_it),
        cmocka_unit_test(the_walk_keeps_it),
        cmocka_unit_test(a_deep_path_is_an_error),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
