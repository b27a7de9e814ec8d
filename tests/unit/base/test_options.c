// SPDX-License-Identifier: Apache-2.0
// Structures of options from programs that were compiled with older and newer headers: version 1 has two members, version
// 2, which this library would have, three, and version 3 four.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

typedef struct options_1 {
    size_t size;
    int64_t first;
} options_1;

typedef struct options_2 {
    size_t size;
    int64_t first;
    int64_t second;
} options_2;

typedef struct options_3 {
    size_t size;
    int64_t first;
    int64_t second;
    int64_t third;
} options_3;

static const options_2 defaults = {sizeof(options_2), 10, 20};

static ckm_status read_them(const void *given, options_2 *own, ckm_error *err)
{
    *own = defaults;
    return CKM_I_OPTIONS_READ(options_2, own, first, given, err);
}

static void none_are_the_defaults(void **state)
{
    options_2 own;
    (void)state;
    assert_int_equal(read_them(NULL, &own, NULL), CKM_OK);
    assert_memory_equal(&own, &defaults, sizeof own);
}

static void the_same_version_is_copied(void **state)
{
    const options_2 given = {sizeof given, 1, 2};
    options_2 own;
    (void)state;
    assert_int_equal(read_them(&given, &own, NULL), CKM_OK);
    assert_memory_equal(&own, &given, sizeof own);
}

// What the program does not know of is the default, and what lies behind its structure is not read.
static void an_older_program_gets_defaults(void **state)
{
    const struct {
        options_1 options;
        int64_t other;
    } given = {{sizeof(options_1), 1}, 99};
    options_2 own;
    (void)state;
    assert_int_equal(read_them(&given, &own, NULL), CKM_OK);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(own.first, 1);
    assert_int_equal(own.second, 20);
}

static void a_newer_program_may_use_what_there_is(void **state)
{
    options_3 given = {sizeof given, 1, 2, 0};
    options_2 own;
    ckm_error err = CKM_ERROR_INIT;
    (void)state;
    assert_int_equal(read_them(&given, &own, &err), CKM_OK);
    assert_int_equal(own.size, sizeof own);
    assert_int_equal(own.first, 1);
    assert_int_equal(own.second, 2);
    for (unsigned bit = 0; bit < 64; bit++) {
        given.third = (int64_t)(UINT64_C(1) << bit);
        assert_int_equal(read_them(&given, &own, &err), CKM_ERR_ARGUMENT);
        assert_memory_equal(&own, &defaults, sizeof own);
        assert_non_null(strstr(err.message, "options_2"));
        assert_non_null(strstr(err.message, "link the newer library"));
    }
}

static void what_is_no_size_is_refused(void **state)
{
    const size_t wrong[] = {0, 1, sizeof(options_1) - 1, 4097, SIZE_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const options_2 given = {wrong[i], 1, 2};
        options_2 own;
        ckm_error err = CKM_ERROR_INIT;
        assert_int_equal(read_them(&given, &own, &err), CKM_ERR_ARGUMENT);
        assert_memory_equal(&own, &defaults, sizeof own);
        assert_non_null(strstr(err.message, "begin with OPTIONS_2_INIT"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_are_the_defaults),          cmocka_unit_test(the_same_version_is_copied),
        cmocka_unit_test(an_older_program_gets_defaults), cmocka_unit_test(a_newer_program_may_use_what_there_is),
        cmocka_unit_test(what_is_no_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
