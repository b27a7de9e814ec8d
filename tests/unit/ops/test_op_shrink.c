// SPDX-License-Identifier: Apache-2.0
// shrink: values worked out by hand, gradients against differences of the loss, the fast kernel against the reference, and
// the way from an ONNX file.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gradient_check.h"
#include "kernel_script.h"
#include "onnx_builder.h"

// The reference kernel of the script's only operator, on numbers worked out by hand.
static void expect(const char *script, const float *a, const float *b, const float *wanted, int n)
{
    kernel_script s;
    memset(&s, 0, sizeof s);
    kernel_script_read(&s, script, CKM_CHANNELS_LAST);
    float out[8] = {0};
    assert_true(n <= 8);
    const void *inputs[2] = {a, b};
    void *outputs[1] = {out};
    ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs};
    assert_int_equal(ckm_i_reference_find(s.graph->ops[0].op_class->id)->run(s.graph, 0, &call, NULL), CKM_OK);
    for (int i = 0; i < n; i++) {
        assert_true(out[i] == wanted[i]);
    }
    kernel_script_free(&s);
}

static void values(void **state)
{
    (void)state;
    static const float x[6] = {-2.0F, -0.5F, 0.0F, 0.25F, 0.5F, 3.0F};
    static const float dy[6] = {1.0F, 2.0F, 4.0F, -8.0F, 16.0F, 32.0F};
    static const float hard[6] = {-2.0F, 0.0F, 0.0F, 0.0F, 0.0F, 3.0F};  // limits are not beyond themselves
    static const float soft[6] = {-1.75F, -0.25F, 0.0F, 0.0F, 0.25F, 2.75F};
    static const float far[6] = {2.0F, 0.0F, 0.0F, 0.0F, 0.0F, -1.0F};
    static const float dx[6] = {1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 32.0F};
    static const float dx_soft[6] = {1.0F, 2.0F, 0.0F, 0.0F, 16.0F, 32.0F};
    expect("in 6;shrink 0", x, NULL, hard, 6);
    expect("in 6;shrink 0 lambd=0.25 bias=0.25", x, NULL, soft, 6);
    expect("in 6;shrink 0 lambd=1.0 bias=4.0", x, NULL, far, 6);
    expect("in 6;in 6;shrink_backward 0 1", dy, x, dx, 6);
    expect("in 6;in 6;shrink_backward 0 1 lambd=0.25 bias=0.25", dy, x, dx_soft, 6);
    // What the bias brings to 0 learns all the same.
    expect("in 6;in 6;shrink_backward 0 1 lambd=1.0 bias=2.0", dy, x, dx, 6);
}

static void gradients(void **state)
{
    (void)state;
    static const gradient_case cases[] = {
        {"in 3x9;shrink 0", .loss = CKM_LOSS_MSE, .scale = 2},
        {"in 3x9;shrink 0 lambd=0.3 bias=0.7", .loss = CKM_LOSS_MSE, .scale = 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gradient_check(&cases[i], CKM_CHANNELS_LAST);
        gradient_check(&cases[i], CKM_CHANNELS_FIRST);
    }
}

// 16170 elements: more than one part of work.
static void fast(void **state)
{
    (void)state;
    static const char *const scripts[] = {
        "in 3x70x77;shrink 0 lambd=0.3 bias=0.2 inplace=0/0",
        "in 3x70x77;in 3x70x77;shrink_backward 0 1 lambd=0.3 bias=0.2 inplace=0/0,1/0",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        assert_true(kernel_script_is_own(scripts[i], CKM_CHANNELS_LAST));
        for (int threads = 1; threads <= 3; threads++) {
            kernel_script_check(scripts[i], CKM_CHANNELS_LAST, threads, 0);
        }
    }
}

static void from_a_file(void **state)
{
    (void)state;
    ckm_error err = CKM_ERROR_INIT;
    onnx_builder *b = ob_create(9);
    ob_input(b, "x", OB_FLOAT, "2,3");
    ob_node(b, "Shrink", "x", "y");
    ob_attributes(b, "r:bias=0.25;r:lambd=0.75");
    ob_output(b, "y");
    ckm_graph *g = ob_import(b, NULL, &err);
    if (g == NULL) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(g->n_ops, 1);
    assert_int_equal(g->ops[0].op_class->id, CKM_I_OP_shrink);
    assert_true(ckm_i_op_attr_double(&g->ops[0], "bias", 9.0) == 0.25);
    assert_true(ckm_i_op_attr_double(&g->ops[0], "lambd", 9.0) == 0.75);
    ckm_graph_free(g);
    ob_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values),
        cmocka_unit_test(gradients),
        cmocka_unit_test(fast),
        cmocka_unit_test(from_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
