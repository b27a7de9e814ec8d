// SPDX-License-Identifier: Apache-2.0
// Checked allocation, growing arrays, checked arithmetic.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/checked.h"

static void overflowing_sizes_fail(void **state)
{
    (void)state;
    assert_null(ckm_i_malloc(SIZE_MAX, 2));
    assert_null(ckm_i_calloc(SIZE_MAX / 2, 3));
    assert_null(ckm_i_malloc(1, SIZE_MAX));
    char *block = ckm_i_malloc(4, 1);
    assert_non_null(block);
    memcpy(block, "abc", 4);
    assert_null(ckm_i_realloc(block, SIZE_MAX, 2));
    assert_string_equal(block, "abc");  // a failed realloc leaves the block alone
    free(block);
}

static void nothing_is_a_valid_size(void **state)
{
    (void)state;
    void *a = ckm_i_malloc(0, 8);
    void *b = ckm_i_calloc(8, 0);
    void *c = ckm_i_memdup("", 0, 1);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    a = ckm_i_realloc(a, 0, 1);
    assert_non_null(a);
    free(a);
    free(b);
    free(c);
}

static void calloc_clears(void **state)
{
    (void)state;
    unsigned char *bytes = ckm_i_calloc(100, 7);
    assert_non_null(bytes);
    for (size_t i = 0; i < 700; i++) {
        assert_int_equal(bytes[i], 0);
    }
    free(bytes);
}

static void copies_are_equal_and_apart(void **state)
{
    (void)state;
    const int32_t numbers[] = {3, 1, 4, 1, 5};
    int32_t *copy = ckm_i_memdup(numbers, 5, sizeof numbers[0]);
    char *text = ckm_i_strdup("text");
    assert_non_null(copy);
    assert_non_null(text);
    assert_memory_equal(copy, numbers, sizeof numbers);
    assert_ptr_not_equal(copy, numbers);
    assert_string_equal(text, "text");
    free(copy);
    free(text);
}

static void arrays_grow_and_keep_their_content(void **state)
{
    (void)state;
    int64_t *items = NULL;
    int32_t n = 0;
    int32_t cap = 0;
    for (int32_t i = 0; i < 10000; i++) {
        assert_true(CKM_I_GROW(items, n, cap));
        assert_true(cap > n);
        items[n++] = (int64_t)i * i;
    }
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(items[i], (int64_t)i * i);
    }
    free(items);

    char *letters = NULL;
    int64_t wide_cap = 0;
    for (int64_t i = 0; i < 1000; i++) {
        assert_true(CKM_I_GROW(letters, i, wide_cap));
        letters[i] = 'x';
    }
    free(letters);
}

static void a_full_array_at_the_limit_does_not_grow(void **state)
{
    (void)state;
    char *items = NULL;
    int32_t cap = INT32_MAX - 1;
    int32_t n = cap;
    assert_false(CKM_I_GROW(items, n, cap));
    assert_int_equal(cap, INT32_MAX - 1);
    assert_null(items);
    assert_true(CKM_I_GROW(items, n - 1, cap));  // there is still room for one
}

static void sums_and_products_are_checked(void **state)
{
    (void)state;
    int64_t out = 0;
    assert_true(ckm_i_add(INT64_MAX - 1, 1, &out));
    assert_true(out == INT64_MAX);
    assert_false(ckm_i_add(INT64_MAX, 1, &out));
    assert_false(ckm_i_add(INT64_MIN, -1, &out));
    assert_true(ckm_i_mul(INT64_C(3037000499), INT64_C(3037000499), &out));
    assert_true(out == INT64_C(9223372030926249001));
    assert_false(ckm_i_mul(INT64_C(3037000500), INT64_C(3037000500), &out));
    assert_false(ckm_i_mul(INT64_MIN, -1, &out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overflowing_sizes_fail),
        cmocka_unit_test(nothing_is_a_valid_size),
        cmocka_unit_test(calloc_clears),
        cmocka_unit_test(copies_are_equal_and_apart),
        cmocka_unit_test(arrays_grow_and_keep_their_content),
        cmocka_unit_test(a_full_array_at_the_limit_does_not_grow),
        cmocka_unit_test(sums_and_products_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
