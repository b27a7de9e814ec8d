// SPDX-License-Identifier: Apache-2.0
// What the system says of this machine's memory.
#include <checkmate/base.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The number that follows `key` at the beginning of a line of a file of the kernel's, or -1.
static int64_t number_in_file(const char *path, const char *key)
{
    char line[256];
    int64_t number = -1;
    FILE *file = fopen(path, "r");
    while (file != NULL && number < 0 && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, key, strlen(key)) == 0) {
            char *end = NULL;
            long long value = strtoll(line + strlen(key), &end, 10);
            number = end != line + strlen(key) && value >= 0 ? value : -1;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return number;
}

// What the kernel says is available without swapping, or what the control group leaves.
int64_t ckm_host_free_bytes(void)
{
    int64_t kib = number_in_file("/proc/meminfo", "MemAvailable:");
    int64_t available = kib > 0 ? kib * 1024 : -1;
    int64_t limit = number_in_file("/sys/fs/cgroup/memory.max", "");
    int64_t used = number_in_file("/sys/fs/cgroup/memory.current", "");
    if (used >= 0 && limit > used && (available < 0 || limit - used < available)) {
        available = limit - used;
    }
    return available;
}
