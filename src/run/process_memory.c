// SPDX-License-Identifier: Apache-2.0
// Anonymous memory of this process: what it took for itself, as against pages of program and library files.
#include <checkmate/run.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Bytes of the line "<key> <n> kB" of a file, which must begin a line; -1 when there is none. No memory is allocated:
// that would change what is measured.
static int64_t read_kilobytes(const char *path, const char *key)
{
    char text[8192];
    size_t used = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    for (ssize_t n = 1; n > 0 && used < sizeof text - 1; used += (size_t)(n > 0 ? n : 0)) {
        n = read(file, text + used, sizeof text - 1 - used);
    }
    (void)close(file);
    text[used] = '\0';
    const char *at = strstr(text, key);
    while (at != NULL && at != text && at[-1] != '\n') {
        at = strstr(at + 1, key);
    }
    if (at == NULL) {
        return -1;
    }
    char *end = NULL;
    long long kilobytes = strtoll(at + strlen(key), &end, 10);
    return end != at + strlen(key) && kilobytes >= 0 && kilobytes < INT64_MAX / 1024 ? (int64_t)kilobytes * 1024 : -1;
}

int64_t ckm_run_anonymous_bytes(bool exactly)
{
    int64_t bytes = exactly ? read_kilobytes("/proc/self/smaps_rollup", "Anonymous:") : -1;
    return bytes >= 0 ? bytes : read_kilobytes("/proc/self/status", "RssAnon:");
}
