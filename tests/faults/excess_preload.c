// SPDX-License-Identifier: Apache-2.0
// Preloaded into `train`: once the file CKM_EXCESS_AFTER (its log) has something in it, takes CKM_EXCESS_BYTES of memory
// behind its back, in the thread that looks at how much is in use, and keeps them. A step that exceeds its budget.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int nanosleep(const struct timespec *interval, struct timespec *left)
{
    static atomic_flag taken = ATOMIC_FLAG_INIT;
    const char *after = getenv("CKM_EXCESS_AFTER");
    const char *amount = getenv("CKM_EXCESS_BYTES");
    struct stat log;
    if (after != NULL && amount != NULL && stat(after, &log) == 0 && log.st_size > 0 &&
        !atomic_flag_test_and_set(&taken)) {
        size_t bytes = strtoull(amount, NULL, 10);
        void *memory = bytes > 0 ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                                 : MAP_FAILED;
        if (memory != MAP_FAILED) {
            memset(memory, 1, bytes);
        }
    }
    return (int)syscall(SYS_nanosleep, interval, left);
}
