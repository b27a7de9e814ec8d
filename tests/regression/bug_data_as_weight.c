// SPDX-License-Identifier: Apache-2.0
// A network whose data are multiplied with themselves had its only input taken for a weight, and was refused for having
// no data.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "onnx_builder.h"

static void scores_of_the_data_themselves(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,4,6");
    ob_node(b, "Transpose", "x", "t");
    ob_list(b, "perm", "0,2,1");
    ob_node(b, "MatMul", "x,t", "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    ob_free(b);
    if (g == NULL) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ckm_graph_get_tensor(g, 0).role, CKM_ROLE_INPUT);
    assert_int_equal(ckm_graph_op_count(g), 2);
    ckm_graph_free(g);
}

// With other data, or a weight where the data are, nothing changes.
static void weights_stay_weights(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,6");
    ob_input(b, "w", OB_FLOAT, "6,3");
    ob_node(b, "MatMul", "x,w", "y");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    ob_free(b);
    assert_non_null(g);
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_PARAMETER), 18);
    assert_int_equal(ckm_graph_element_count(g, CKM_ROLE_INPUT), 12);
    ckm_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_of_the_data_themselves),
        cmocka_unit_test(weights_stay_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
