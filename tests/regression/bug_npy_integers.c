// SPDX-License-Identifier: Apache-2.0
// Integers of .npy files that the network's type does not hold: they were cut to 32 bits without a word, and counting the
// classes of a label of 2^31 - 1 overflowed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_files.h"

typedef struct fixture {
    char folder[64];
    ckm_data_field input;
    ckm_data_options options;
} fixture;

static void open_fixture(fixture *f, ckm_dtype input)
{
    data_files_folder(f->folder, sizeof f->folder);
    f->input = (ckm_data_field){"x", input, {1, {2}}, 0};
    f->options = (ckm_data_options)CKM_DATA_OPTIONS_INIT;
    f->options.n_inputs = 1;
    f->options.inputs = &f->input;
    f->options.labels.limit = 0;
}

static ckm_status read_one(fixture *f, const int64_t *x, int64_t y, int64_t *classes, int64_t *first, ckm_error *err)
{
    ckm_data *data = NULL;
    union {
        int64_t wide[2];
        int32_t narrow[2];
    } values = {{0}};
    int32_t label = 0;
    void *inputs[] = {&values};
    data_files_npy(f->folder, "x.npy", "<i8", "(1, 2)", x, 16);
    data_files_npy(f->folder, "y.npy", "<i8", "(1,)", &y, 8);
    ckm_status status = ckm_data_open(f->folder, &f->options, &data, err);
    if (status == CKM_OK) {
        *classes = ckm_data_get_facts(data).classes;
        status = ckm_data_fetch(data, 0, inputs, &label, err);
        *first = f->input.dtype == CKM_I64 ? values.wide[0] : values.narrow[0];
    }
    ckm_data_close(data);
    return status;
}

static void values_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    fixture f;
    ckm_error err = CKM_ERROR_INIT;
    int64_t classes = 0;
    int64_t first = 0;
    open_fixture(&f, CKM_I32);
    assert_int_equal(read_one(&f, (const int64_t[]){INT32_MIN, INT32_MAX}, 1, &classes, &first, &err), CKM_OK);
    assert_int_equal(first, INT32_MIN);
    assert_int_equal(read_one(&f, (const int64_t[]){0, INT64_C(-4294967295)}, 1, &classes, &first, &err),
                     CKM_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "-4294967295"));
    assert_int_equal(read_one(&f, (const int64_t[]){INT64_C(4294967297), 0}, 1, &classes, &first, &err),
                     CKM_ERR_ARGUMENT);
    data_files_remove(f.folder);
}

static void wide_inputs_take_all_there_are(void **state)
{
    (void)state;
    fixture f;
    ckm_error err = CKM_ERROR_INIT;
    int64_t classes = 0;
    int64_t first = 0;
    open_fixture(&f, CKM_I64);
    assert_int_equal(read_one(&f, (const int64_t[]){INT64_MIN, INT64_MAX}, 1, &classes, &first, &err), CKM_OK);
    assert_true(first == INT64_MIN);
    data_files_remove(f.folder);
}

static void classes_are_counted_past_32_bits(void **state)
{
    (void)state;
    fixture f;
    ckm_error err = CKM_ERROR_INIT;
    int64_t classes = 0;
    int64_t first = 0;
    open_fixture(&f, CKM_I64);
    assert_int_equal(read_one(&f, (const int64_t[]){0, 0}, INT32_MAX, &classes, &first, &err), CKM_OK);
    assert_true(classes == INT64_C(2147483648));
    data_files_remove(f.folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_that_do_not_fit_are_refused),
        cmocka_unit_test(wide_inputs_take_all_there_are),
        cmocka_unit_test(classes_are_counted_past_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
