// SPDX-License-Identifier: Apache-2.0
// Threads on GNU OpenMP's runtime, called through its interface rather than through pragmas: compilers other than gcc
// would bring a runtime of their own with them, and a second set of threads.
#include "run/cpu/cpu_threads.h"

#include <stddef.h>

int omp_get_max_threads(void);
int omp_get_num_threads(void);
int omp_get_thread_num(void);
void omp_set_num_threads(int threads);
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);

int ckm_i_cpu_set_threads(int threads)
{
    int before = omp_get_max_threads();
    if (before != threads) {
        omp_set_num_threads(threads);
    }
    return before;
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
    GOMP_parallel(region_body, &r, (unsigned)parts, 0);
}
