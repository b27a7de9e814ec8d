// SPDX-License-Identifier: Apache-2.0
// How the threads of GNU's OpenMP wait for each other: by spinning for milliseconds, or for a moment only before they sleep.
//
// Spinning is the faster way on a quiet machine, by up to a third where a step takes milliseconds. On a machine that has other work
// to do it takes the processor from the very thread that is waited for, and training takes ten to fifty times as long
// (bench/waiting.sh). The runtime reads which it is from the environment when it is loaded, which is before a library can say
// anything, and the environment is the caller's. But where it has more threads than there are processors, they spin for a moment
// only. So when threads are seen to lose their processors to others, a second team is started that has nothing to do and sleeps: it
// only counts. It takes no processor time and some 9 kB of memory a thread, and changes no setting; any second team of the
// caller's own would do the same. From time to time it is ended, to see whether the machine is quiet again.
//
// None of this changes a result: the threads that compute are the same.
#ifndef CKM_SRC_RUN_CPU_CPU_WAITING_H
#define CKM_SRC_RUN_CPU_CPU_WAITING_H

#include <stdbool.h>
#include <stdint.h>

// Whether the machine has other work to do, judged by how often threads that spin, and so never sleep, lost their processors.
typedef struct ckm_i_cpu_contention {
    bool busy;
    int64_t busy_until_ns;                       // then it is looked again
    int64_t busy_for_ns;                         // how long that was: twice as long the next time, up to a minute
    int64_t calm_ns;                             // processor time of windows without a sign of it, in a row
    int64_t begin_processor_ns, begin_switches;  // of the window
} ckm_i_cpu_contention;

// `now_ns`: a clock; `processor_ns`: the process's processor time; `switches`: how often its threads had to make room.
void ckm_i_cpu_contention_note(ckm_i_cpu_contention *c, int64_t now_ns, int64_t processor_ns, int64_t switches);

typedef struct ckm_i_cpu_sleepers ckm_i_cpu_sleepers;

// A team of `size` > 1 threads, asleep; NULL where it cannot be had.
ckm_i_cpu_sleepers *ckm_i_cpu_sleepers_start(int size);
// Ends its threads, in the process that has them; a child of fork has none. NULL is fine.
void ckm_i_cpu_sleepers_end(ckm_i_cpu_sleepers *sleepers);

typedef struct ckm_i_cpu_waiting {
    int size;  // of the second team, when there is one; 0: never
    int64_t looked_ns;
    ckm_i_cpu_contention contention;
    ckm_i_cpu_sleepers *sleepers;
} ckm_i_cpu_waiting;

// For a back end of `threads` threads. Starts a second team and ends it, so that the memory it takes is there from now on.
void ckm_i_cpu_waiting_begin(ckm_i_cpu_waiting *waiting, int threads);
// Before a kernel: looks whether the other way of waiting is better, at most every few milliseconds.
void ckm_i_cpu_waiting_look(ckm_i_cpu_waiting *waiting);
void ckm_i_cpu_waiting_end(ckm_i_cpu_waiting *waiting);

#endif
