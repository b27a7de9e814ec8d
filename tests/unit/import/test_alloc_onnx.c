// SPDX-License-Identifier: Apache-2.0
// Every allocation of an import fails in turn: an error, nothing leaked, the output untouched.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "alloc_sweep.h"
#include "data_files.h"
#include "import/import.h"
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

typedef struct files {
    char model[128], copy[128];
} files;

static ckm_status export_model(void *user, ckm_error *err)
{
    static const float w[3] = {1.0F, 2.0F, 3.0F};
    static const ckm_export_tensor tensor = {"scale", CKM_F32, {1, {3}}, w};
    const files *f = user;
    return ckm_i_export_onnx(f->model, f->copy, &tensor, 1, true, NULL, 0, err);
}

// The same of a copy in evaluation mode.
static void every_allocation_of_an_export_may_fail(void **state)
{
    (void)state;
    files f;
    packed model;
    char folder[64];
    onnx_builder *b = ob_create(17);
    ob_input(b, "x", OB_FLOAT, "4,3");
    ob_leaves(b, "f:scale=1,2,3;f:bias=0,1,2;f:mean=0,0,0;f:var=1,1,1");
    ob_node(b, "BatchNormalization", "x,scale,bias,mean,var", "y,m,v");
    ob_int(b, "training_mode", 1);
    ob_output(b, "y");
    ob_pack(b, &model.data, &model.size);
    ob_free(b);
    data_files_folder(folder, sizeof folder);
    data_files_write(folder, "m.onnx", model.data, model.size);
    snprintf(f.model, sizeof f.model, "%s/m.onnx", folder);
    snprintf(f.copy, sizeof f.copy, "%s/copy.onnx", folder);
    assert_true(alloc_sweep(export_model, &f) > 10);
    free(model.data);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_allocation_of_an_export_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
