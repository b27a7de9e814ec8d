// SPDX-License-Identifier: Apache-2.0
#include "scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void remove_folder(void)
{
    rmdir(folder);
}

const char *scratch_folder(void)
{
    if (folder[0] == '\0') {
        // Memory where there is some to write to: a run writes millions of files.
        const char *const roots[] = {"/dev/shm", "/tmp"};
        for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
            snprintf(folder, sizeof folder, "%s/ckm_fuzz_XXXXXX", roots[i]);
            if (mkdtemp(folder) != NULL) {
                atexit(remove_folder);
                return folder;
            }
        }
        perror("no folder for the files of a fuzz target");
        abort();
    }
    return folder;
}

const char *scratch_path(const char *name)
{
    static char path[192];
    snprintf(path, sizeof path, "%s/%s", scratch_folder(), name);
    return path;
}

const char *scratch_put(const char *name, const uint8_t *data, size_t size)
{
    const char *slash = strchr(name, '/');
    if (slash != NULL) {
        char inner[192];
        snprintf(inner, sizeof inner, "%s/%.*s", scratch_folder(), (int)(slash - name), name);
        mkdir(inner, 0700);
    }
    const char *path = scratch_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0) {
        perror(path);
        abort();
    }
    return path;
}

void scratch_drop(const char *name)
{
    const char *slash = strchr(name, '/');
    unlink(scratch_path(name));
    if (slash != NULL) {
        char inner[192];
        snprintf(inner, sizeof inner, "%s/%.*s", scratch_folder(), (int)(slash - name), name);
        rmdir(inner);
    }
}
