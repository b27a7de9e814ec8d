// SPDX-License-Identifier: Apache-2.0
// Resident memory of this process: anonymous memory, and pages of program and library files.
#include "run/session/program.h"

#include <fcntl.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 8192 };

// A small file of the system's; empty when it cannot be read. No memory is allocated: that would change what is measured.
static void read_text(const char *path, char text[static TEXT_BYTES])
{
    size_t used = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t n = 1; file >= 0 && n > 0 && used < TEXT_BYTES - 1; used += (size_t)(n > 0 ? n : 0)) {
        n = read(file, text + used, TEXT_BYTES - 1 - used);
    }
    if (file >= 0) {
        (void)close(file);
    }
    text[used] = '\0';
}

// Bytes of the line "<key> <n> kB" of a text, which must begin a line; -1 when there is none.
static int64_t kilobytes_of(const char *text, const char *key)
{
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

int64_t ckm_i_process_huge_page_bytes(void)
{
    char text[TEXT_BYTES];
    read_text("/sys/kernel/mm/transparent_hugepage/enabled", text);
    if (strstr(text, "[always]") == NULL) {
        return 0;
    }
    read_text("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text);
    long long bytes = strtoll(text, NULL, 10);
    return bytes > 0 && bytes <= (1 << 30) ? (int64_t)bytes : INT64_C(2) << 20;
}

void ckm_i_process_give_back(void)
{
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

ckm_run_memory ckm_run_get_memory(bool exactly)
{
    char text[TEXT_BYTES];
    ckm_run_memory memory = {.anonymous_bytes = -1, .resident_bytes = -1};
    read_text("/proc/self/status", text);
    int64_t anonymous = kilobytes_of(text, "RssAnon:");
    int64_t files = kilobytes_of(text, "RssFile:");
    int64_t shared = kilobytes_of(text, "RssShmem:");
    if (anonymous >= 0 && files >= 0 && shared >= 0) {
        memory = (ckm_run_memory){.anonymous_bytes = anonymous, .resident_bytes = anonymous + files + shared};
    }
    if (exactly) {
        read_text("/proc/self/smaps_rollup", text);
        int64_t counted = kilobytes_of(text, "Anonymous:");
        memory.anonymous_bytes = counted >= 0 ? counted : anonymous;
    }
    return memory;
}
