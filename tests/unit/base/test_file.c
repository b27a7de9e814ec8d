// SPDX-License-Identifier: Apache-2.0
// Reading whole files; writing that leaves the old file or the complete new one, whatever happens.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

typedef struct scratch {
    char folder[64], path[128];
} scratch;

static int set_up(void **state)
{
    static scratch here;
    snprintf(here.folder, sizeof here.folder, "/tmp/ckm-test-file-XXXXXX");
    if (mkdtemp(here.folder) == NULL) {
        return -1;
    }
    snprintf(here.path, sizeof here.path, "%s/out.json", here.folder);
    *state = &here;
    return 0;
}

// Files in the folder, whatever their names: a temporary that was left behind counts.
static int count_files(const char *folder)
{
    int count = 0;
    DIR *open = opendir(folder);
    assert_non_null(open);
    for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 ? 1 : 0;
    }
    closedir(open);
    return count;
}

static int tear_down(void **state)
{
    scratch *here = *state;
    chmod(here->folder, 0700);
    DIR *open = opendir(here->folder);
    if (open == NULL) {
        return -1;
    }
    for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", here->folder, entry->d_name);
        unlink(path);
    }
    closedir(open);
    return rmdir(here->folder);
}

static void write_plain(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void assert_content(const char *path, const char *text)
{
    char *data = NULL;
    size_t size = 0;
    ckm_error err;
    if (ckm_i_file_read(path, 1 << 20, &data, &size, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(size, strlen(text));
    assert_string_equal(data, text);
    free(data);
}

static void reads_what_is_there(void **state)
{
    scratch *here = *state;
    write_plain(here->path, "");
    assert_content(here->path, "");
    write_plain(here->path, "some text\n");
    assert_content(here->path, "some text\n");
}

static void reads_more_than_one_buffer(void **state)
{
    scratch *here = *state;
    const size_t size = 300001;
    char *text = malloc(size + 1);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)('a' + i % 26);
    }
    text[size] = '\0';
    write_plain(here->path, text);
    assert_content(here->path, text);
    free(text);
}

static void refuses_what_is_too_large(void **state)
{
    scratch *here = *state;
    char *data = NULL;
    size_t size = 123;
    ckm_error err;
    write_plain(here->path, "12345");
    assert_int_equal(ckm_i_file_read(here->path, 4, &data, &size, &err), CKM_ERR_UNSUPPORTED);
    assert_null(data);
    assert_int_equal(size, 123);
    assert_non_null(strstr(err.message, "larger than 4 bytes"));
    assert_int_equal(ckm_i_file_read(here->path, 5, &data, &size, &err), CKM_OK);
    free(data);
    // An endless device ends too.
    data = NULL;
    assert_int_equal(ckm_i_file_read("/dev/zero", 1 << 20, &data, &size, &err), CKM_ERR_UNSUPPORTED);
    assert_null(data);
}

static void unreadable_paths_name_the_file(void **state)
{
    scratch *here = *state;
    char *data = NULL;
    size_t size = 0;
    ckm_error err;
    assert_int_equal(ckm_i_file_read(here->path, 100, &data, &size, &err), CKM_ERR_IO);
    assert_string_equal(err.file, here->path);
    assert_non_null(strstr(err.message, "cannot open"));
    assert_int_equal(ckm_i_file_read(here->folder, 100, &data, &size, &err), CKM_ERR_IO);
    assert_non_null(strstr(err.message, "directory"));
    assert_null(data);
}

static void new_content_appears_on_commit(void **state)
{
    scratch *here = *state;
    ckm_i_writer w;
    ckm_error err;
    write_plain(here->path, "old");
    assert_int_equal(ckm_i_writer_open(&w, here->path, &err), CKM_OK);
    assert_true(fprintf(w.stream, "new") == 3);
    assert_int_equal(fflush(w.stream), 0);
    assert_content(here->path, "old");
    assert_int_equal(ckm_i_writer_commit(&w, &err), CKM_OK);
    assert_content(here->path, "new");
    assert_int_equal(count_files(here->folder), 1);
    ckm_i_writer_abort(&w);  // harmless afterwards
    assert_content(here->path, "new");
}

static void abort_leaves_the_old_file(void **state)
{
    scratch *here = *state;
    ckm_i_writer w;
    write_plain(here->path, "old");
    assert_int_equal(ckm_i_writer_open(&w, here->path, NULL), CKM_OK);
    assert_true(fprintf(w.stream, "new") == 3);
    ckm_i_writer_abort(&w);
    assert_content(here->path, "old");
    assert_int_equal(count_files(here->folder), 1);
    ckm_i_writer zero = {0};
    ckm_i_writer_abort(&zero);
}

// A writer killed between writing and committing has not touched the file it was to replace.
static void killed_writer_leaves_the_old_file(void **state)
{
    scratch *here = *state;
    write_plain(here->path, "old");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ckm_i_writer w;
        if (ckm_i_writer_open(&w, here->path, NULL) == CKM_OK) {
            fprintf(w.stream, "half of the n");
            fflush(w.stream);
            kill(getpid(), SIGKILL);
        }
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_content(here->path, "old");
}

static void a_missing_folder_is_an_error(void **state)
{
    scratch *here = *state;
    char path[256];
    ckm_i_writer w;
    ckm_error err;
    snprintf(path, sizeof path, "%s/none/out.json", here->folder);
    assert_int_equal(ckm_i_writer_open(&w, path, &err), CKM_ERR_IO);
    assert_string_equal(err.file, path);
    assert_non_null(strstr(err.message, "cannot open for writing"));
    ckm_i_writer_abort(&w);  // what a caller's cleanup does
}

static void an_unwritable_folder_is_an_error(void **state)
{
    scratch *here = *state;
    if (geteuid() == 0) {
        print_message("skipped: root may write to every folder\n");
        skip();
    }
    ckm_i_writer w;
    ckm_error err;
    assert_int_equal(chmod(here->folder, 0500), 0);
    assert_int_equal(ckm_i_writer_open(&w, here->path, &err), CKM_ERR_IO);
    assert_non_null(strstr(err.message, "ermission"));
}

// The same for root too: the target is a folder, so the last step, the rename, fails.
static void a_failing_rename_removes_the_temporary(void **state)
{
    scratch *here = *state;
    ckm_i_writer w;
    ckm_error err;
    assert_int_equal(ckm_i_writer_open(&w, here->path, &err), CKM_OK);
    assert_true(fprintf(w.stream, "new") == 3);
    assert_int_equal(mkdir(here->path, 0700), 0);
    assert_int_equal(ckm_i_writer_commit(&w, &err), CKM_ERR_IO);
    assert_string_equal(err.file, here->path);
    assert_int_equal(count_files(here->folder), 1);
    assert_int_equal(rmdir(here->path), 0);
}

static void a_full_disk_is_an_error(void **state)
{
    (void)state;
    struct stat facts;
    if (stat("/dev/full", &facts) != 0) {
        print_message("skipped: this system has no /dev/full\n");
        skip();
    }
    ckm_i_writer w;
    ckm_error err;
    assert_int_equal(ckm_i_writer_open(&w, "/dev/full", &err), CKM_OK);
    assert_true(fprintf(w.stream, "text") == 4);
    assert_int_equal(ckm_i_writer_commit(&w, &err), CKM_ERR_IO);
    assert_string_equal(err.file, "/dev/full");
    assert_non_null(strstr(err.message, "space"));

    // The error is remembered when it happened long before the commit.
    char *block = calloc(1, 1 << 20);
    assert_non_null(block);
    assert_int_equal(ckm_i_writer_open(&w, "/dev/full", &err), CKM_OK);
    (void)!fwrite(block, 1, 1 << 20, w.stream);
    assert_int_equal(ckm_i_writer_commit(&w, &err), CKM_ERR_IO);
    free(block);
}

int main(void)
{
#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(reads_what_is_there),
        IN_SCRATCH(reads_more_than_one_buffer),
        IN_SCRATCH(refuses_what_is_too_large),
        IN_SCRATCH(unreadable_paths_name_the_file),
        IN_SCRATCH(new_content_appears_on_commit),
        IN_SCRATCH(abort_leaves_the_old_file),
        IN_SCRATCH(killed_writer_leaves_the_old_file),
        IN_SCRATCH(a_missing_folder_is_an_error),
        IN_SCRATCH(an_unwritable_folder_is_an_error),
        IN_SCRATCH(a_failing_rename_removes_the_temporary),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
