// SPDX-License-Identifier: Apache-2.0
// How threads wait for each other: when the machine counts as busy, by figures; and that a second team, asleep, makes the others
// sleep too where they would spin, by the processor time that they take, which does not depend on who else runs.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "run/cpu/cpu_threads.h"
#include "run/cpu/cpu_waiting.h"

int omp_get_num_procs(void);

static const int64_t millisecond = 1000000, second = 1000000000;

static void test_busy(void **state)
{
    (void)state;
    ckm_i_cpu_contention c = {.begin_processor_ns = 5 * second, .begin_switches = 100};
    // Too little time to judge; then a quiet window, and one in which a processor was lost every 12 milliseconds.
    ckm_i_cpu_contention_note(&c, 0, 5 * second + 99 * millisecond, 1000);
    assert_false(c.busy);
    ckm_i_cpu_contention_note(&c, 0, 5 * second + 100 * millisecond, 107);
    assert_false(c.busy);
    ckm_i_cpu_contention_note(&c, 7 * second, 5 * second + 200 * millisecond, 115);
    assert_true(c.busy);
    // What happens then is not counted, neither in this window nor in the next.
    ckm_i_cpu_contention_note(&c, 8 * second - 1, 6 * second, 9000);
    assert_true(c.busy);
    ckm_i_cpu_contention_note(&c, 8 * second, 6 * second + 50 * millisecond, 9100);
    assert_false(c.busy);
    ckm_i_cpu_contention_note(&c, 8 * second, 6 * second + 150 * millisecond, 9107);
    assert_false(c.busy);
}

static void test_busy_for_longer_each_time(void **state)
{
    (void)state;
    ckm_i_cpu_contention c = {.busy = false};
    int64_t now_ns = 0, processor_ns = 0, switches = 0;
    static const int64_t seconds[] = {1, 2, 4, 8, 16, 32, 64, 64};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        processor_ns += 300 * millisecond;
        switches += 24;
        ckm_i_cpu_contention_note(&c, now_ns, processor_ns, switches);
        assert_true(c.busy);
        assert_int_equal(c.busy_until_ns - now_ns, seconds[i] * second);
        now_ns = c.busy_until_ns;
        ckm_i_cpu_contention_note(&c, now_ns, processor_ns, switches);
        assert_false(c.busy);
    }
    // More than a second without a sign of it, and it begins anew.
    processor_ns += second + 1;
    ckm_i_cpu_contention_note(&c, now_ns, processor_ns, switches);
    ckm_i_cpu_contention_note(&c, now_ns, processor_ns + 100 * millisecond, switches + 8);
    assert_true(c.busy);
    assert_int_equal(c.busy_until_ns - now_ns, second);
}

// In a child of fork the system counts from 0 again.
static void test_count_begins_anew(void **state)
{
    (void)state;
    ckm_i_cpu_contention c = {.begin_processor_ns = 50 * second, .begin_switches = 1000};
    ckm_i_cpu_contention_note(&c, 0, 10 * millisecond, 3);
    assert_false(c.busy);
    ckm_i_cpu_contention_note(&c, 0, 110 * millisecond, 11);
    assert_true(c.busy);
}

static void nap_in_one(void *context, int64_t begin, int64_t end)
{
    (void)context;
    (void)end;
    struct timespec nap = {.tv_nsec = 10000000};
    if (begin == 0) {
        nanosleep(&nap, NULL);
    }
}

// Processor time of a number of loops in which all but one thread only wait.
static int64_t waiting_ns(int threads)
{
    struct timespec begin, end;
    ckm_i_cpu_parallel(threads, threads, 1, nap_in_one, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    for (int i = 0; i < 20; i++) {
        ckm_i_cpu_parallel(threads, threads, 1, nap_in_one, NULL);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    return (end.tv_sec - begin.tv_sec) * second + end.tv_nsec - begin.tv_nsec;
}

static void test_sleepers(void **state)
{
    (void)state;
    int threads = omp_get_num_procs();
    if (threads < 2) {
        print_message("one processor: the runtime never spins for long\n");
        skip();
    }
    int64_t spinning = waiting_ns(threads);
    ckm_i_cpu_sleepers *sleepers = ckm_i_cpu_sleepers_start(2);
    assert_non_null(sleepers);
    int64_t sleeping = waiting_ns(threads);
    // A child does not have them, and does not wait for them.
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        ckm_i_cpu_sleepers_end(sleepers);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ckm_i_cpu_sleepers_end(sleepers);
    int64_t again = waiting_ns(threads);
    print_message("processor time of 20 waits of 10 ms: %.2f ms, with sleepers %.2f, then %.2f\n",
                  (double)spinning * 1e-6, (double)sleeping * 1e-6, (double)again * 1e-6);
    assert_true(sleeping * 2 < spinning);
    assert_true(sleeping * 2 < again);
}

static int size_for(int threads)
{
    ckm_i_cpu_waiting waiting;
    ckm_i_cpu_waiting_begin(&waiting, threads);
    ckm_i_cpu_waiting_end(&waiting);
    return waiting.size;
}

static void test_who_decides(void **state)
{
    (void)state;
    int processors = omp_get_num_procs();
    int most = processors > 15 ? processors - 14 : 2;
    assert_int_equal(size_for(1), 0);
    assert_int_equal(size_for(processors + 1), 0);
    if (processors > 1) {
        assert_int_equal(size_for(processors), 2);
        assert_int_equal(size_for(most), processors - most + 2);
        assert_int_equal(setenv("GOMP_SPINCOUNT", "300000", 1), 0);
        assert_int_equal(size_for(processors), 0);
        assert_int_equal(unsetenv("GOMP_SPINCOUNT"), 0);
        assert_int_equal(setenv("OMP_WAIT_POLICY", "active", 1), 0);
        assert_int_equal(size_for(processors), 0);
        assert_int_equal(unsetenv("OMP_WAIT_POLICY"), 0);
    }
    if (most > 2) {
        assert_int_equal(size_for(most - 1), 0);
    }
}

int main(int argc, char **argv)
{
    // The runtime has read these by now.
    if (argc > 0 && (getenv("GOMP_SPINCOUNT") != NULL || getenv("OMP_WAIT_POLICY") != NULL)) {
        unsetenv("GOMP_SPINCOUNT");
        unsetenv("OMP_WAIT_POLICY");
        execv("/proc/self/exe", argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_busy_for_longer_each_time),
        cmocka_unit_test(test_count_begins_anew),
        cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_who_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
