// SPDX-License-Identifier: Apache-2.0
// Constants of ONNX files at the ends of what 64 bits hold: a Range counted by doubles went on past its limit and past
// the largest integer.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_builder.h"

// How many elements Range(start, limit, step) has, by way of a Reshape to [elements, -1]; -1 when it is refused.
static int64_t count(int64_t start, int64_t limit, int64_t step, ckm_error *err)
{
    const int64_t bounds[3] = {start, limit, step};
    static const char *const names[3] = {"start", "limit", "step"};
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "3600,2");
    ob_leaves(b, "i:minus=-1");
    for (int i = 0; i < 3; i++) {
        ob_node(b, "Constant", "", names[i]);
        ob_int(b, "value_int", bounds[i]);
    }
    ob_node(b, "Range", "start,limit,step", "range");
    ob_node(b, "Shape", "range", "elements");
    ob_node(b, "Concat", "elements,minus", "target");
    ob_int(b, "axis", 0);
    ob_node(b, "Reshape", "x,target", "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, err);
    ob_free(b);
    if (g == NULL) {
        return -1;
    }
    int64_t n = ckm_graph_get_tensor(g, ckm_graph_get_op(g, 0).outputs[0]).shape.dims[0];
    ckm_graph_free(g);
    return n;
}

static void ranges_are_counted_exactly(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(count(0, 600, 1, &err), 600);
    assert_int_equal(count(INT64_MAX - 600, INT64_MAX, 1, &err), 600);
    assert_int_equal(count(INT64_MIN + 600, INT64_MIN, -1, &err), 600);
    assert_int_equal(count(INT64_MIN, INT64_MAX, INT64_MAX, &err), 3);
    assert_int_equal(count(INT64_MAX, INT64_MIN, INT64_MIN, &err), 2);
    assert_int_equal(count(0, 10, 3, &err), 4);
    assert_int_equal(count(0, 9, 3, &err), 3);
    assert_int_equal(count(9, 0, -2, &err), 5);
}

static void endless_ranges_are_refused(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(count(0, 5, 0, &err), -1);
    assert_non_null(strstr(err.message, "counts too far"));
    assert_int_equal(count(INT64_MIN, INT64_MAX, 1, &err), -1);
    assert_non_null(strstr(err.message, "counts too far"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_counted_exactly),
        cmocka_unit_test(endless_ranges_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
