// SPDX-License-Identifier: Apache-2.0
// Writing that leaves the old file or the complete new one, whatever happens.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "scratch.h"

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

// ---- replacing

static unsigned mode_of(const char *path)
{
    struct stat facts;
    assert_int_equal(stat(path, &facts), 0);
    return (unsigned)facts.st_mode & 07777;
}

static void replace_with(const char *path, const char *text)
{
    ckm_i_writer w;
    ckm_error err = CKM_ERROR_INIT;
    if (ckm_i_writer_open(&w, path, &err) != CKM_OK) {
        fail_msg("%s: %s", path, err.message);
    }
    fputs(text, w.stream);
    if (ckm_i_writer_commit(&w, &err) != CKM_OK) {
        fail_msg("%s: %s", path, err.message);
    }
}

static void permissions_of_the_old_file_stay(void **state)
{
    scratch *here = *state;
    static const unsigned modes[] = {0600, 0640, 0644, 0666, 0755};
    write_plain(here->path, "old");
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(here->path, modes[i]), 0);
        mode_t before = umask(077);
        replace_with(here->path, "new");
        umask(before);
        assert_int_equal(mode_of(here->path), modes[i]);
    }
}

static void the_umask_holds_for_new_files(void **state)
{
    scratch *here = *state;
    static const unsigned masks[] = {0, 022, 077, 0777};
    for (size_t i = 0; i < sizeof masks / sizeof masks[0]; i++) {
        mode_t before = umask(masks[i]);
        replace_with(here->path, "new");
        umask(before);
        assert_int_equal(mode_of(here->path), 0666U & ~masks[i]);
        assert_int_equal(count_files(here->folder), 1);
        assert_int_equal(unlink(here->path), 0);
    }
}

static void nobody_reads_an_unfinished_file(void **state)
{
    scratch *here = *state;
    ckm_i_writer w;
    char path[400];
    mode_t before = umask(0);
    assert_int_equal(ckm_i_writer_open(&w, here->path, NULL), CKM_OK);
    umask(before);
    snprintf(path, sizeof path, "%s/%s", here->folder, w.temporary);
    assert_int_equal(mode_of(path), 0600);
    assert_int_equal(ckm_i_writer_commit(&w, NULL), CKM_OK);
    assert_int_equal(mode_of(here->path), 0666);
}

static void the_owner_of_the_old_file_stays(void **state)
{
    scratch *here = *state;
    struct stat facts;
    if (geteuid() != 0) {
        print_message("skipped: only root gives files away\n");
        skip();
    }
    write_plain(here->path, "old");
    assert_int_equal(chown(here->path, 12345, 54321), 0);
    replace_with(here->path, "new");
    assert_int_equal(stat(here->path, &facts), 0);
    assert_int_equal(facts.st_uid, 12345);
    assert_int_equal(facts.st_gid, 54321);
}

static void a_write_protected_file_stays(void **state)
{
    scratch *here = *state;
    write_plain(here->path, "old");
    assert_int_equal(chmod(here->path, 0444), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        ckm_i_writer w;
        ckm_error err;
        bool somebody = geteuid() != 0 ||
                        (chmod(here->folder, 0777) == 0 && setegid(65534) == 0 && seteuid(65534) == 0);
        ckm_status status = somebody ? ckm_i_writer_open(&w, here->path, &err) : CKM_OK;
        _exit(status == CKM_ERR_IO && strstr(err.message, "ermission") != NULL ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_content(here->path, "old");
    assert_int_equal(count_files(here->folder), 1);
}

static bool is_link(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISLNK(facts.st_mode);
}

static void links_are_written_through(void **state)
{
    scratch *here = *state;
    char first[200];
    char second[200];
    snprintf(first, sizeof first, "%s/first", here->folder);
    snprintf(second, sizeof second, "%s/second", here->folder);
    write_plain(here->path, "old");
    assert_int_equal(symlink("out.json", second), 0);  // in the same folder
    assert_int_equal(symlink(second, first), 0);       // from the root
    replace_with(first, "new");
    assert_true(is_link(first) && is_link(second) && !is_link(here->path));
    assert_content(here->path, "new");
    assert_int_equal(count_files(here->folder), 3);
    // To nothing: the file is made.
    assert_int_equal(unlink(here->path), 0);
    replace_with(first, "made");
    assert_true(is_link(first) && is_link(second));
    assert_content(here->path, "made");
    // In a circle.
    ckm_i_writer w;
    ckm_error err;
    assert_int_equal(unlink(second), 0);
    assert_int_equal(symlink("first", second), 0);
    assert_int_equal(ckm_i_writer_open(&w, first, &err), CKM_ERR_IO);
    assert_non_null(strstr(err.message, "symbolic link"));
}

// Where everybody may put files, another's link could lead anywhere.
static void links_of_others_in_shared_folders_are_refused(void **state)
{
    scratch *here = *state;
    char shared[128];
    char link[160];
    if (geteuid() != 0) {
        print_message("skipped: only root makes links of others\n");
        skip();
    }
    snprintf(shared, sizeof shared, "%s/shared", here->folder);
    snprintf(link, sizeof link, "%s/link", shared);
    write_plain(here->path, "old");
    assert_int_equal(mkdir(shared, 0700), 0);
    assert_int_equal(chmod(shared, 01777), 0);
    assert_int_equal(symlink("../out.json", link), 0);
    assert_int_equal(lchown(link, 12345, 12345), 0);
    ckm_i_writer w;
    ckm_error err;
    assert_int_equal(ckm_i_writer_open(&w, link, &err), CKM_ERR_IO);
    assert_non_null(strstr(err.message, "ermission"));
    assert_int_equal(chmod(shared, 0777), 0);  // not sticky: the folder protects no one's files
    replace_with(link, "new");
    assert_content(here->path, "new");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(rmdir(shared), 0);
}

static void long_names_have_temporary_files_too(void **state)
{
    scratch *here = *state;
    char path[512];
    ckm_i_writer w;
    int n = snprintf(path, sizeof path, "%s/", here->folder);
    memset(path + n, 'x', 255);
    path[n + 255] = '\0';
    replace_with(path, "new");
    assert_content(path, "new");
    path[n + 255] = 'x';
    path[n + 256] = '\0';
    assert_int_equal(ckm_i_writer_open(&w, path, NULL), CKM_ERR_IO);
}

static void a_device_is_written_and_stays(void **state)
{
    (void)state;
    struct stat facts;
    replace_with("/dev/null", "text");
    assert_int_equal(stat("/dev/null", &facts), 0);
    assert_true(S_ISCHR(facts.st_mode));
}

static void an_open_stream_is_written(void **state)
{
    scratch *here = *state;
    char name[64];
    int fd = open(here->path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "before ", 7), 7);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    replace_with(name, "between ");
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    replace_with(name, "after");
    close(fd);
    assert_content(here->path, "before between after");
    ckm_i_writer w;
    assert_int_equal(ckm_i_writer_open(&w, name, NULL), CKM_ERR_IO);
    assert_int_equal(count_files(here->folder), 1);
}

static void a_pipe_without_a_reader_is_an_error(void **state)
{
    scratch *here = *state;
    ckm_i_writer w;
    ckm_error err;
    char got[8] = "";
    alarm(20);
    assert_int_equal(mkfifo(here->path, 0600), 0);
    assert_int_equal(ckm_i_writer_open(&w, here->path, &err), CKM_ERR_IO);
    assert_string_equal(err.message, "is a pipe, and nothing reads it");
    int reader = open(here->path, O_RDONLY | O_NONBLOCK);
    replace_with(here->path, "text");
    assert_int_equal(read(reader, got, sizeof got), 4);
    close(reader);
    alarm(0);
    assert_int_equal(count_files(here->folder), 1);
}

// ---- several writers, killed ones

enum { CONTENT_BYTES = 200000 };

// Replaces the file with a text of one letter again and again.
static _Noreturn void replace_forever(const char *path, char letter)
{
    char *text = malloc(CONTENT_BYTES);
    for (ckm_i_writer w; text != NULL;) {
        memset(text, letter, CONTENT_BYTES);
        if (ckm_i_writer_open(&w, path, NULL) != CKM_OK || fwrite(text, 1, CONTENT_BYTES, w.stream) != CONTENT_BYTES ||
            ckm_i_writer_commit(&w, NULL) != CKM_OK) {
            break;
        }
        letter = letter == 'z' ? 'a' : (char)(letter + 1);
    }
    _exit(1);
}

static void assert_whole(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(ckm_i_file_read(path, 1 << 20, &data, &size, NULL), CKM_OK);
    assert_int_equal(size, CONTENT_BYTES);
    for (size_t i = 1; i < size; i++) {
        assert_int_equal(data[i], data[0]);
    }
    free(data);
}

// Three processes write one file and are killed at any moment: it is whole every time, what they leave behind does not
// add up, and the next one removes it.
static void killed_writers_leave_a_whole_file(void **state)
{
    enum { ROUNDS = 150, WRITERS = 3 };
    scratch *here = *state;
    unsigned random = 12345;
    int leftovers = 0;
    char *text = malloc(CONTENT_BYTES + 1);
    assert_non_null(text);
    memset(text, 'a', CONTENT_BYTES);
    text[CONTENT_BYTES] = '\0';
    replace_with(here->path, text);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t writers[WRITERS];
        for (int i = 0; i < WRITERS; i++) {
            writers[i] = fork();
            assert_true(writers[i] >= 0);
            if (writers[i] == 0) {
                replace_forever(here->path, (char)('a' + round % 26));
            }
        }
        random = random * 1103515245U + 12345U;
        pause_microseconds(random / 65536 % 8000);
        for (int i = 0; i < WRITERS; i++) {
            int status = 0;
            assert_int_equal(kill(writers[i], SIGKILL), 0);
            assert_int_equal(waitpid(writers[i], &status, 0), writers[i]);
            assert_true(WIFSIGNALED(status));  // none had failed before
        }
        assert_whole(here->path);
        int files = count_files(here->folder);
        assert_in_range(files, 1, 1 + WRITERS);
        leftovers += files - 1;
    }
    print_message("%d leftovers in %d rounds\n", leftovers, ROUNDS);
    assert_true(leftovers > 0);
    replace_with(here->path, text);
    assert_int_equal(count_files(here->folder), 1);
    free(text);
}

// Two writers at once: neither takes the other's file for a leftover, and the last commit wins.
static void two_writers_do_not_meet(void **state)
{
    scratch *here = *state;
    ckm_i_writer first;
    ckm_i_writer second;
    assert_int_equal(ckm_i_writer_open(&first, here->path, NULL), CKM_OK);
    assert_int_equal(ckm_i_writer_open(&second, here->path, NULL), CKM_OK);
    assert_string_not_equal(first.temporary, second.temporary);
    fputs("first", first.stream);
    fputs("second", second.stream);
    assert_int_equal(ckm_i_writer_commit(&second, NULL), CKM_OK);
    assert_content(here->path, "second");
    assert_int_equal(ckm_i_writer_open(&second, here->path, NULL), CKM_OK);
    assert_int_equal(ckm_i_writer_commit(&first, NULL), CKM_OK);
    assert_content(here->path, "first");
    ckm_i_writer_abort(&second);
    assert_content(here->path, "first");
    assert_int_equal(count_files(here->folder), 1);
}

// What stands under the name of a temporary file and is none stays, and is not written.
static void names_that_are_taken_are_left_alone(void **state)
{
    scratch *here = *state;
    char path[200];
    char victim[200];
    char pipe_path[200];
    snprintf(victim, sizeof victim, "%s/victim", here->folder);
    snprintf(path, sizeof path, "%s/.out.json.ckm-tmp0", here->folder);
    snprintf(pipe_path, sizeof pipe_path, "%s/.out.json.ckm-tmp1", here->folder);
    write_plain(victim, "precious");
    assert_int_equal(symlink("victim", path), 0);
    alarm(20);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    replace_with(here->path, "new");
    alarm(0);
    assert_content(here->path, "new");
    assert_content(victim, "precious");
    assert_true(is_link(path));
    assert_int_equal(count_files(here->folder), 4);
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
#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(new_content_appears_on_commit),       IN_SCRATCH(abort_leaves_the_old_file),
        IN_SCRATCH(killed_writer_leaves_the_old_file),   IN_SCRATCH(permissions_of_the_old_file_stay),
        IN_SCRATCH(the_umask_holds_for_new_files),       IN_SCRATCH(nobody_reads_an_unfinished_file),
        IN_SCRATCH(the_owner_of_the_old_file_stays),     IN_SCRATCH(a_write_protected_file_stays),
        IN_SCRATCH(links_are_written_through),           IN_SCRATCH(links_of_others_in_shared_folders_are_refused),
        IN_SCRATCH(long_names_have_temporary_files_too), cmocka_unit_test(a_device_is_written_and_stays),
        IN_SCRATCH(an_open_stream_is_written),           IN_SCRATCH(a_pipe_without_a_reader_is_an_error),
        IN_SCRATCH(killed_writers_leave_a_whole_file),   IN_SCRATCH(two_writers_do_not_meet),
        IN_SCRATCH(names_that_are_taken_are_left_alone), IN_SCRATCH(a_missing_folder_is_an_error),
        IN_SCRATCH(an_unwritable_folder_is_an_error),    IN_SCRATCH(a_failing_rename_removes_the_temporary),
        cmocka_unit_test(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
