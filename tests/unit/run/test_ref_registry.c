// SPDX-License-Identifier: Apache-2.0
// Every operator of the step graphs of all networks of the zoo has a reference kernel. Back ends by name.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <checkmate/autodiff.h>
#include <checkmate/zoo.h>

#include "run/backend/backend.h"
#include "run/cpu/ref_registry.h"

// No kind has two reference kernels; tests/unit/ops/test_op_records.c sees to it that every kind has one.
static void test_every_kernel(void **state)
{
    (void)state;
#define TABLE(group) ckm_i_ref_kernels_##group,
    static const ckm_i_reference_kernel *const groups[] = {CKM_I_REF_GROUPS(TABLE)};
#undef TABLE
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        for (const ckm_i_reference_kernel *k = groups[i]; k->kind != CKM_I_OP_NO_KIND; k++) {
            if (ckm_i_reference_find(k->kind) != k) {
                fail_msg("kind %d has two kernels", (int)k->kind);
            }
        }
    }
}

static void test_zoo(void **state)
{
    (void)state;
    ckm_i_backend *backend = NULL;
    assert_int_equal(ckm_i_backend_create("reference", 2, &backend, NULL), CKM_OK);
    assert_int_equal(backend->threads, 1);
    for (int32_t i = 0; i < ckm_zoo_count(); i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *network = NULL;
        ckm_training *training = NULL;
        ckm_autodiff_options options = CKM_AUTODIFF_OPTIONS_INIT;
        options.optimizer.kind = CKM_OPTIMIZER_ADAM;
        assert_int_equal(ckm_zoo_build(ckm_zoo_name(i), 1, NULL, &network, &err), CKM_OK);
        if (ckm_autodiff_op_graph(network, &options, &training, &err) != CKM_OK) {
            fail_msg("%s: %s", ckm_zoo_name(i), err.message);
        }
        for (int32_t v = 0; v < training->n_ops; v++) {
            ckm_i_kernel *kernel = NULL;
            int64_t workspace = -1;
            if (backend->prepare(backend, training->step, v, &kernel, &workspace, &err) != CKM_OK) {
                fail_msg("%s: %s", ckm_zoo_name(i), err.message);
            }
            assert_true(workspace >= 0);
            backend->free_kernel(backend, kernel);
        }
        ckm_training_free(training);
        ckm_graph_free(network);
    }
    ckm_i_backend_destroy(backend);
}

static void test_names(void **state)
{
    (void)state;
    ckm_i_backend *backend = NULL;
    ckm_error err = CKM_ERROR_INIT;
    assert_int_equal(ckm_i_backend_create("cpu", 1, &backend, &err), CKM_OK);
    assert_string_equal(backend->name, "cpu");
    ckm_i_backend_destroy(backend);
    backend = NULL;
    assert_int_equal(ckm_i_backend_create("abacus", 1, &backend, &err), CKM_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "abacus"));
    assert_null(backend);
    ckm_i_backend_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel),
        cmocka_unit_test(test_zoo),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
