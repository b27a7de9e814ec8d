// SPDX-License-Identifier: Apache-2.0
// Every allocation of reading and building a dataflow graph fails once; those inside jansson do
// not, because its lexer drops characters instead of reporting them.
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "quoted.h"

static ckm_status parse(void *user, ckm_error *err)
{
    const char *text = user;
    ckm_dataflow *df = NULL;
    ckm_status status = ckm_dataflow_parse(text, strlen(text), "f", &df, err);
    assert_true((status == CKM_OK) == (df != NULL));
    ckm_dataflow_free(df);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    char *text = quoted(
        "{'format': 'checkmate-graph', 'version': 1, 'name': 'n', 'tensors': [{'name': 'x', 'bytes': 3},"
        "{'bytes': 4}, {'bytes': 4, 'alias_of': 1}], 'ops': [{'name': 'f', 'cost': 1, 'inputs': [0],"
        "'outputs': [1, 2]}, {'cost': 1, 'inputs': [1], 'outputs': [], 'inplace': []}],"
        "'results': [2]}");
    assert_true(alloc_sweep(parse, text) > 10);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
