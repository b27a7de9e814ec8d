// SPDX-License-Identifier: Apache-2.0
// What members of options mean that are 0, and what CKM_NONE asks for instead.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "solve/core/solve_options.h"

static void assert_same(const ckm_solve_options *a, const ckm_solve_options *b)
{
    assert_true(a->time_limit_seconds == b->time_limit_seconds && a->gap == b->gap && a->threads == b->threads);
    assert_true(a->size == b->size && a->budget_bytes == b->budget_bytes && a->cost_limit == b->cost_limit);
    assert_true(a->seed == b->seed && a->iteration_limit == b->iteration_limit && a->formulation == b->formulation);
}

static void zero_is_the_default(void **state)
{
    ckm_solve_options given = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_options own;
    (void)state;
    assert_int_equal(ckm_i_solve_options_read(&given, 7.0, &own, NULL), CKM_OK);
    assert_true(own.time_limit_seconds == 7.0 && own.gap == 1e-4);
    assert_int_equal(own.threads, 1);
    assert_int_equal(own.cost_limit, -1);
    assert_int_equal(own.seed, 0);
    ckm_solve_options usual = ckm_i_solve_options_usual();
    own.time_limit_seconds = 60.0;
    assert_same(&own, &usual);
    assert_int_equal(ckm_i_solve_options_read(NULL, 60.0, &own, NULL), CKM_OK);
    assert_same(&own, &usual);
}

static void none_is_zero_or_no_limit(void **state)
{
    ckm_solve_options given = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_options own;
    (void)state;
    given.time_limit_seconds = CKM_NONE;
    given.gap = CKM_NONE;
    assert_int_equal(ckm_i_solve_options_read(&given, 60.0, &own, NULL), CKM_OK);
    assert_true(own.time_limit_seconds < 0 && own.gap == 0.0);
}

static void what_is_set_stays(void **state)
{
    ckm_solve_options given = CKM_SOLVE_OPTIONS_INIT;
    ckm_solve_options own;
    (void)state;
    given.time_limit_seconds = 0.25;
    given.gap = 0.5;
    given.threads = 3;
    given.cost_limit = 9;
    assert_int_equal(ckm_i_solve_options_read(&given, 60.0, &own, NULL), CKM_OK);
    assert_same(&own, &given);
}

static void other_negative_gaps_are_refused(void **state)
{
    const double gaps[] = {-0.5, -2.0, NAN};
    (void)state;
    for (size_t i = 0; i < sizeof gaps / sizeof gaps[0]; i++) {
        ckm_solve_options given = CKM_SOLVE_OPTIONS_INIT;
        ckm_solve_options own = {.threads = 5};
        ckm_error err = CKM_ERROR_INIT;
        given.gap = gaps[i];
        assert_int_equal(ckm_i_solve_options_read(&given, 60.0, &own, &err), CKM_ERR_ARGUMENT);
        assert_non_null(strstr(err.message, "gap"));
        assert_int_equal(own.threads, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_is_the_default),
        cmocka_unit_test(none_is_zero_or_no_limit),
        cmocka_unit_test(what_is_set_stays),
        cmocka_unit_test(other_negative_gaps_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
