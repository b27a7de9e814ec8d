// SPDX-License-Identifier: Apache-2.0
// Preloaded into what measures: the clock of a machine that is busy with other things. Now and then the clock jumps ahead
// by as much as has gone by since its last jump. Half of all time is then lost to others, and few operators lose any.
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *out)
{
    static _Atomic long long lost, last;
    static atomic_uint calls;
    int outcome = (int)syscall(SYS_clock_gettime, clock, out);
    if (outcome != 0 || clock != CLOCK_MONOTONIC) {
        return outcome;
    }
    long long now = out->tv_sec * 1000000000LL + out->tv_nsec;
    unsigned call = atomic_fetch_add(&calls, 1);
    // Scattered, so that not the same operators are held up in every step.
    if (call * 2654435761U < (1U << 26)) {
        long long since = now - atomic_exchange(&last, now);
        atomic_fetch_add(&lost, call > 64 ? since : 0);
    }
    now += atomic_load(&lost);
    out->tv_sec = (time_t)(now / 1000000000LL);
    out->tv_nsec = (long)(now % 1000000000LL);
    return 0;
}
