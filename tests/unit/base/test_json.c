// SPDX-License-Identifier: Apache-2.0
// Reading JSON: each typed getter on good, absent, wrong and extreme values, and what the errors say.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/rng.h"

static json_t *parse(const char *text)
{
    ckm_error err;
    json_t *root = NULL;
    if (ckm_i_json_parse(text, strlen(text), "t.json", &root, &err) != CKM_OK) {
        fail_msg("%s: %s", text, err.message);
    }
    return root;
}

static void syntax_errors_carry_their_place(void **state)
{
    (void)state;
    const char text[] = "{\n \"a\": 1,\n \"b\": ]\n}";
    ckm_error err;
    json_t *root = (json_t *)&err;
    assert_int_equal(ckm_i_json_parse(text, sizeof text - 1, "t.json", &root, &err), CKM_ERR_FORMAT);
    assert_ptr_equal(root, &err);  // outputs stay as they were
    assert_string_equal(err.file, "t.json");
    assert_int_equal(err.line, 3);
    assert_in_range(err.byte, 12, 21);
    assert_non_null(strstr(err.message, "JSON"));
}

static void hostile_texts_fail(void **state)
{
    (void)state;
    const struct {
        const char *text;
        size_t size;
    } cases[] = {
        {"", 0},
        {"{", 1},
        {"{}x", 3},
        {"{\"a\":1,\"a\":2}", 13},
        {"\xff\xfe", 2},
        {"[1", 2},
        {"\0", 1},
        {"{\"a\":1e999}", 11},
        {"[99999999999999999999]", 22},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        json_t *root = NULL;
        assert_int_equal(ckm_i_json_parse(cases[i].text, cases[i].size, "t", &root, &err), CKM_ERR_FORMAT);
        assert_null(root);
        assert_int_equal(err.code, CKM_ERR_FORMAT);
        assert_true(err.message[0] != '\0');
    }
}

static void deep_nesting_fails_instead_of_crashing(void **state)
{
    (void)state;
    const size_t depth = 200000;
    char *text = malloc(depth);
    assert_non_null(text);
    memset(text, '[', depth);
    json_t *root = NULL;
    assert_int_equal(ckm_i_json_parse(text, depth, "t", &root, NULL), CKM_ERR_FORMAT);
    free(text);
}

static void integers_have_ranges(void **state)
{
    (void)state;
    json_t *root = parse("{\"n\": 5, \"x\": 5.0, \"s\": \"5\", \"big\": 9223372036854775807}");
    ckm_i_json_place place = ckm_i_json_root("t.json");
    ckm_error err;
    int64_t out = -7;
    assert_int_equal(ckm_i_json_get_int(root, &place, "n", true, 0, 5, &out, &err), CKM_OK);
    assert_int_equal(out, 5);
    assert_int_equal(ckm_i_json_get_int(root, &place, "big", true, 0, INT64_MAX, &out, &err), CKM_OK);
    assert_true(out == INT64_MAX);
    out = -7;
    assert_int_equal(ckm_i_json_get_int(root, &place, "n", true, 6, INT64_MAX, &out, &err), CKM_ERR_FORMAT);
    assert_string_equal(err.message, "n: 5 is out of range: must be at least 6");
    assert_int_equal(ckm_i_json_get_int(root, &place, "n", true, 0, 4, &out, &err), CKM_ERR_FORMAT);
    assert_string_equal(err.message, "n: 5 is out of range: must be from 0 to 4");
    assert_int_equal(ckm_i_json_get_int(root, &place, "x", true, 0, 9, &out, &err), CKM_ERR_FORMAT);
    assert_string_equal(err.message, "x: must be an integer");
    assert_int_equal(ckm_i_json_get_int(root, &place, "s", true, 0, 9, &out, &err), CKM_ERR_FORMAT);
    assert_int_equal(ckm_i_json_get_int(root, &place, "none", true, 0, 9, &out, &err), CKM_ERR_FORMAT);
    assert_non_null(strstr(err.message, "\"none\" is missing"));
    assert_int_equal(ckm_i_json_get_int(root, &place, "none", false, 0, 9, &out, &err), CKM_OK);
    assert_int_equal(out, -7);
    json_decref(root);
}

static void other_types_are_checked(void **state)
{
    (void)state;
    json_t *root = parse("{\"t\": true, \"n\": 1, \"s\": \"text\", \"a\": [1, 2]}");
    ckm_i_json_place place = ckm_i_json_root("t.json");
    ckm_error err;
    bool flag = false;
    const char *text = NULL;
    const json_t *array = NULL;
    assert_int_equal(ckm_i_json_get_bool(root, &place, "t", &flag, &err), CKM_OK);
    assert_true(flag);
    assert_int_equal(ckm_i_json_get_bool(root, &place, "none", &flag, &err), CKM_OK);
    assert_true(flag);
    assert_int_equal(ckm_i_json_get_bool(root, &place, "n", &flag, &err), CKM_ERR_FORMAT);
    assert_string_equal(err.message, "n: must be true or false");
    assert_int_equal(ckm_i_json_get_text(root, &place, "s", true, &text, &err), CKM_OK);
    assert_string_equal(text, "text");
    assert_int_equal(ckm_i_json_get_text(root, &place, "n", true, &text, &err), CKM_ERR_FORMAT);
    assert_int_equal(ckm_i_json_get_text(root, &place, "none", true, &text, &err), CKM_ERR_FORMAT);
    assert_string_equal(text, "text");
    assert_int_equal(ckm_i_json_get_array(root, &place, "a", true, &array, &err), CKM_OK);
    assert_int_equal(json_array_size(array), 2);
    assert_int_equal(ckm_i_json_get_array(root, &place, "s", true, &array, &err), CKM_ERR_FORMAT);
    assert_int_equal(ckm_i_json_get_array(root, &place, "none", false, &array, &err), CKM_OK);
    assert_int_equal(json_array_size(array), 2);
    json_decref(root);
}

static void places_read_like_code(void **state)
{
    (void)state;
    ckm_i_json_place root = ckm_i_json_root("t.json");
    ckm_i_json_place ops = ckm_i_json_member(&root, "ops");
    ckm_i_json_place op = ckm_i_json_element(&ops, 3);
    ckm_i_json_place inputs = ckm_i_json_member(&op, "inputs");
    ckm_i_json_place input = ckm_i_json_element(&inputs, 1);
    ckm_error err;
    assert_string_equal(input.path, "ops[3].inputs[1]");
    assert_int_equal(ckm_i_json_error(&err, &input, "is %d", 9), CKM_ERR_FORMAT);
    assert_string_equal(err.message, "ops[3].inputs[1]: is 9");
    assert_string_equal(err.file, "t.json");
    for (int i = 0; i < 100; i++) {  // paths of any depth stay inside their buffer
        input = ckm_i_json_member(&input, "a-rather-long-member-name-that-goes-on-and-on");
        input = ckm_i_json_element(&input, SIZE_MAX);
    }
    assert_true(strlen(input.path) < sizeof input.path);
}

static void headers_are_checked(void **state)
{
    (void)state;
    const struct {
        const char *text, *message;  // NULL: accepted
    } cases[] = {
        {"{\"format\": \"f\", \"version\": 1}", NULL},
        {"{\"format\": \"f\", \"version\": 1, \"more\": []}", NULL},
        {"[]", "must be a JSON object"},
        {"{}", "\"format\" is missing"},
        {"{\"format\": 1, \"version\": 1}", "format: must be a string"},
        {"{\"format\": \"g\", \"version\": 1}", "format is \"g\", expected \"f\""},
        {"{\"format\": \"f\"}", "\"version\" is missing"},
        {"{\"format\": \"f\", \"version\": 2}", "version is 2"},
        {"{\"format\": \"f\", \"version\": \"1\"}", "version: must be an integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        json_t *root = parse(cases[i].text);
        ckm_status status = ckm_i_json_check_header(root, "t.json", "f", &err);
        json_decref(root);
        if (cases[i].message == NULL) {
            assert_int_equal(status, CKM_OK);
        } else {
            assert_int_equal(status, CKM_ERR_FORMAT);
            assert_non_null(strstr(err.message, cases[i].message));
            assert_string_equal(err.file, "t.json");
        }
    }
}

typedef struct members {
    json_t *object;
    bool repeated;
} members;

static ckm_status collect(const char *key, json_t *value, void *user, ckm_error *err)
{
    members *m = user;
    (void)err;
    m->repeated = m->repeated || json_object_get(m->object, key) != NULL;
    return json_object_set(m->object, key, value) == 0 ? CKM_OK : CKM_ERR_MEMORY;
}

// Read member by member an object is what it is when read as a whole, and what is refused is refused.
static void compare_with_whole(const char *text, size_t size)
{
    json_error_t problem;
    ckm_error err = CKM_ERROR_INIT;
    members m = {json_object(), false};
    json_t *whole = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    ckm_status status = ckm_i_json_members(text, size, "t.json", collect, &m, &err);
    bool accepted = status == CKM_OK && !m.repeated;
    if (accepted != (whole != NULL && json_is_object(whole)) || (accepted && !json_equal(whole, m.object))) {
        fail_msg("%.*s: %s; as a whole: %s", (int)size, text, err.message, problem.text);
    }
    if (status != CKM_OK) {
        assert_int_equal(status, CKM_ERR_FORMAT);
        assert_string_equal(err.file, "t.json");
    }
    json_decref(whole);
    json_decref(m.object);
}

static void members_one_by_one(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "{",
        "}",
        "{}",
        " { } ",
        "{}x",
        "{} {}",
        "[]",
        "[1]",
        "1",
        "\"a\"",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,,\"b\":2}",
        "{\"a\":1}}",
        "{\"a\":[}]}",
        "{\"a\":{]}",
        "{\"a\":\"}\"}",
        "{\"a\":\"\\\"}\"}",
        "{\"a\\\":1}",
        "{\"\\u0041\":1}",
        "{\"\\u0000\":1}",
        "{\"a\":tru}",
        "{\"a\":true false}",
        "{\"a\":1,\"a\":2}",
        "{\"a\":{\"b\":1,\"b\":2}}",
        "{\"\xff\":1}",
        "{\"a\":1\n,\t\"b\" : [ {} , \"x\" ]\r}",
        "{\"a\" 1}",
        "{a:1}",
        "{\"a\":1",
        "{\"a\":\"",
        "{\"a",
        "{\"a\":1e999}",
        "{\"a\":-0.5}",
        "{\"a\":[[[[]]]]}",
        "{\"a\":]}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        compare_with_whole(texts[i], strlen(texts[i]));
    }
    // Texts that are broken at random places.
    static const char sound[] =
        "{\"a\": {\"dtype\": \"F32\", \"shape\": [1, 2], \"o\": [0, 8]}, \"b\\n\": [\"}\", {}], "
        "\"c\": \"\\\\\", \"__metadata__\": {\"k\": \"v,]\"}, \"d\": -1.5e3, \"e\": null}";
    static const char alphabet[] = "{}[]\",:\\ 1ae-";
    ckm_i_rng rng = {7};
    for (int round = 0; round < 20000; round++) {
        char text[sizeof sound];
        memcpy(text, sound, sizeof sound);
        for (uint32_t n = 1 + ckm_i_rng_below(&rng, 3); n > 0; n--) {
            text[ckm_i_rng_below(&rng, sizeof sound - 1)] = alphabet[ckm_i_rng_below(&rng, sizeof alphabet - 1)];
        }
        compare_with_whole(text, round % 4 == 0 ? ckm_i_rng_below(&rng, sizeof sound) : sizeof sound - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(syntax_errors_carry_their_place),
        cmocka_unit_test(hostile_texts_fail),
        cmocka_unit_test(deep_nesting_fails_instead_of_crashing),
        cmocka_unit_test(integers_have_ranges),
        cmocka_unit_test(other_types_are_checked),
        cmocka_unit_test(places_read_like_code),
        cmocka_unit_test(headers_are_checked),
        cmocka_unit_test(members_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
