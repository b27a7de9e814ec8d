// SPDX-License-Identifier: Apache-2.0
// Threads of the CPU back end. oneDNN runs on GNU OpenMP; our own loops run on the same threads, so that no core has
// two of them spinning.
#ifndef CKM_SRC_RUN_CPU_CPU_THREADS_H
#define CKM_SRC_RUN_CPU_CPU_THREADS_H

#include <checkmate/base.h>
#include <stdbool.h>
#include <stdint.h>

// How many of `wanted` threads can be had: OpenMP's runtime ends the process when it cannot start one, so they are
// started here first, and end again. A few are left for other uses. Threads that an earlier back end of the
// same thread of the caller still holds do not count as free. Errors: memory.
ckm_status ckm_i_cpu_available_threads(int wanted, int *available, ckm_error *err) CKM_NODISCARD;

// Whether `threads` threads can be started now, and a few more.
bool ckm_i_cpu_can_start(int threads);

// To be called before this thread gets a team of several threads. OpenMP's runtime keeps the team for its thread; a forked child
// inherits the record of the team but not its threads, and would wait for them for ever. Errors: CKM_ERR_UNSUPPORTED in such a child.
ckm_status ckm_i_cpu_may_have_team(int threads, ckm_error *err) CKM_NODISCARD;

// Sets the number of threads OpenMP uses for regions started by the calling thread, and returns what it was. The
// setting belongs to the calling thread alone; the back end sets it around every call and puts it back. Regions then have exactly
// `threads` threads, even with OMP_DYNAMIC: kernels are made for that number. A negative result: the runtime was to choose.
int ckm_i_cpu_set_threads(int threads);

// Calls part(context, begin, end) for ranges that cover [0, n), on up to `threads` threads, and returns when all are
// done. Ranges begin at multiples of `grain`, and there is no more than one a thread. Which thread runs which range
// is a function of n, grain and threads alone.
void ckm_i_cpu_parallel(int threads, int64_t n, int64_t grain, void (*part)(void *context, int64_t begin, int64_t end),
                        void *context);

#endif
