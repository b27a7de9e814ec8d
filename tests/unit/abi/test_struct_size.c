// SPDX-License-Identifier: Apache-2.0
// ckm_struct_size against the headers: every structure of the planning interface is known by its name, with its size.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/checkmate.h>

static void sizes_are_those_of_the_compiler(void **state)
{
    (void)state;
    assert_int_equal(ckm_struct_size("ckm_error"), sizeof(ckm_error));
    assert_int_equal(ckm_struct_size("ckm_dataflow_op"), sizeof(ckm_dataflow_op));
    assert_int_equal(ckm_struct_size("ckm_schedule_info"), sizeof(ckm_schedule_info));
    assert_int_equal(ckm_struct_size("ckm_solve_options"), sizeof(ckm_solve_options));
    assert_int_equal(ckm_struct_size("ckm_min_budget_result"), sizeof(ckm_min_budget_result));
    assert_int_equal(ckm_struct_size("ckm_emit_words"), sizeof(ckm_emit_words));
}

static void other_names_are_unknown(void **state)
{
    (void)state;
    const char *names[] = {"", "ckm", "ckm_ste", "ckm_steps", "step", "ckm_session_options"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(ckm_struct_size(names[i]), 0);
    }
    assert_int_equal(ckm_struct_size(NULL), 0);
}

// A structure added to one of the headers has to be added to the table.
static void the_table_holds_every_structure_of_the_headers(void **state)
{
    (void)state;
    const char *headers[] = {"base", "cost", "dataflow", "emit", "max_batch", "min_budget", "schedule", "solve"};
    const char *source = getenv("CKM_SOURCE_DIR");
    if (source == NULL) {
        skip();
    }
    int seen = 0;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        char path[4096], line[1024], name[128], brace = 0;
        snprintf(path, sizeof path, "%s/include/checkmate/%s.h", source, headers[i]);
        FILE *file = fopen(path, "r");
        assert_non_null(file);
        while (fgets(line, sizeof line, file) != NULL) {
            if (sscanf(line, "typedef struct %127[a-z0-9_] %c", name, &brace) == 2 && brace == '{') {
                seen++;
                if (ckm_struct_size(name) == 0) {
                    fail_msg("%s of %s.h is not in src/abi/struct_size.c", name, headers[i]);
                }
            }
        }
        fclose(file);
    }
    assert_true(seen > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_the_compiler),
        cmocka_unit_test(other_names_are_unknown),
        cmocka_unit_test(the_table_holds_every_structure_of_the_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
