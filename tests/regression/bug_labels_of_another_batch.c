// SPDX-License-Identifier: Apache-2.0
// A network whose output has fewer rows than the batch, or more: a batch of labels was copied over the end of the label
// tensor, or filled the beginning of it only.
#include <checkmate/autodiff.h>
#include <checkmate/train.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_builder.h"

// Derives the step for a batch of 4 and asks for its data.
static void expect_refusal(const onnx_builder *b)
{
    ckm_error err = CKM_ERROR_INIT;
    ckm_import_options import = CKM_IMPORT_OPTIONS_INIT;
    ckm_autodiff_options autodiff = CKM_AUTODIFF_OPTIONS_INIT;
    ckm_training *training = NULL;
    ckm_train_fields fields = {.n_inputs = 77};
    import.batch = 4;
    ckm_graph *g = ob_import(b, &import, &err);
    if (g == NULL || ckm_autodiff_op_graph(g, &autodiff, &training, &err) != CKM_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ckm_train_describe_data(training, &fields, &err), CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "does not have the batch of 4 as its first dimension"));
    assert_int_equal(fields.n_inputs, 77);
    ckm_training_free(training);
    ckm_graph_free(g);
}

static void one_row_for_the_batch(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "N,4");
    ob_node(b, "ReduceMean", "x", "mean");
    ob_list(b, "axes", "0");
    ob_leaves(b, "w=4,10");
    ob_node(b, "MatMul", "mean,w", "y");
    ob_output(b, "y");
    expect_refusal(b);
    ob_free(b);
}

static void several_rows_a_sample(void **state)
{
    (void)state;
    onnx_builder *b = ob_create(13);
    ob_input(b, "x", OB_FLOAT, "N,6,4");
    ob_leaves(b, "w=4,10;i:flat=-1,10");
    ob_node(b, "MatMul", "x,w", "scores");
    ob_node(b, "Reshape", "scores,flat", "y");
    ob_output(b, "y");
    expect_refusal(b);
    ob_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_row_for_the_batch),
        cmocka_unit_test(several_rows_a_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
