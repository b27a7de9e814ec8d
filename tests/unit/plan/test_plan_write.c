// SPDX-License-Identifier: Apache-2.0
// Plans as text, to the letter.
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <checkmate/plan.h>

#include "quoted.h"

// One operator with workspace, whose name has a quotation mark, and one written in place.
static const char graph[] = "'name': 'g', 'fixed_bytes': 1000,"
                            "'tensors': [{'name': 'in', 'bytes': 500}, {'name': 'a', 'bytes': 100},"
                            "            {'name': 'b', 'bytes': 90}],"
                            "'ops': [{'name': 'say \\\"hi\\\"', 'cost': 1, 'inputs': [0], 'outputs': [1],"
                            "         'workspace_bytes': 70},"
                            "        {'name': 'op', 'cost': 1, 'inputs': [1], 'outputs': [2], 'inplace': [[1, 2]]}],"
                            "'results': [2]";

static const char json[] =
    "{\"format\": \"checkmate-plan\", \"version\": 1, \"graph\": \"g\",\n"
    " \"arena_bytes\": 256, \"bound_bytes\": 256, \"resident_bytes\": 1500, \"peak_bytes\": 1670, \"method\": "
    "\"by size, first fit\",\n"
    " \"instances\": [\n"
    "  {\"kind\": \"tensor\", \"name\": \"a\", \"tensor\": 1, \"op\": 0, \"buffer\": 0, \"first\": 0, \"last\": 1, "
    "\"bytes\": 100, \"offset\": 0},\n"
    "  {\"kind\": \"workspace\", \"name\": \"say \\\"hi\\\"\", \"tensor\": -1, \"op\": 0, \"buffer\": 1, \"first\": 0, "
    "\"last\": 0, \"bytes\": 70, \"offset\": 128},\n"
    "  {\"kind\": \"tensor\", \"name\": \"b\", \"tensor\": 2, \"op\": 1, \"buffer\": 0, \"first\": 1, \"last\": 1, "
    "\"bytes\": 90, \"offset\": 0}]}\n";

static const char csv[] = "kind,name,tensor,op,buffer,first,last,bytes,offset\n"
                          "tensor,\"a\",1,0,0,0,1,100,0\n"
                          "workspace,\"say \"\"hi\"\"\",-1,0,1,0,0,70,128\n"
                          "tensor,\"b\",2,1,0,1,1,90,0\n";

static void written_to_the_letter(void **state)
{
    (void)state;
    // Only a name that ends in .csv, with something before it, is CSV.
    static const struct {
        const char *name, *content;
    } files[] = {{"plan.json", json}, {"plan.csv", csv}, {"p.csv", csv},
                 {".csv", json},      {"csv", json},     {"p.csvx", json}};
    char folder[] = "/tmp/ckm_plan_XXXXXX";
    char kept[4096];
    ckm_plan_options options = CKM_PLAN_OPTIONS_INIT;
    ckm_error err = CKM_ERROR_INIT;
    ckm_plan *plan = NULL;
    assert_non_null(mkdtemp(folder));
    assert_non_null(getcwd(kept, sizeof kept));
    assert_int_equal(chdir(folder), 0);
    ckm_dataflow *df = quoted_graph_of(graph);
    ckm_schedule *s = quoted_schedule_of("['compute', 0], ['compute', 1, [[1, 2]]]");
    assert_int_equal(ckm_plan_create(df, s, &options, &plan, &err), CKM_OK);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char text[2000] = "";
        assert_int_equal(ckm_plan_write(df, plan, files[i].name, &err), CKM_OK);
        FILE *f = fopen(files[i].name, "r");
        assert_non_null(f);
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
        remove(files[i].name);
        assert_string_equal(text, files[i].content);
    }
    assert_int_equal(chdir(kept), 0);
    assert_int_equal(rmdir(folder), 0);
    ckm_plan_free(plan);
    ckm_schedule_free(s);
    ckm_dataflow_free(df);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_to_the_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
