// SPDX-License-Identifier: Apache-2.0
// A layer normalization of single precision whose scale is of half precision: the fast kernel read the scale as if it
// were single, past its end.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "run/backend/backend.h"

static void mixed_precision_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"cpu", "reference"};
    static const ckm_dtype types[] = {CKM_F16, CKM_F32};
    for (int i = 0; i < 4; i++) {
        ckm_error err = CKM_ERROR_INIT;
        ckm_graph *g = NULL;
        ckm_i_backend *backend = NULL;
        ckm_i_kernel *kernel = NULL;
        const ckm_shape shape = {2, {3, 4}};
        const ckm_shape row = {1, {4}};
        int32_t in[2];
        int32_t y;
        int64_t workspace = 0;
        float x[12] = {1.0F, 2.0F, 3.0F};
        float scale[4] = {1.0F};
        float out[12];
        const void *inputs[] = {x, scale};
        void *outputs[] = {out, NULL, NULL};
        assert_int_equal(ckm_i_graph_create("g", CKM_CHANNELS_FIRST, 3, &g, &err), CKM_OK);
        assert_int_equal(ckm_i_graph_add_tensor(g, "x", CKM_ROLE_INPUT, CKM_F32, &shape, &in[0], &err), CKM_OK);
        assert_int_equal(ckm_i_graph_add_tensor(g, "scale", CKM_ROLE_PARAMETER, types[i / 2], &row, &in[1], &err),
                         CKM_OK);
        assert_int_equal(
            ckm_i_graph_add_op(
                g, &(ckm_i_new_op){.kind = "layer_norm", .name = "norm", .inputs = {in, 2}, .n_outputs = 1}, &y, &err),
            CKM_OK);
        assert_int_equal(ckm_i_backend_create(names[i % 2], 1, &backend, &err), CKM_OK);
        ckm_status status = backend->prepare(backend, g, 0, &kernel, &workspace, &err);
        if (status == CKM_OK) {
            _Alignas(64) char aside[4096];
            ckm_i_kernel_call call = {.inputs = inputs, .outputs = outputs, .workspace = aside};
            assert_true(workspace <= (int64_t)sizeof aside);
            status = backend->run(backend, kernel, &call, &err);
            backend->free_kernel(backend, kernel);
        }
        assert_int_equal(status, types[i / 2] == CKM_F32 ? CKM_OK : CKM_ERR_UNSUPPORTED);
        ckm_i_backend_destroy(backend);
        ckm_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_precision_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
