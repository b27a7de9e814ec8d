// SPDX-License-Identifier: Apache-2.0
// Threads on GNU OpenMP's runtime, called through its interface rather than through pragmas: compilers other than gcc
// would bring their own runtime with them, and a second set of threads.
#include "run/cpu/cpu_threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"

int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
int omp_get_thread_limit(void);
int omp_get_dynamic(void);
void omp_set_dynamic(int dynamic);
void omp_set_num_threads(int threads);
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);

int ckm_i_cpu_set_threads(int threads)
{
    int before = omp_get_max_threads();
    int dynamic = omp_get_dynamic() != 0;
    if (before != abs(threads)) {
        omp_set_num_threads(abs(threads));
    }
    if (dynamic != (threads < 0)) {
        omp_set_dynamic(threads < 0);
    }
    return dynamic ? -before : before;
}

// The process in which this thread has had a team; 0: none. OpenMP's runtime keeps teams by thread, and so does this.
static _Thread_local pid_t team_process;

ckm_status ckm_i_cpu_may_have_team(int threads, ckm_error *err)
{
    pid_t here = threads > 1 ? getpid() : 0;
    if (here != 0 && team_process != 0 && team_process != here) {
        return ckm_i_error(
            err, CKM_ERR_UNSUPPORTED,
            "this process was forked by a thread that had trained with several threads, which a child does "
            "not have: use one thread here, or call from a thread that was started here");
    }
    team_process = here != 0 ? here : team_process;
    return CKM_OK;
}

// Threads that wait until all have been started.
typedef struct trial {
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool is_over;
} trial;

static void *wait_for_end(void *user)
{
    trial *t = user;
    pthread_mutex_lock(&t->lock);
    while (!t->is_over) {
        pthread_cond_wait(&t->over, &t->lock);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

// Threads of this process; 0 when the system does not say.
static nlink_t count_tasks(void)
{
    struct stat facts;
    return stat("/proc/self/task", &facts) == 0 ? facts.st_nlink : 0;
}

// A thread that has been joined may still count against the limit: waits until it does not, a second at most.
static void await_tasks(nlink_t wanted)
{
    struct timespec nap = {.tv_nsec = 100000};
    for (int i = 0; i < 10000 && count_tasks() > wanted; i++) {
        nanosleep(&nap, NULL);
    }
}

// Threads in addition to those that compute: one reads data, one samples the memory in use.
enum { OTHER_THREADS = 2 };

// How many of `most` more threads can be started; they end again. -1: out of memory.
static int try_threads(int most)
{
    trial t = {.lock = PTHREAD_MUTEX_INITIALIZER, .over = PTHREAD_COND_INITIALIZER};
    pthread_t *threads = ckm_i_malloc((size_t)most, sizeof *threads);
    if (threads == NULL) {
        return -1;
    }
    nlink_t before = count_tasks();
    sigset_t all;
    sigset_t mask;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &mask);
    int n = 0;
    while (n < most && pthread_create(&threads[n], NULL, wait_for_end, &t) == 0) {
        n++;
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    pthread_mutex_lock(&t.lock);
    t.is_over = true;
    pthread_cond_broadcast(&t.over);
    pthread_mutex_unlock(&t.lock);
    for (int i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    await_tasks(before);
    pthread_cond_destroy(&t.over);
    pthread_mutex_destroy(&t.lock);
    free(threads);
    return n;
}

bool ckm_i_cpu_can_start(int threads)
{
    return threads > 0 && try_threads(threads + OTHER_THREADS) == threads + OTHER_THREADS;
}

ckm_status ckm_i_cpu_available_threads(int wanted, int *available, ckm_error *err)
{
    // A team is never larger than OMP_THREAD_LIMIT, and oneDNN 3 computes wrong with fewer threads than a kernel was made for.
    int limit = omp_get_thread_limit();
    wanted = wanted < limit ? wanted : limit;
    if (wanted <= 1) {
        *available = 1;
        return CKM_OK;
    }
    // A smaller team makes the runtime end the threads that it does not need; when it starts them again for the next,
    // some of those may not be gone. So twice the threads without the first, and the other threads.
    int most = 2 * (wanted - 1) + OTHER_THREADS;
    int n = try_threads(most);
    if (n < 0) {
        return ckm_i_error_memory(err);
    }
    *available = n >= most ? wanted : n > OTHER_THREADS ? (n - OTHER_THREADS) / 2 + 1 : 1;
    return CKM_OK;
}

typedef struct region {
    int64_t n, grain;
    int parts;
    void (*part)(void *context, int64_t begin, int64_t end);
    void *context;
} region;

static void run_part(const region *r, int index)
{
    int64_t grains = (r->n + r->grain - 1) / r->grain;
    int64_t begin = grains * index / r->parts * r->grain;
    int64_t end = grains * (index + 1) / r->parts * r->grain;
    if (end > r->n) {
        end = r->n;
    }
    if (begin < end) {
        r->part(r->context, begin, end);
    }
}

// OpenMP may give fewer threads than asked for; each then takes more than one part.
static void region_body(void *data)
{
    const region *r = data;
    int threads = omp_get_num_threads();
    for (int i = omp_get_thread_num(); i < r->parts; i += threads) {
        run_part(r, i);
    }
}

void ckm_i_cpu_parallel(int threads, int64_t n, int64_t grain, void (*part)(void *context, int64_t begin, int64_t end),
                        void *context)
{
    int64_t grains = (n + grain - 1) / grain;
    int parts = grains < threads ? (int)grains : threads;
    if (parts <= 1) {
        if (n > 0) {
            part(context, 0, n);
        }
        return;
    }
    region r = {.n = n, .grain = grain, .parts = parts, .part = part, .context = context};
    // All of them, also for fewer parts: a smaller team would end threads that the next has to start again.
    GOMP_parallel(region_body, &r, (unsigned)threads, 0);
}
