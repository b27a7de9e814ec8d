// SPDX-License-Identifier: Apache-2.0
// checkmate-graph JSON: what is written is read back, and every kind of bad file gives one clear error.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "quoted.h"

static void reads_every_member(void **state)
{
    (void)state;
    ckm_dataflow *df = quoted_graph_of(
        "'name': 'n', 'cost_unit': 'us', 'fixed_bytes': 7, 'unknown': {'ignored': [1.5]}, 'node': 1, 'x': 2,"
        "'tensors': [{'name': 'x', 'bytes': 3}, {'bytes': 4}, {'name': 'v', 'bytes': 9, 'alias_of': 1}],"
        "'ops': [{'name': 'f', 'kind': 'loss', 'cost': 9223372036854775000, 'workspace_bytes': 5,"
        "         'recomputable': false, 'inputs': [0, 0], 'outputs': [1, 2], 'inplace': [[0, 1]],"
        "         'module': 'layers.3.mlp', 'source': 'model.py:212'},"
        "        {'cost': 0, 'inputs': [2], 'outputs': []}],"
        "'results': [1, 2]");
    assert_string_equal(ckm_dataflow_name(df), "n");
    assert_int_equal(ckm_dataflow_cost_unit(df), CKM_COST_US);
    assert_int_equal(ckm_dataflow_fixed_bytes(df), 7);
    assert_int_equal(ckm_dataflow_tensor_count(df), 3);
    assert_string_equal(ckm_dataflow_get_tensor(df, 0).name, "x");
    assert_string_equal(ckm_dataflow_get_tensor(df, 1).name, "t1");
    assert_int_equal(ckm_dataflow_get_tensor(df, 1).alias_of, -1);
    assert_int_equal(ckm_dataflow_get_tensor(df, 2).alias_of, 1);
    assert_int_equal(ckm_dataflow_get_tensor(df, 2).bytes, 9);
    ckm_dataflow_op f = ckm_dataflow_get_op(df, 0);
    assert_string_equal(f.name, "f");
    assert_int_equal(f.kind, CKM_OP_LOSS);
    assert_true(f.cost == INT64_C(9223372036854775000));
    assert_int_equal(f.workspace_bytes, 5);
    assert_true(f.run_once);
    assert_int_equal(f.n_inputs, 2);
    assert_int_equal(f.n_outputs, 2);
    assert_int_equal(f.outputs[1], 2);
    assert_int_equal(f.n_inplace, 1);
    assert_int_equal(f.inplace[0][0], 0);
    assert_int_equal(f.inplace[0][1], 1);
    assert_string_equal(f.module, "layers.3.mlp");
    assert_string_equal(f.source, "model.py:212");
    ckm_dataflow_op g = ckm_dataflow_get_op(df, 1);
    assert_string_equal(g.name, "op1");
    assert_string_equal(g.module, "");
    assert_string_equal(g.source, "");
    assert_int_equal(g.kind, CKM_OP_FORWARD);
    assert_false(g.run_once);
    assert_int_equal(g.workspace_bytes, 0);
    assert_int_equal(g.n_inplace, 0);
    assert_int_equal(ckm_dataflow_result_count(df), 2);
    assert_int_equal(ckm_dataflow_get_result(df, 1), 2);
    ckm_dataflow_free(df);
}

typedef struct bad_file {
    const char *text, *fragment;
    ckm_status code;
} bad_file;

#define HEAD "{'format': 'checkmate-graph', 'version': 1, "
#define ONE_TENSOR HEAD "'tensors': [{'name': 'x', 'bytes': 1}], "

static void bad_files_give_one_clear_error(void **state)
{
    (void)state;
    static const bad_file bad[] = {
        {"", "not valid JSON", CKM_ERR_FORMAT},
        {"{'format': 'checkmate-graph', 'version'", "not valid JSON", CKM_ERR_FORMAT},
        {"{'format': 'checkmate-graph'} trailing", "not valid JSON", CKM_ERR_FORMAT},
        {"{'version': 1, 'version': 1}", "duplicate object key", CKM_ERR_FORMAT},
        {"[]", "must be a JSON object", CKM_ERR_FORMAT},
        {"{}", "\"format\" is missing", CKM_ERR_FORMAT},
        {"{'format': 'other'}", "format is \"other\", expected \"checkmate-graph\"", CKM_ERR_FORMAT},
        {"{'format': 'checkmate-graph'}", "\"version\" is missing", CKM_ERR_FORMAT},
        {"{'format': 'checkmate-graph', 'version': 3}", "version is 3", CKM_ERR_FORMAT},
        {"{'format': 'checkmate-graph', 'version': '1'}", "version: must be an integer", CKM_ERR_FORMAT},
        {HEAD "'ops': []}", "\"tensors\" is missing", CKM_ERR_FORMAT},
        {HEAD "'tensors': []}", "\"ops\" is missing", CKM_ERR_FORMAT},
        {HEAD "'tensors': {}, 'ops': []}", "tensors: must be an array", CKM_ERR_FORMAT},
        {HEAD "'tensors': [], 'ops': []}", "no operators", CKM_ERR_FORMAT},
        {HEAD "'name': 3, 'tensors': [], 'ops': []}", "name: must be a string", CKM_ERR_FORMAT},
        {HEAD "'cost_unit': 's', 'tensors': [], 'ops': []}", "cost_unit: \"s\" is not one of \"flops\", \"ns\", \"us\"",
         CKM_ERR_FORMAT},
        {HEAD "'fixed_bytes': -1, 'tensors': [], 'ops': []}", "fixed_bytes: -1 is out of range", CKM_ERR_FORMAT},
        {HEAD "'tensors': [3], 'ops': []}", "tensors[0]: must be an object", CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'name': 'x'}], 'ops': []}", "tensors[0]: member \"bytes\" is missing", CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1.0}], 'ops': []}", "tensors[0].bytes: must be an integer", CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1}, {'bytes': -5}], 'ops': []}", "tensors[1].bytes: -5 is out of range",
         CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 9223372036854775808}], 'ops': []}", "not valid JSON", CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1, 'name': null}], 'ops': []}", "tensors[0].name: must be a string",
         CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1, 'alias_of': 1}], 'ops': []}", "tensors[0].alias_of: 1 is out of range",
         CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1, 'alias_of': -1}], 'ops': []}", "tensors[0].alias_of: -1 is out of range",
         CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1, 'alias_of': 0}], 'ops': [{'cost': 1, 'inputs': [], 'outputs': []}]}",
         "tensors[0]", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [0]}", "ops[0]: must be an object", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'inputs': [], 'outputs': [0]}]}", "ops[0]: member \"cost\" is missing", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': -2, 'inputs': [], 'outputs': [0]}]}", "ops[0].cost: -2 is out of range",
         CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'outputs': [0]}]}", "ops[0]: member \"inputs\" is missing", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': []}]}", "ops[0]: member \"outputs\" is missing", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': 0, 'outputs': [0]}]}", "ops[0].inputs: must be an array",
         CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0, 1]}]}",
         "ops[0].outputs[1]: there is no tensor 1; the file has 1", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [4294967296]}]}",
         "ops[0].outputs[0]: there is no tensor 4294967296", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': ['x'], 'outputs': [0]}]}", "ops[0].inputs[0]: must be an integer",
         CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0, 0]}]}", "two producers", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [0], 'outputs': [0]}]}", "cycle", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'kind': 'sideways', 'inputs': [], 'outputs': []}]}",
         "ops[0].kind: \"sideways\" is not one of", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'recomputable': 1, 'inputs': [], 'outputs': []}]}",
         "ops[0].recomputable: must be true or false", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'workspace_bytes': -1, 'inputs': [], 'outputs': []}]}",
         "ops[0].workspace_bytes: -1 is out of range", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'inplace': [0]}]}",
         "ops[0].inplace[0]: must be a pair", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'inplace': [[0, 1]]}]}",
         "ops[0].inplace[0][1]: there is no tensor 1", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'inplace': [[0, 0]]}]}", "not one of its inputs",
         CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}], 'results': [1]}",
         "results[0]: there is no tensor 1", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'workspace': 5}]}",
         "ops[0].workspace: is no member that is read; did you mean \"workspace_bytes\"?", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0], 'Recomputeable': false}]}",
         "did you mean \"recomputable\"?", CKM_ERR_FORMAT},
        {HEAD "'fixed': 7, 'tensors': [], 'ops': []}",
         "fixed: is no member that is read; did you mean \"fixed_bytes\"?", CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 1, 'alias': 0}], 'ops': []}", "did you mean \"alias_of\"?", CKM_ERR_FORMAT},
        {ONE_TENSOR "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}], 'results': 0}", "results: must be an array",
         CKM_ERR_FORMAT},
        {HEAD "'tensors': [{'bytes': 9223372036854775807}, {'bytes': 1}],"
              "'ops': [{'cost': 1, 'inputs': [], 'outputs': [0]}]}",
         "63 bits", CKM_ERR_OVERFLOW},
        {HEAD "'tensors': [], 'ops': [{'cost': 9223372036854775807, 'inputs': [], 'outputs': []},"
              "                       {'cost': 1, 'inputs': [], 'outputs': []}]}",
         "63 bits", CKM_ERR_OVERFLOW},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_dataflow *df = quoted_graph(bad[i].text, &err);
        if (df != NULL) {
            fail_msg("accepted: %s", bad[i].text);
        }
        assert_error(&err, bad[i].code, bad[i].fragment);
        assert_string_equal(err.file, "test.json");
    }
}

static void syntax_errors_have_a_position(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    assert_null(quoted_graph("{\n 'format': 'checkmate-graph',\n 'version': }", &err));
    assert_int_equal(err.line, 3);
    assert_true(err.byte > 0);
}

static void read_file(const char *path, char **text, size_t *size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *text = calloc(1, 100000);
    assert_non_null(*text);
    *size = fread(*text, 1, 99999, file);
    fclose(file);
}

static void what_is_written_is_read_back(void **state)
{
    (void)state;
    static const char odd[] = "q\"uo\\te / \t\n\x01 \xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80";
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_dataflow *back = NULL;
    char path[64];
    char again[64];
    snprintf(path, sizeof path, "/tmp/ckm_graph_%ld.json", (long)getpid());
    snprintf(again, sizeof again, "/tmp/ckm_graph_%ld_again.json", (long)getpid());
    assert_int_equal(ckm_dataflow_create(odd, CKM_COST_NS, INT64_C(1) << 61, &df, &err), CKM_OK);
    ckm_dataflow_tensor tensors[] = {
        {.name = odd, .bytes = INT64_C(1) << 60}, {.name = ""}, {.bytes = 5, .alias_of = 1, .is_view = true}};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ckm_dataflow_add_tensor(df, &tensors[i], NULL, &err), CKM_OK);
    }
    const int32_t inputs[] = {0, 0};
    const int32_t outputs[] = {1, 2};
    const int32_t pairs[][2] = {{0, 1}, {0, 1}};
    for (int kind = CKM_OP_FORWARD; kind <= CKM_OP_UPDATE; kind++) {
        ckm_dataflow_op op = {.name = odd, .kind = (ckm_op_kind)kind, .cost = INT64_C(9007199254740993)};
        if (kind == CKM_OP_LOSS) {
            op = (ckm_dataflow_op){NULL, CKM_OP_LOSS, 0, 77, true, 2, 2, 2, inputs, outputs, pairs, odd, "m.py:1", 0};
        }
        assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    }
    assert_int_equal(ckm_dataflow_add_result(df, 2, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_write(df, path, &err), CKM_OK);
    if (ckm_dataflow_read(path, &back, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    assert_string_equal(ckm_dataflow_name(back), odd);
    assert_string_equal(ckm_dataflow_get_tensor(back, 0).name, odd);
    assert_string_equal(ckm_dataflow_get_tensor(back, 1).name, "");
    assert_true(ckm_dataflow_get_tensor(back, 0).bytes == INT64_C(1) << 60);
    assert_true(ckm_dataflow_get_op(back, 0).cost == INT64_C(9007199254740993));
    // Writing what was read gives the same bytes, so nothing else was lost either.
    char *first = NULL;
    char *second = NULL;
    size_t first_size = 0;
    size_t second_size = 0;
    assert_int_equal(ckm_dataflow_write(back, again, &err), CKM_OK);
    read_file(path, &first, &first_size);
    read_file(again, &second, &second_size);
    assert_int_equal(first_size, second_size);
    assert_memory_equal(first, second, first_size);
    assert_non_null(strstr(first, "\"workspace_bytes\": 77, \"recomputable\": false"));
    assert_non_null(strstr(first, "\"inplace\": [[0, 1], [0, 1]]"));
    assert_non_null(strstr(first, "\"source\": \"m.py:1\""));
    assert_string_equal(ckm_dataflow_get_op(back, CKM_OP_LOSS).module, odd);
    free(first);
    free(second);
    ckm_dataflow_free(df);
    ckm_dataflow_free(back);
    unlink(path);
    unlink(again);
}

static void malformed_names_still_give_valid_json(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *df = NULL;
    ckm_dataflow *back = NULL;
    char path[64];
    ckm_dataflow_op op = {.name = "bad \xff\xc3 name"};
    snprintf(path, sizeof path, "/tmp/ckm_graph_%ld_malformed.json", (long)getpid());
    assert_int_equal(ckm_dataflow_create(NULL, CKM_COST_FLOPS, 0, &df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_add_op(df, &op, NULL, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_finish(df, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_write(df, path, &err), CKM_OK);
    assert_int_equal(ckm_dataflow_read(path, &back, &err), CKM_OK);
    assert_string_equal(ckm_dataflow_get_op(back, 0).name, "bad \xef\xbf\xbd\xef\xbf\xbd name");
    ckm_dataflow_free(df);
    ckm_dataflow_free(back);
    unlink(path);
}

static void files_that_cannot_be_used_are_named(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    ckm_dataflow *out = NULL;
    assert_int_equal(ckm_dataflow_read("/nonexistent/graph.json", &out, &err), CKM_ERR_IO);
    assert_string_equal(err.file, "/nonexistent/graph.json");
    assert_null(out);
    ckm_dataflow *df = quoted_graph_of("'tensors': [], 'ops': [{'cost': 1, 'inputs': [], 'outputs': []}]");
    assert_int_equal(ckm_dataflow_write(df, "/nonexistent/graph.json", &err), CKM_ERR_IO);
    assert_string_equal(err.file, "/nonexistent/graph.json");
    if (access("/dev/full", W_OK) == 0) {
        assert_int_equal(ckm_dataflow_write(df, "/dev/full", &err), CKM_ERR_IO);
        assert_string_equal(err.file, "/dev/full");
    }
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_member),
        cmocka_unit_test(bad_files_give_one_clear_error),
        cmocka_unit_test(syntax_errors_have_a_position),
        cmocka_unit_test(what_is_written_is_read_back),
        cmocka_unit_test(malformed_names_still_give_valid_json),
        cmocka_unit_test(files_that_cannot_be_used_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
