// SPDX-License-Identifier: Apache-2.0
// UTF-8 recognised, cut and cleaned; JSON strings and numbers written.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/base.h>

#include "base/text.h"

static void utf8_sequences_are_recognised(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"", 0},
        {"a", 1},
        {"\x7f", 1},
        {"\xc3\xa4", 2},
        {"\xe2\x82\xac", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\xef\xbf\xbf", 3},
        {"\xc2\x80", 2},
        {"\x80", 0},
        {"\xbf", 0},
        {"\xc3", 0},
        {"\xc3"
         "a",
         0},
        {"\xe2\x82", 0},
        {"\xf0\x9f\x98", 0},
        {"\xc0\x80", 0},
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},  // overlong
        {"\xed\xa0\x80", 0},
        {"\xed\xbf\xbf", 0},  // surrogates
        {"\xf4\x90\x80\x80", 0},
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},  // too large
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (ckm_i_text_utf8(cases[i].text) != cases[i].length) {
            fail_msg("case %zu", i);
        }
    }
}

static void copies_end_between_characters(void **state)
{
    (void)state;
    char room[8];
    ckm_i_text_copy(room, sizeof room, "1234567");
    assert_string_equal(room, "1234567");
    ckm_i_text_copy(room, sizeof room, "12345678");
    assert_string_equal(room, "1234567");
    ckm_i_text_copy(room, sizeof room, "12345\xe2\x82\xac");
    assert_string_equal(room, "12345");
    ckm_i_text_copy(room, sizeof room, "1234\xe2\x82\xac");
    assert_string_equal(room, "1234\xe2\x82\xac");
    ckm_i_text_copy(room, 1, "1");
    assert_string_equal(room, "");
}

static void cleaning_leaves_one_printable_line(void **state)
{
    (void)state;
    char text[] = "a\nb\tc\x7f\x01 \xc3\xa4 \xc3 \xff \xe2\x82";
    ckm_i_text_clean(text);
    assert_string_equal(text, "a b c   \xc3\xa4 ? ? ??");
}

typedef void (*write_fn)(FILE *to, const void *value);

static void write_text(FILE *to, const void *value)
{
    ckm_json_write_text(to, value);
}

static void write_number(FILE *to, const void *value)
{
    ckm_json_write_number(to, *(const double *)value);
}

static void assert_written(write_fn write, const void *value, const char *expected)
{
    char *written = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&written, &size);
    assert_non_null(to);
    write(to, value);
    fclose(to);
    assert_string_equal(written, expected);
    free(written);
}

static void json_strings_are_escaped(void **state)
{
    (void)state;
    assert_written(write_text, "", "\"\"");
    assert_written(write_text, "a\"b\\c/\n\x1f\x7f", "\"a\\\"b\\\\c/\\u000a\\u001f\\u007f\"");
    assert_written(write_text, "\xc3\xa4\xff", "\"\xc3\xa4\\ufffd\"");
}

static void numbers_are_short_and_exact(void **state)
{
    (void)state;
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0.0, "0"},        {121.5, "121.5"}, {0.1, "0.1"},       {-2.0, "-2"},
        {1e300, "1e+300"}, {NAN, "null"},    {INFINITY, "null"}, {1.0 / 3.0, "0.3333333333333333"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_written(write_number, &cases[i].number, cases[i].text);
    }
}

static void case_is_that_of_a_to_z(void **state)
{
    (void)state;
    assert_true(ckm_i_text_same("", ""));
    assert_true(ckm_i_text_same("ViT-B16.ONNX", "vit-b16.onnX"));
    assert_false(ckm_i_text_same("A100", "A10"));
    assert_false(ckm_i_text_same("A10", "A100"));
    // '@' and '[' are next to the capital letters, '`' and '{' are as far from the small ones.
    assert_false(ckm_i_text_same("@", "`"));
    assert_false(ckm_i_text_same("[", "{"));
    assert_false(ckm_i_text_same("\xc4", "\xe4"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_sequences_are_recognised),      cmocka_unit_test(copies_end_between_characters),
        cmocka_unit_test(cleaning_leaves_one_printable_line), cmocka_unit_test(json_strings_are_escaped),
        cmocka_unit_test(numbers_are_short_and_exact),        cmocka_unit_test(case_is_that_of_a_to_z),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
