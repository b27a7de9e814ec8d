// SPDX-License-Identifier: Apache-2.0
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

int scratch_set_up(void **state)
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

void scratch_enter(scratch_stay *stay)
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(stay->folder, sizeof stay->folder, "%s/ckm-test-XXXXXX", parent != NULL ? parent : "/tmp");
    assert_true(length > 0 && (size_t)length < sizeof stay->folder);
    assert_non_null(getcwd(stay->back, sizeof stay->back));
    assert_non_null(mkdtemp(stay->folder));
    assert_int_equal(chdir(stay->folder), 0);
}

void scratch_leave(const scratch_stay *stay)
{
    char command[sizeof stay->folder + 16];
    assert_int_equal(chdir(stay->back), 0);
    snprintf(command, sizeof command, "rm -rf '%s'", stay->folder);
    assert_int_equal(system(command), 0);
}

int count_files(const char *folder)
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

int scratch_tear_down(void **state)
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

void write_plain(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

void assert_content(const char *path, const char *text)
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

void pause_microseconds(unsigned n)
{
    struct timespec nap = {.tv_sec = 0, .tv_nsec = (long)n * 1000};
    nanosleep(&nap, NULL);
}
