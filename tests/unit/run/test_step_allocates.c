// SPDX-License-Identifier: Apache-2.0
// No step takes memory outside the region: on every level of the processor that oneDNN knows and with several numbers of
// threads, allocations in a step are counted. What oneDNN's interface takes for a list of arguments, some hundred bytes,
// is let through; buffers are not.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "zoo_step.h"

// The C library's own, under the names by which it lets them be replaced. Sanitizers have theirs.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define CANNOT_COUNT 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CANNOT_COUNT 1
#endif
#endif

#ifndef CANNOT_COUNT
static atomic_long largest;
static atomic_bool counting;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void count(size_t size)
{
    long known = atomic_load(&largest);
    while (atomic_load(&counting) && (long)size > known &&
           !atomic_compare_exchange_weak(&largest, &known, (long)size)) {
    }
}

void *malloc(size_t size)
{
    count(size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    count(n * size);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    count(size);
    return __libc_realloc(p, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    count(size);
    void *p = __libc_memalign(alignment, size);
    if (p != NULL) {
        *out = p;
    }
    return p != NULL ? 0 : 12;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    count(size);
    return __libc_memalign(alignment, size);
}
#endif

#ifndef CANNOT_COUNT
enum { MOST_BYTES = 2048 };

// Gives the largest allocation of two steps.
static long train(const char *network, int64_t side, int threads)
{
    ckm_autodiff_options derivation = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_program_options kernels = CKM_PROGRAM_OPTIONS_INIT;
    ckm_session_options options = CKM_SESSION_OPTIONS_INIT;
    ckm_session *session = NULL;
    ckm_step_result result;
    ckm_error err = CKM_ERROR_INIT;
    kernels.threads = threads;
    zoo_step s = zoo_step_of(network, 2, side, &derivation, &kernels);
    good(ckm_session_create(s.program, s.df, s.schedule, s.plan, &options, &session, &err), &err);
    atomic_store(&largest, 0);
    for (int64_t step = 0; step < 2; step++) {
        assert_int_equal(ckm_session_fill(session, 1, step, NULL), CKM_OK);
        atomic_store(&counting, true);
        ckm_status status = ckm_session_step(session, step, 0.01, &result, &err);
        atomic_store(&counting, false);
        good(status, &err);
    }
    ckm_session_free(session);
    zoo_step_dispose(&s);
    return atomic_load(&largest);
}

// In a process of its own: oneDNN looks at the level once.
static void check(const char *level, const char *network, int64_t side, int threads)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)setenv("DNNL_MAX_CPU_ISA", level, 1);
        long bytes = train(network, side, threads);
        if (bytes > MOST_BYTES) {
            print_error("%s, %d threads, %s: an allocation of %ld bytes in a step\n", level, threads, network, bytes);
        }
        _exit(bytes > MOST_BYTES ? 1 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("%s, %d threads, %s: failed", level, threads, network);
    }
}

#endif

static void test_levels(void **state)
{
    (void)state;
#ifdef CANNOT_COUNT
    print_message("SKIPPED: a sanitizer has an allocator of its own\n");
    skip();
#else
    static const char *const levels[] = {"SSE41", "AVX", "AVX2", "AVX512_CORE"};
    static const int threads[] = {1, 2, 8};
    for (int l = 0; l < 4; l++) {
        for (int t = 0; t < 3; t++) {
            check(levels[l], "MobileNet", 32, threads[t]);
            check(levels[l], "unet_mini", 48, threads[t]);
        }
        check(levels[l], "ResNet50", 64, 2);
        check(levels[l], "Swin-T", 56, 2);
    }
#endif
}

// The test can fail: a step that allocates is seen.
static void test_counts(void **state)
{
    (void)state;
#ifndef CANNOT_COUNT
    atomic_store(&largest, 0);
    atomic_store(&counting, true);
    void *volatile p = malloc(12345);
    atomic_store(&counting, false);
    free(p);
    assert_int_equal(atomic_load(&largest), 12345);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
