// SPDX-License-Identifier: Apache-2.0
// Reading whole files, and what is no file.
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "scratch.h"

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
}

static void what_is_no_file_is_refused_at_once(void **state)
{
    scratch *here = *state;
    char *data = NULL;
    size_t size = 0;
    int fd = -1;
    int64_t bytes = 0;
    ckm_error err;
    alarm(20);
    assert_int_equal(mkfifo(here->path, 0600), 0);
    assert_int_equal(ckm_i_file_read(here->path, 100, &data, &size, &err), CKM_ERR_IO);
    assert_string_equal(err.message, "is a pipe, and nothing writes to it");
    assert_int_equal(ckm_i_file_open(here->path, &fd, &bytes, &err), CKM_ERR_IO);
    assert_string_equal(err.message, "is a pipe, not a file");
    assert_int_equal(ckm_i_file_read("/dev/zero", 100, &data, &size, &err), CKM_ERR_IO);
    assert_string_equal(err.message, "is a device, not a file");
    assert_int_equal(ckm_i_file_open(here->folder, &fd, &bytes, &err), CKM_ERR_IO);
    assert_string_equal(err.message, "is a directory, not a file");

    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", here->folder);
    assert_int_equal(bind(listener, (struct sockaddr *)(void *)&address, sizeof address), 0);
    assert_int_equal(ckm_i_file_read(address.sun_path, 100, &data, &size, &err), CKM_ERR_IO);
    assert_string_equal(err.message, "is a socket, not a file");
    close(listener);
    assert_null(data);
    assert_int_equal(fd, -1);
    alarm(0);
}

// A process writes to the pipe in two parts, the second one late.
static void a_pipe_with_a_writer_is_read(void **state)
{
    scratch *here = *state;
    alarm(20);
    assert_int_equal(mkfifo(here->path, 0600), 0);
    int keep = open(here->path, O_RDWR);  // so that the child is not waited for
    assert_true(keep >= 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        int to = open(here->path, O_WRONLY);
        close(keep);
        bool sent = write(to, "first ", 6) == 6;
        pause_microseconds(200000);
        _exit(sent && write(to, "second", 6) == 6 ? 0 : 1);
    }
    char byte;
    assert_int_equal(read(keep, &byte, 1), 1);  // the child has opened it
    assert_int_equal(byte, 'f');
    int again = open(here->path, O_RDONLY | O_NONBLOCK);
    assert_true(again >= 0);
    close(keep);
    assert_content(here->path, "irst second");
    close(again);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    alarm(0);
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

int main(void)
{
#define IN_SCRATCH(test) cmocka_unit_test_setup_teardown(test, scratch_set_up, scratch_tear_down)
    const struct CMUnitTest tests[] = {
        IN_SCRATCH(reads_what_is_there),
        IN_SCRATCH(reads_more_than_one_buffer),
        IN_SCRATCH(refuses_what_is_too_large),
        IN_SCRATCH(unreadable_paths_name_the_file),
        IN_SCRATCH(what_is_no_file_is_refused_at_once),
        IN_SCRATCH(a_pipe_with_a_writer_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
