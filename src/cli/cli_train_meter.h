// SPDX-License-Identifier: Apache-2.0
// How much memory training takes, as the system counts it: a separate thread checks every ten milliseconds, so that
// memory taken and given back within a step is seen as well.
#ifndef CKM_SRC_CLI_CLI_TRAIN_METER_H
#define CKM_SRC_CLI_CLI_TRAIN_METER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct train_meter {
    int64_t anonymous_before, resident_before;           // -1: not known
    atomic_int_least64_t anonymous_most, resident_most;  // seen since
    atomic_bool stopping;
    bool running;
    pthread_t thread;
} train_meter;

// Begins to measure from what is in use now. If no thread can be started, memory is checked after every step only.
void cli_train_meter_start(train_meter *meter);
void cli_train_meter_look(train_meter *meter);
void cli_train_meter_stop(train_meter *meter);
// Largest growth so far, of anonymous memory and of all resident memory; -1: not known.
int64_t cli_train_meter_anonymous(const train_meter *meter);
int64_t cli_train_meter_resident(const train_meter *meter);
// Whether anonymous memory has grown by more than `budget_bytes`; `threads` make the system's count uncertain.
bool cli_train_meter_exceeds(const train_meter *meter, int64_t budget_bytes, int64_t threads);

#endif
