// SPDX-License-Identifier: Apache-2.0
// Engines in the helper's children: the same answers as in children of this process, one after the other, and none that is
// mistaken for the next where one is abandoned, asked to stop, or has no program.
#define _DEFAULT_SOURCE  // MAP_ANONYMOUS
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "milp/milp.h"

enum { ROWS = 12, ENDLESS = -1, NO_PROGRAM = -2, CRASH = -3 };

// max sum of x over rows x_i + x_(i+1) <= 1, whose relaxation gives half of all; the request is the number of columns.
static ckm_i_milp *make(int32_t n)
{
    ckm_i_milp *m = calloc(1, sizeof *m);
    assert_non_null(m);
    ckm_i_milp_init(m);
    for (int32_t j = 0; j < n; j++) {
        ckm_i_milp_add_col(m, -1.0, 0.0, 1.0, true);
    }
    for (int32_t i = 0; i < n; i++) {
        ckm_i_milp_add_row(m, -INFINITY, 1.0);
        ckm_i_milp_put(m, i, 1.0);
        ckm_i_milp_put(m, (i + 1) % n, 1.0);
    }
    return m;
}

static void drop(ckm_i_milp *m)
{
    ckm_i_milp_dispose(m);
    free(m);
}

typedef struct order {
    int32_t n_cols, special;
} order;

static ckm_i_milp *build(const void *context, const void *request, size_t request_bytes, const void **separate_context)
{
    const order *o = request;
    *separate_context = NULL;
    if (request_bytes != sizeof *o || *(const int *)context != 7 || o->special == NO_PROGRAM) {
        return NULL;
    }
    if (o->special == CRASH) {
        raise(SIGSEGV);
    }
    while (o->special == ENDLESS) {
        struct timespec nap = {.tv_sec = 1};
        nanosleep(&nap, NULL);
    }
    return make(o->n_cols);
}

static ckm_i_milp_helper *start_helper(void)
{
    static const int seven = 7;
    ckm_error err = CKM_ERROR_INIT;
    ckm_i_milp_helper *helper = NULL;
    if (ckm_i_milp_helper_start(build, &seven, &helper, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    return helper;
}

static ckm_i_milp_result solve(ckm_i_milp_helper *helper, order o, bool relax)
{
    ckm_i_milp *m = make(o.n_cols);
    ckm_i_milp_result result;
    ckm_i_milp_options options = {.relax = relax,
                                  .seconds = o.special == ENDLESS ? 0.2 : 30.0,
                                  .cutoff = INFINITY,
                                  .enough = INFINITY,
                                  .threads = 1,
                                  .helper = helper,
                                  .request = &o,
                                  .request_bytes = sizeof o};
    assert_int_equal(ckm_i_milp_solve(m, &options, &result, NULL), CKM_OK);
    drop(m);
    return result;
}

static void same_answers(void **state)
{
    (void)state;
    ckm_i_milp_helper *helper = start_helper();
    for (int32_t n = 3; n <= 41; n += 2) {
        for (int relax = 0; relax <= 1; relax++) {
            ckm_i_milp_result there = solve(helper, (order){n, 0}, relax);
            ckm_i_milp_result here = solve(NULL, (order){n, 0}, relax);
            assert_int_equal(there.status, CKM_I_MILP_OPTIMAL);
            assert_true(fabs(there.objective - here.objective) < 1e-9);
            assert_true(fabs(there.objective - (relax ? -n / 2.0 : -(n - 1) / 2.0)) < 1e-6);
            assert_non_null(there.x);
            ckm_i_milp_result_dispose(&there);
            ckm_i_milp_result_dispose(&here);
        }
    }
    ckm_i_milp_helper_end(helper);
}

static void what_fails_is_one_program(void **state)
{
    (void)state;
    ckm_i_milp_helper *helper = start_helper();
    for (int round = 0; round < 3; round++) {
        ckm_i_milp_result none = solve(helper, (order){ROWS, NO_PROGRAM}, true);
        assert_int_equal(none.status, CKM_I_MILP_STOPPED);
        assert_null(none.x);
        ckm_i_milp_result endless = solve(helper, (order){ROWS, ENDLESS}, true);  // asked to stop, which ends it
        assert_int_equal(endless.status, CKM_I_MILP_STOPPED);
        ckm_i_milp_result good = solve(helper, (order){ROWS, 0}, false);
        assert_int_equal(good.status, CKM_I_MILP_OPTIMAL);
        assert_true(fabs(good.objective + (double)ROWS / 2.0) < 1e-6);
        ckm_i_milp_result_dispose(&good);
    }
    ckm_i_milp_helper_end(helper);
}

static atomic_int *told;  // shared with children

static void tell(int number)
{
    (void)number;
    atomic_fetch_add(told, 1);
    _exit(1);
}

// The parent's handler of faults, such as Python's faulthandler, would say that the parent had crashed.
static void a_crash_calls_no_handler_of_the_parent(void **state)
{
    (void)state;
    struct sigaction mine = {.sa_handler = tell};
    struct sigaction before;
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(told, MAP_FAILED);
    assert_int_equal(sigaction(SIGSEGV, &mine, &before), 0);
    ckm_i_milp_helper *helper = start_helper();
    ckm_i_milp_result none = solve(helper, (order){ROWS, CRASH}, true);
    ckm_i_milp_result good = solve(helper, (order){ROWS, 0}, false);
    ckm_i_milp_helper_end(helper);
    assert_int_equal(sigaction(SIGSEGV, &before, NULL), 0);
    assert_int_equal(none.status, CKM_I_MILP_STOPPED);
    assert_int_equal(good.status, CKM_I_MILP_OPTIMAL);
    assert_int_equal(atomic_load(told), 0);
    ckm_i_milp_result_dispose(&good);
    munmap(told, sizeof *told);
}

static void abandoned_at_once(void **state)
{
    (void)state;
    ckm_i_milp_helper *helper = start_helper();
    for (int round = 0; round < 20; round++) {
        order o = {ROWS, round % 2 == 0 ? ENDLESS : 0};
        ckm_i_milp *m = make(ROWS);
        ckm_i_milp_job *job = NULL;
        ckm_i_milp_options options = {.relax = true,
                                      .seconds = 30.0,
                                      .cutoff = INFINITY,
                                      .enough = INFINITY,
                                      .threads = 1,
                                      .helper = helper,
                                      .request = &o,
                                      .request_bytes = sizeof o};
        assert_int_equal(ckm_i_milp_start(m, &options, &job, NULL), CKM_OK);
        ckm_i_milp_abandon(job);
        drop(m);
        ckm_i_milp_result good = solve(helper, (order){ROWS, 0}, true);
        assert_int_equal(good.status, CKM_I_MILP_OPTIMAL);
        ckm_i_milp_result_dispose(&good);
    }
    ckm_i_milp_helper_end(helper);
    ckm_i_milp_helper_end(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_answers),
        cmocka_unit_test(what_fails_is_one_program),
        cmocka_unit_test(a_crash_calls_no_handler_of_the_parent),
        cmocka_unit_test(abandoned_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
