// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE  // ru_nivcsw
#include "run/cpu/cpu_waiting.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "run/cpu/cpu_threads.h"

int omp_get_num_procs(void);
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
int kmp_get_blocktime(void) __attribute__((weak));  // LLVM's and Intel's runtime, which has GNU's entry points too

static const int64_t millisecond = 1000000, second = 1000000000;

// A thread that another waits for makes room every few milliseconds of its own time, every ten at the least. One that has its
// processor to itself does so a few times a second.
static const int64_t window_ns = 100 * 1000000, window_switches = 8;

void ckm_i_cpu_contention_note(ckm_i_cpu_contention *c, int64_t now_ns, int64_t processor_ns, int64_t switches)
{
    int64_t passed_ns = processor_ns - c->begin_processor_ns;
    if (c->busy) {
        c->busy = now_ns < c->busy_until_ns;
    } else if (passed_ns >= 0 && passed_ns < window_ns) {
        return;
    } else if (passed_ns < 0) {
        c->calm_ns = 0;  // the system counts from 0 in a child of fork
    } else if (switches - c->begin_switches < window_switches * (passed_ns / window_ns)) {
        c->calm_ns += passed_ns;
    } else {
        bool is_new = c->busy_for_ns == 0 || c->calm_ns > second;
        c->busy_for_ns = is_new ? second : c->busy_for_ns < 64 * second ? 2 * c->busy_for_ns : c->busy_for_ns;
        c->busy_until_ns = now_ns + c->busy_for_ns;
        c->busy = true;
        c->calm_ns = 0;
    }
    c->begin_processor_ns = processor_ns;
    c->begin_switches = switches;
}

struct ckm_i_cpu_sleepers {
    pthread_t thread;
    pid_t process;
    int size;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_there, is_over;
};

static void do_nothing(void *data)
{
    (void)data;
}

// The runtime keeps the team for the thread that had it, asleep until that has another loop, or ends.
static void *have_team(void *user)
{
    ckm_i_cpu_sleepers *s = user;
    GOMP_parallel(do_nothing, NULL, (unsigned)s->size, 0);
    pthread_mutex_lock(&s->lock);
    s->is_there = true;
    pthread_cond_broadcast(&s->changed);
    while (!s->is_over) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

ckm_i_cpu_sleepers *ckm_i_cpu_sleepers_start(int size)
{
    // The runtime ends the process where it cannot start a thread.
    ckm_i_cpu_sleepers *s = ckm_i_cpu_can_start(size) ? ckm_i_calloc(1, sizeof *s) : NULL;
    if (s == NULL) {
        return NULL;
    }
    *s = (ckm_i_cpu_sleepers){
        .process = getpid(), .size = size, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    // Signals are for the caller's threads.
    sigset_t all;
    sigset_t mask;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    bool started = pthread_create(&s->thread, NULL, have_team, s) == 0;
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (!started) {
        free(s);
        return NULL;
    }
    pthread_mutex_lock(&s->lock);
    while (!s->is_there) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return s;
}

void ckm_i_cpu_sleepers_end(ckm_i_cpu_sleepers *s)
{
    if (s != NULL && s->process == getpid()) {
        pthread_mutex_lock(&s->lock);
        s->is_over = true;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        pthread_join(s->thread, NULL);
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
    }
    free(s);
}

// Threads of the second team. 0 if there already are more threads than processors, if the runtime is not GNU's, if the
// environment sets how threads wait, or if it would take more than a few.
static int team_size(int threads)
{
    enum { MOST_THREADS = 16 };
    if (threads <= 1 || kmp_get_blocktime != NULL || getenv("OMP_WAIT_POLICY") != NULL ||
        getenv("GOMP_SPINCOUNT") != NULL) {
        return 0;
    }
    // The runtime counts the first thread of the process and those that it has started: threads - 1 here, size - 1 there.
    int size = omp_get_num_procs() - threads + 2;
    return size > 1 && size <= MOST_THREADS ? size : 0;
}

static int64_t nanoseconds(struct timeval t)
{
    return (int64_t)t.tv_sec * second + (int64_t)t.tv_usec * 1000;
}

static int64_t processor_ns(const struct rusage *used)
{
    return nanoseconds(used->ru_utime) + nanoseconds(used->ru_stime);
}

void ckm_i_cpu_waiting_begin(ckm_i_cpu_waiting *w, int threads)
{
    struct rusage used;
    *w = (ckm_i_cpu_waiting){.size = team_size(threads)};
    if (w->size > 0 && getrusage(RUSAGE_SELF, &used) == 0) {
        ckm_i_cpu_sleepers_end(ckm_i_cpu_sleepers_start(w->size));
        w->contention.begin_processor_ns = processor_ns(&used);
        w->contention.begin_switches = used.ru_nivcsw;
    }
}

void ckm_i_cpu_waiting_look(ckm_i_cpu_waiting *w)
{
    struct timespec clock;
    if (w->size == 0 || clock_gettime(CLOCK_MONOTONIC, &clock) != 0) {
        return;
    }
    int64_t now_ns = (int64_t)clock.tv_sec * second + clock.tv_nsec;
    struct rusage used;
    if (now_ns - w->looked_ns < 20 * millisecond || getrusage(RUSAGE_SELF, &used) != 0) {
        return;
    }
    w->looked_ns = now_ns;
    ckm_i_cpu_contention_note(&w->contention, now_ns, processor_ns(&used), used.ru_nivcsw);
    if (w->contention.busy && w->sleepers == NULL) {
        w->sleepers = ckm_i_cpu_sleepers_start(w->size);
        w->size = w->sleepers != NULL ? w->size : 0;
    } else if (!w->contention.busy && w->sleepers != NULL) {
        ckm_i_cpu_sleepers_end(w->sleepers);
        w->sleepers = NULL;
    }
}

void ckm_i_cpu_waiting_end(ckm_i_cpu_waiting *w)
{
    ckm_i_cpu_sleepers_end(w->sleepers);
    w->sleepers = NULL;
}
