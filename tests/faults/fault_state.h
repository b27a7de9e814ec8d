// SPDX-License-Identifier: Apache-2.0
// What fault_sweep (the driver) and fault_preload.so (in the program under test) share: a mapped file.
//
// The preloaded object keeps the program from entering main and forks a copy of it for every run the driver asks
// for, so that a run costs a fork and not the loading of thirty libraries.
#ifndef CKM_TESTS_FAULT_STATE_H
#define CKM_TESTS_FAULT_STATE_H

#include <stdbool.h>
#include <stdint.h>

// Environment of the program under test: the state's file. Removed by the object, with LD_PRELOAD.
#define FAULT_STATE_VARIABLE "CKM_FAULT_STATE"

// What can be made to fail.
enum {
    FAULT_ALLOC,   // malloc, calloc, realloc, posix_memalign, aligned_alloc, memalign, and so operator new, strdup...
    FAULT_MAP,     // mmap as called by the program
    FAULT_FORK,    // fork, posix_spawn
    FAULT_THREAD,  // pthread_create
    FAULT_KINDS
};

// In which process: the one that the driver started, or those that it forks.
enum { FAULT_PARENT, FAULT_CHILD, FAULT_SCOPES };

enum { FAULT_MAX_FRAMES = 24, FAULT_MAX_NAME = 64 };

typedef struct fault_frame {
    char module[FAULT_MAX_NAME];  // file name of the library; "" for the program
    uint64_t offset;
} fault_frame;

typedef struct fault_state {
    // Set by the driver before a run.
    int32_t kind, scope;
    int64_t at;      // the call that fails, from 0, counted in each process for itself; negative: none
    bool from_then;  // all later ones fail, too
    bool alive;      // of threads: those fail that are started while `at` others than the first are running
    char skip[256];  // names of libraries, separated by commas: their own calls are not counted
    int32_t control_fd, reply_fd, out_fd, err_fd;
    // Set by the runs.
    _Atomic int64_t counted[FAULT_KINDS][FAULT_SCOPES];  // the most in any process
    _Atomic bool fired;
    int32_t n_frames;
    fault_frame frames[FAULT_MAX_FRAMES];  // who made the first call that failed
} fault_state;

#endif
