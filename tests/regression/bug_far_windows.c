// SPDX-License-Identifier: Apache-2.0
// Weight gradients of convolutions whose windows reach far beyond the image: all of the padding was packed, gigabytes for
// an image of one element, and with the largest dilation the size of the workspace wrapped around to a few bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernel_script.h"

static int64_t workspace_of(const char *text, ckm_layout layout)
{
    kernel_script s;
    ckm_i_backend *cpu = NULL;
    ckm_i_kernel *kernel = NULL;
    int64_t bytes = -1;
    kernel_script_read(&s, text, layout);
    assert_int_equal(ckm_i_backend_create("cpu", 1, &cpu, NULL), CKM_OK);
    assert_int_equal(cpu->prepare(cpu, s.graph, 0, &kernel, &bytes, NULL), CKM_OK);
    cpu->free_kernel(cpu, kernel);
    ckm_i_backend_destroy(cpu);
    kernel_script_free(&s);
    return bytes;
}

static void test_workspace(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        ckm_layout layout;
    } cases[] = {
        {"in 1x8x1x1;in 1x20x1x1;conv_backward_weights 0 1 > 1 kernel=2,2 strides=1,1 dilation=5000,5000 "
         "padding=0,0,5000,5000 groups=1 weight_shape=8,20,2,2",
         CKM_CHANNELS_FIRST},
        {"in 1x8x1x1;in 1x20x1x1;conv_backward_weights 0 1 > 1 kernel=2,2 strides=1,1 dilation=1073741823,1073741823 "
         "padding=0,0,1073741823,1073741823 groups=1 weight_shape=8,20,2,2",
         CKM_CHANNELS_FIRST},
        {"in 1x4x1x8;in 1x4x4x20;conv_backward_weights 0 1 > 1 kernel=1,2 strides=1,1 dilation=1,90000 "
         "padding=0,89997,0,0 groups=1 weight_shape=1,2,20,8",
         CKM_CHANNELS_LAST},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t bytes = workspace_of(cases[i].script, cases[i].layout);
        if (bytes < 0 || bytes > 1 << 20) {
            fail_msg("%s: a workspace of %lld bytes", cases[i].script, (long long)bytes);
        }
        kernel_script_check(cases[i].script, cases[i].layout, 1, 1e-5);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_workspace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
