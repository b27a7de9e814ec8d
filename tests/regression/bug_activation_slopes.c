// SPDX-License-Identifier: Apache-2.0
// Activations whose output does not tell on which side of 0 the input was: Elu and Selu with a negative alpha, Selu with a
// negative gamma. Their gradients took the slope of the other side. Celu has no value at 0 where its alpha is 0.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>

#include "graph/training.h"
#include "kernel_script.h"

enum { N = 4 };

static const float dy[N] = {1, 2, 3, 4};
static const float x[N] = {-2, -0.5F, 0.5F, 2};

static double slope_of(double value, double alpha, double gamma)
{
    return value > 0.0 ? gamma : gamma * alpha * exp(value);
}

// The operator on `backend` that computes the gradient from x.
static void check(const char *backend_name, const char *script, double alpha, double gamma)
{
    kernel_script s;
    ckm_i_backend *backend = NULL;
    ckm_i_kernel *kernel = NULL;
    int64_t bytes = 0;
    float dx[N] = {0};
    const void *inputs[] = {dy, x};
    void *outputs[] = {dx};
    ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs};
    kernel_script_read(&s, script, CKM_CHANNELS_FIRST);
    assert_int_equal(ckm_i_backend_create(backend_name, 1, &backend, NULL), CKM_OK);
    assert_int_equal(backend->prepare(backend, s.graph, 0, &kernel, &bytes, NULL), CKM_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(backend->run(backend, kernel, &call, NULL), CKM_OK);
    for (int i = 0; i < N; i++) {
        double wanted = (double)dy[i] * slope_of((double)x[i], alpha, gamma);
        if (fabs((double)dx[i] - wanted) > 1e-5 * fabs(wanted)) {
            fail_msg("%s on %s: %g at %g, not %g", script, backend_name, (double)dx[i], (double)x[i], wanted);
        }
    }
    backend->free_kernel(backend, kernel);
    ckm_i_backend_destroy(backend);
    kernel_script_free(&s);
}

static void test_slopes(void **state)
{
    (void)state;
    static const char *const backends[] = {"reference", "cpu"};
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        check(backends[i], "in 4;in 4;elu_backward 0 1 alpha=-0.5", -0.5, 1.0);
        check(backends[i], "in 4;in 4;selu_backward 0 1 alpha=-0.5 gamma=2.0", -0.5, 2.0);
        check(backends[i], "in 4;in 4;selu_backward 0 1 alpha=0.5 gamma=-2.0", 0.5, -2.0);
        check(backends[i], "in 4;in 4;selu_backward 0 1 alpha=-0.5 gamma=-2.0", -0.5, -2.0);
    }
}

// What the backward pass reads: the forward operator's input, or its output.
static void test_operands(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        bool input;
    } cases[] = {
        {"in 3x4;elu 0 alpha=0.5", false},
        {"in 3x4;elu 0 alpha=0.0", false},
        {"in 3x4;elu 0 alpha=-0.5", true},
        {"in 3x4;elu 0 alpha=-1e-80", false},
        {"in 3x4;selu 0", false},
        {"in 3x4;selu 0 alpha=-1.0", true},
        {"in 3x4;selu 0 alpha=1.0 gamma=-1.0", true},
        {"in 3x4;celu 0 alpha=-2.0", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kernel_script s;
        ckm_training *t = NULL;
        ckm_error err = CKM_ERROR_INIT;
        ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
        options.loss = CKM_LOSS_MSE;
        kernel_script_read(&s, cases[i].script, CKM_CHANNELS_FIRST);
        assert_int_equal(ckm_autodiff_op_graph(s.graph, &options, &t, &err), CKM_OK);
        bool found = false;
        for (int32_t v = 0; v < t->step->n_ops; v++) {
            const ckm_i_graph_op *op = &t->step->ops[v];
            if (strstr(op->op_class->kind, "lu_backward") != NULL) {
                assert_int_equal(t->step->tensors[op->inputs[1]].producer < 0, cases[i].input);
                found = true;
            }
        }
        assert_true(found);
        ckm_training_free(t);
        kernel_script_free(&s);
    }
}

static void test_celu_of_zero(void **state)
{
    (void)state;
    kernel_script s;
    ckm_training *t = NULL;
    ckm_error err = CKM_ERROR_INIT;
    kernel_script_read(&s, "in 3x4;celu 0 alpha=0.0", CKM_CHANNELS_FIRST);
    assert_int_equal(ckm_autodiff_op_graph(s.graph, NULL, &t, &err), CKM_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "\"tested\" (celu) has no gradient"));
    assert_non_null(strstr(err.message, "its alpha is 0"));
    kernel_script_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slopes),
        cmocka_unit_test(test_operands),
        cmocka_unit_test(test_celu_of_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
