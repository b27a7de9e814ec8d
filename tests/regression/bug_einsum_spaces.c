// SPDX-License-Identifier: Apache-2.0
// An equation of Einsum that spaces make longer than 63 bytes was cut off there and read as another equation.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_builder.h"

static ckm_graph *network(const char *equation, ckm_error *err)
{
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "2,3,4");
    ob_node(b, "Einsum", "x", "y");
    ob_word(b, "equation", equation);
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, err);
    ob_free(b);
    return g;
}

static void spaces_do_not_count(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    // The last letter stands behind the 63rd byte.
    ckm_graph *g = network("a b c                                                    -> c                a", &err);
    if (g == NULL) {
        fail_msg("%s", err.message);
    }
    ckm_shape shape = ckm_graph_get_tensor(g, ckm_graph_get_op(g, 0).outputs[0]).shape;
    assert_int_equal(shape.rank, 2);
    assert_int_equal(shape.dims[0], 4);
    assert_int_equal(shape.dims[1], 2);
    ckm_graph_free(g);
}

static void long_equations_are_refused_whole(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    assert_null(network("abc->cabcabcabcabcabcabcabcabcabc", &err));
    assert_non_null(strstr(err.message, "too long"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_do_not_count),
        cmocka_unit_test(long_equations_are_refused_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
