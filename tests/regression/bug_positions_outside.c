// SPDX-License-Identifier: Apache-2.0
// Gather and Scatter whose positions or updates do not fit the data: training read and wrote outside of the tensors.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_builder.h"

typedef struct misfit {
    const char *op, *inputs, *leaves, *attributes, *word;
} misfit;

static const misfit misfits[] = {
    {"GatherElements", "x,i", "i:list=0,0,0;d:rows=9,4", "axis=1", "axis 0 has 9 elements in its positions"},
    {"GatherElements", "x,i", "d:rows=2,4", "axis=2", "axis 2"},
    {"ScatterElements", "x,i,u", "d:rows=2,9;u=2,9", "axis=0", "axis 1 has 9 elements in its positions"},
    {"ScatterElements", "x,i,u", "d:rows=2,4;u=2,3", "axis=1", "its updates have shape 2x3; its positions ask for 2x4"},
    {"ScatterElements", "x,i,u", "d:rows=2,4;u=2,4", "axis=-268435456", "axis -268435456"},
    {"ScatterElements", "x,i,u", "d:rows=2,4;u=2,4", "axis=1;w:reduction=add", "attribute reduction"},
    {"GatherND", "x,i", "d:rows=1,2,1", "batch_dims=1", "positions do not fit its data"},
    {"GatherND", "x,i", "d:rows=1", "batch_dims=1", "positions do not fit its data"},
    {"ScatterND", "x,i,u", "d:rows=2,3;u=2", "", "positions do not fit its data"},
    {"ScatterND", "x,i,u", "d:rows=5,1;u=2,4", "", "its updates have shape 2x4; its positions ask for 5x4"},
    {"ScatterND", "x,i,u", "d:rows=5,1;u=5,4", "w:reduction=mul", "attribute reduction"},
    {"CumSum", "x,a", "i:a=7;d:rows=2", "", "axis 7"},
};

// x is 2x4; the positions i are what a data input of another shape is cast to.
static ckm_graph *network(const misfit *m, ckm_error *err)
{
    onnx_builder *b = ob_create(16);
    ob_input(b, "x", OB_FLOAT, "2,4");
    ob_leaves(b, m->leaves);
    ob_node(b, "Cast", "rows", "i");
    ob_int(b, "to", OB_INT64);
    ob_node(b, m->op, m->inputs, "y");
    ob_attributes(b, m->attributes);
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, err);
    ob_free(b);
    return g;
}

static void misfits_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        assert_null(network(&misfits[i], &err));
        if (strstr(err.message, misfits[i].word) == NULL || strstr(err.message, "y_node") == NULL) {
            fail_msg("%zu: expected \"%s\", got %s", i, misfits[i].word, err.message);
        }
    }
}

static void what_fits_is_read(void **state)
{
    (void)state;
    static const misfit fits[] = {
        {"GatherElements", "x,i", "d:rows=9,4", "axis=0", "9,4"},
        {"GatherElements", "x,i", "d:rows=1,3", "axis=-1", "1,3"},
        {"ScatterElements", "x,i,u", "d:rows=1,9;u=1,9", "axis=1", "2,4"},
        {"ScatterElements", "x,i,u", "d:rows=1,9;u=1,9", "axis=1;w:reduction=none", "2,4"},
        {"GatherND", "x,i", "d:rows=2,5,1", "batch_dims=1", "2,5"},
        {"GatherND", "x,i", "d:rows=3,2", "", "3"},
        {"ScatterND", "x,i,u", "d:rows=5,1;u=5,4", "", "2,4"},
        {"ScatterND", "x,i,u", "d:rows=5,2;u=5", "", "2,4"},
    };
    for (size_t i = 0; i < sizeof fits / sizeof fits[0]; i++) {
        ckm_error err = CKM_ERROR_INIT;
        char text[64] = "";
        ckm_graph *g = network(&fits[i], &err);
        if (g == NULL) {
            fail_msg("%zu: %s", i, err.message);
        }
        ckm_shape shape = ckm_graph_get_tensor(g, ckm_graph_get_op(g, 1).outputs[0]).shape;
        for (int32_t d = 0; d < shape.rank; d++) {
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", d > 0 ? "," : "", (int)shape.dims[d]);
        }
        assert_string_equal(text, fits[i].word);
        ckm_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misfits_are_refused),
        cmocka_unit_test(what_fits_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
