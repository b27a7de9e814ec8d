// SPDX-License-Identifier: Apache-2.0
// Every allocation of an import fails in turn: an error, nothing leaked, the output untouched.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <checkmate/import.h>

#include "alloc_sweep.h"
#include "onnx_builder.h"

typedef struct packed {
    uint8_t *data;
    size_t size;
} packed;

static ckm_status import_model(void *user, ckm_error *err)
{
    const packed *model = user;
    ckm_graph *g = NULL;
    ckm_status status = ckm_import_onnx_memory(model->data, model->size, NULL, &g, err);
    assert_true((status == CKM_OK) == (g != NULL));
    ckm_graph_free(g);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    packed model;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "n,3,8,8");
    ob_leaves(b, "w=4,3,3,3;cb=4;i:minus=-1;i:zero=0;i:one=1;f:half=0.5;i:parts=1,3");
    ob_node(b, "Conv", "x,w,cb", "c");
    ob_node(b, "Mul", "c,half", "m");
    ob_node(b, "Split", "m,parts", "p,q");
    ob_int(b, "axis", 1);
    ob_node(b, "Concat", "q,p", "j");
    ob_int(b, "axis", 1);
    ob_node(b, "Shape", "j", "s");
    ob_node(b, "Slice", "s,zero,one", "h");
    ob_node(b, "Concat", "h,minus", "t");
    ob_int(b, "axis", 0);
    ob_node(b, "Reshape", "j,t", "y");
    ob_output(b, "y");
    ob_pack(b, &model.data, &model.size);
    ob_free(b);
    assert_true(alloc_sweep(import_model, &model) > 30);
    free(model.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
