// SPDX-License-Identifier: Apache-2.0
#include "cli/cli_train_meter.h"

#include <checkmate/run.h>

#include <signal.h>
#include <time.h>
#include <unistd.h>

// Milliseconds between samples, and the stack of the sampling thread.
enum { INTERVAL_MS = 10, STACK_BYTES = 128 << 10 };
// Pages by which a thread's own count may not have reached the process's, on kernels before 6.16.
enum { LAGGING_PAGES = 64 };

static void raise_to(atomic_int_least64_t *most, int64_t value)
{
    int64_t known = atomic_load(most);
    while (value > known && !atomic_compare_exchange_weak(most, &known, value)) {
    }
}

void cli_train_meter_look(train_meter *meter)
{
    ckm_run_memory now = ckm_run_get_memory(false);
    raise_to(&meter->anonymous_most, now.anonymous_bytes);
    raise_to(&meter->resident_most, now.resident_bytes);
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
    *meter = (train_meter){.running = false};
    // Signals are for the thread that trains.
    sigfillset(&all);
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        meter->running = pthread_create(&meter->thread, &attributes, keep_looking, meter) == 0;
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        (void)pthread_attr_destroy(&attributes);
    }
    ckm_run_memory now = ckm_run_get_memory(true);
    meter->anonymous_before = now.anonymous_bytes;
    meter->resident_before = now.resident_bytes;
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
    return ckm_run_get_memory(true).anonymous_bytes - meter->anonymous_before > budget_bytes ||
           cli_train_meter_anonymous(meter) > budget_bytes + lag;
}
