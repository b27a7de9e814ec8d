// SPDX-License-Identifier: Apache-2.0
// Errors and status names.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void fills_every_member(void **state)
{
    (void)state;
    ckm_error err;
    memset(&err, 0x5a, sizeof err);
    assert_int_equal(ckm_i_error(&err, CKM_ERR_FORMAT, "bad %s at %d", "thing", 7), CKM_ERR_FORMAT);
    assert_int_equal(err.code, CKM_ERR_FORMAT);
    assert_int_equal(err.line, 0);
    assert_int_equal(err.byte, -1);
    assert_string_equal(err.file, "");
    assert_string_equal(err.message, "bad thing at 7");

    assert_int_equal(ckm_i_error_at(&err, CKM_ERR_IO, "a.json", 3, 99, "x"), CKM_ERR_IO);
    assert_int_equal(err.line, 3);
    assert_int_equal(err.byte, 99);
    assert_string_equal(err.file, "a.json");

    assert_int_equal(ckm_i_error_memory(&err), CKM_ERR_MEMORY);
    assert_string_equal(err.message, "out of memory");
    assert_string_equal(err.file, "");
}

static void works_without_an_error_object(void **state)
{
    (void)state;
    assert_int_equal(ckm_i_error(NULL, CKM_ERR_FORMAT, "%d", 1), CKM_ERR_FORMAT);
    assert_int_equal(ckm_i_error_at(NULL, CKM_ERR_IO, "f", 1, 2, "x"), CKM_ERR_IO);
    assert_int_equal(ckm_i_error_memory(NULL), CKM_ERR_MEMORY);
    assert_int_equal(ckm_i_error_in_file(NULL, CKM_ERR_IO, "f"), CKM_ERR_IO);
}

// A message is one line, whatever a hostile name puts into it.
static void message_is_one_line(void **state)
{
    (void)state;
    ckm_error err;
    (void)ckm_i_error(&err, CKM_ERR_FORMAT, "name %s", "a\nb\rc");
    assert_string_equal(err.message, "name a b c");
}

static void long_texts_are_cut_and_terminated(void **state)
{
    (void)state;
    ckm_error err;
    char *text = malloc(10000);
    assert_non_null(text);
    memset(text, 'x', 9999);
    text[9999] = '\0';
    (void)ckm_i_error_at(&err, CKM_ERR_FORMAT, text, 0, -1, "%s", text);
    assert_int_equal(strlen(err.message), sizeof err.message - 1);
    assert_int_equal(strlen(err.file), sizeof err.file - 1);
    free(text);
}

static void arguments_may_point_into_the_error(void **state)
{
    (void)state;
    ckm_error err;
    (void)ckm_i_error_at(&err, CKM_ERR_FORMAT, "in.json", 1, 2, "inner");
    (void)ckm_i_error_at(&err, CKM_ERR_UNSUPPORTED, err.file, err.line, err.byte, "outer: %s", err.message);
    assert_string_equal(err.message, "outer: inner");
    assert_string_equal(err.file, "in.json");
    assert_int_equal(err.line, 1);
}

static void file_is_added_once(void **state)
{
    (void)state;
    ckm_error err;
    (void)ckm_i_error(&err, CKM_ERR_FORMAT, "m");
    assert_int_equal(ckm_i_error_in_file(&err, CKM_ERR_FORMAT, "first"), CKM_ERR_FORMAT);
    assert_int_equal(ckm_i_error_in_file(&err, CKM_ERR_FORMAT, "second"), CKM_ERR_FORMAT);
    assert_string_equal(err.file, "first");
    (void)ckm_i_error(&err, CKM_ERR_FORMAT, "m");
    assert_int_equal(ckm_i_error_in_file(&err, CKM_OK, "none"), CKM_OK);
    assert_string_equal(err.file, "");
}

static ckm_status try_all(ckm_status second, int *reached)
{
    ckm_status status = CKM_OK;
    CKM_I_TRY(CKM_OK);
    *reached = 1;
    CKM_I_TRY(second);
    *reached = 2;
cleanup:
    return status;
}

static void try_stops_at_the_first_failure(void **state)
{
    (void)state;
    int reached = 0;
    assert_int_equal(try_all(CKM_ERR_IO, &reached), CKM_ERR_IO);
    assert_int_equal(reached, 1);
    assert_int_equal(try_all(CKM_OK, &reached), CKM_OK);
    assert_int_equal(reached, 2);
}

static void every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int i = CKM_OK; i <= CKM_ERR_STOPPED; i++) {
        assert_string_not_equal(ckm_status_name((ckm_status)i), "unknown status");
        for (int j = CKM_OK; j < i; j++) {
            assert_string_not_equal(ckm_status_name((ckm_status)i), ckm_status_name((ckm_status)j));
        }
    }
    assert_string_equal(ckm_status_name((ckm_status)(CKM_ERR_STOPPED + 1)), "unknown status");
    assert_string_equal(ckm_status_name((ckm_status)-1), "unknown status");
}

static void version_is_consistent(void **state)
{
    (void)state;
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", CKM_VERSION_MAJOR, CKM_VERSION_MINOR, CKM_VERSION_PATCH);
    assert_string_equal(text, CKM_VERSION_STRING);
    assert_string_equal(ckm_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_every_member),
        cmocka_unit_test(works_without_an_error_object),
        cmocka_unit_test(message_is_one_line),
        cmocka_unit_test(long_texts_are_cut_and_terminated),
        cmocka_unit_test(arguments_may_point_into_the_error),
        cmocka_unit_test(file_is_added_once),
        cmocka_unit_test(try_stops_at_the_first_failure),
        cmocka_unit_test(every_status_has_its_own_name),
        cmocka_unit_test(version_is_consistent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
