// SPDX-License-Identifier: Apache-2.0
// Every allocation of base and of building a dataflow graph fails in turn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/dataflow.h>
#include <unistd.h>

#include "alloc_sweep.h"
#include "base/file.h"
#include "base/json.h"

static ckm_status read_file(void *user, ckm_error *err)
{
    char *data = NULL;
    size_t size = 0;
    ckm_status status = ckm_i_file_read(user, 1 << 24, &data, &size, err);
    assert_true((status == CKM_OK) == (data != NULL));
    free(data);
    return status;
}

static ckm_status write_file(void *user, ckm_error *err)
{
    ckm_i_writer w;
    ckm_status status = ckm_i_writer_open(&w, user, err);
    if (status == CKM_OK) {
        fputs("text", w.stream);
        status = ckm_i_writer_commit(&w, err);
    }
    return status;
}

static void files(void **state)
{
    (void)state;
    char path[] = "/tmp/ckm-test-alloc-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 300000), 0);
    close(fd);
    assert_true(alloc_sweep(read_file, path) >= 3);
    assert_true(alloc_sweep(write_file, path) >= 2);
    assert_int_equal(unlink(path), 0);
}

static ckm_status parse_json(void *user, ckm_error *err)
{
    const char *text = user;
    json_t *root = NULL;
    ckm_status status = ckm_i_json_parse(text, strlen(text), "t.json", &root, err);
    assert_true((status == CKM_OK) == (root != NULL));
    if (status == CKM_OK) {
        // jansson's buffer for tokens grows three times on the way: no byte may be lost.
        json_int_t number = json_integer_value(json_object_get(root, "n"));
        assert_int_equal(number, INT64_C(1234567890123456789));
        assert_string_equal(json_string_value(json_object_get(root, "t")), "a text of more than thirty-two characters");
        assert_true(json_real_value(json_object_get(root, "r")) == 1.2345678901234567e-300);
    }
    json_decref(root);
    return status;
}

static void json(void **state)
{
    (void)state;
    char text[] =
        "{\"n\": 1234567890123456789, \"t\": \"a text of more than thirty-two characters\", \"ops\": [{\"cost\": 12,"
        " \"inputs\": [0, 1, 2]}, {\"name\": \"x\", \"y\": 1.5}], \"r\": 1.2345678901234567e-300}";
    assert_true(alloc_sweep(parse_json, text) > 10);
}

// A small graph that uses everything: views, in-place pairs, workspace, names given and not given.
static ckm_status build_dataflow(void *user, ckm_error *err)
{
    (void)user;
    ckm_dataflow *df = NULL;
    ckm_status status = ckm_dataflow_create("net", CKM_COST_NS, 100, &df, err);
    if (status != CKM_OK) {
        assert_null(df);
        return status;
    }
    for (int32_t i = 0; i < 20 && status == CKM_OK; i++) {
        const ckm_dataflow_tensor tensor = {.name = i % 2 == 0 ? "even" : NULL,
                                            .bytes = i == 19 ? 0 : 8,
                                            .alias_of = i == 19 ? 3 : 0,
                                            .is_view = i == 19};
        status = ckm_dataflow_add_tensor(df, &tensor, NULL, err);
    }
    for (int32_t i = 0; i < 19 && status == CKM_OK; i++) {
        const int32_t input = i == 18 ? 3 : i;
        const int32_t output = i + 1;
        const int32_t pair[1][2] = {{input, output}};
        const ckm_dataflow_op op = {.name = i % 3 == 0 ? NULL : "op",
                                    .kind = CKM_OP_FORWARD,
                                    .cost = i,
                                    .workspace_bytes = 2,
                                    .run_once = i == 4,
                                    .n_inputs = 1,
                                    .n_outputs = 1,
                                    .n_inplace = i == 5 ? 1 : 0,
                                    .inputs = &input,
                                    .outputs = &output,
                                    .inplace = pair};
        status = ckm_dataflow_add_op(df, &op, NULL, err);
    }
    if (status == CKM_OK) {
        status = ckm_dataflow_add_result(df, 18, err);
    }
    if (status == CKM_OK) {
        status = ckm_dataflow_finish(df, err);
    }
    if (status == CKM_OK) {
        assert_int_equal(ckm_dataflow_total_cost(df), 171);
    }
    ckm_dataflow_free(df);
    return status;
}

static void dataflow(void **state)
{
    (void)state;
    assert_true(alloc_sweep(build_dataflow, NULL) > 60);
}

int main(void)
{
    alloc_sweep_jansson();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files),
        cmocka_unit_test(json),
        cmocka_unit_test(dataflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
