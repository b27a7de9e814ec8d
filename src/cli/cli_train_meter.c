// SPDX-License-Identifier: Apache-2.0
#include "cli/cli_train_meter.h"

#include <checkmate/run.h>

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Milliseconds between looks, and the stack of the thread that looks.
enum { INTERVAL_MS = 5, STACK_BYTES = 128 << 10 };
// Pages by which a thread's own count may not have reached the process's, on kernels before 6.16.
enum { LAGGING_PAGES = 64 };

// Bytes of the line "<key> <n> kB"; 0 when there is none.
static int64_t field(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    long long kilobytes = at != NULL ? strtoll(at + strlen(key), NULL, 10) : 0;
    return kilobytes > 0 ? (int64_t)kilobytes * 1024 : 0;
}

// Anonymous and all resident memory; false when the system does not say.
static bool read_use(int64_t *anonymous, int64_t *resident)
{
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : -1;
    if (file >= 0) {
        (void)close(file);
    }
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    *anonymous = field(text, "\nRssAnon:");
    *resident = *anonymous + field(text, "\nRssFile:") + field(text, "\nRssShmem:");
    return *anonymous > 0;
}

static void raise_to(atomic_int_least64_t *most, int64_t value)
{
    int64_t known = atomic_load(most);
    while (value > known && !atomic_compare_exchange_weak(most, &known, value)) {
    }
}

void cli_train_meter_look(train_meter *meter)
{
    int64_t anonymous;
    int64_t resident;
    if (read_use(&anonymous, &resident)) {
        raise_to(&meter->anonymous_most, anonymous);
        raise_to(&meter->resident_most, resident);
    }
}

static void *keep_looking(void *context)
{
    train_meter *meter = context;
    const struct timespec interval = {0, INTERVAL_MS * 1000000L};
    while (!atomic_load(&meter->stopping)) {
        cli_train_meter_look(meter);
        (void)nanosleep(&interval, NULL);
    }
    return NULL;
}

void cli_train_meter_start(train_meter *meter)
{
    pthread_attr_t attributes;
    sigset_t all;
    sigset_t before;
    *meter = (train_meter){.anonymous_before = -1, .resident_before = -1};
    // Signals are for the thread that trains.
    sigfillset(&all);
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        meter->running = pthread_create(&meter->thread, &attributes, keep_looking, meter) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
    }
    int64_t anonymous = -1;
    int64_t resident = -1;
    if (read_use(&anonymous, &resident)) {
        int64_t exactly = ckm_run_anonymous_bytes(true);
        meter->anonymous_before = exactly >= 0 ? exactly : anonymous;
        meter->resident_before = resident;
    }
    atomic_store(&meter->anonymous_most, meter->anonymous_before);
    atomic_store(&meter->resident_most, meter->resident_before);
}

void cli_train_meter_stop(train_meter *meter)
{
    if (meter->running) {
        atomic_store(&meter->stopping, true);
        (void)pthread_join(meter->thread, NULL);
        meter->running = false;
    }
}

static int64_t growth(int64_t before, int64_t most)
{
    return before < 0 ? -1 : most - before;
}

int64_t cli_train_meter_anonymous(const train_meter *meter)
{
    return growth(meter->anonymous_before, atomic_load(&meter->anonymous_most));
}

int64_t cli_train_meter_resident(const train_meter *meter)
{
    return growth(meter->resident_before, atomic_load(&meter->resident_most));
}

bool cli_train_meter_exceeds(const train_meter *meter, int64_t budget_bytes, int64_t threads)
{
    if (cli_train_meter_anonymous(meter) <= budget_bytes) {
        return false;
    }
    // Either pages counted one by one say so, or the running count does by more than it can be wrong.
    int64_t lag = (threads + 2) * LAGGING_PAGES * sysconf(_SC_PAGESIZE);
    return ckm_run_anonymous_bytes(true) - meter->anonymous_before > budget_bytes ||
           cli_train_meter_anonymous(meter) > budget_bytes + lag;
}
